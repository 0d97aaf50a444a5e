"""The head of an ordinary HTTP/1.1 POST: read at once, or not at all.

Ordinary means that every reader agrees on where the body begins and ends and on what the request asks for. All else
(other methods and versions, chunks, folded lines, a repeated or a hop-by-hop header, bytes outside the grammar of RFC
9112) is None here and goes, unchanged, to a complete HTTP server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

END = b"\r\n\r\n"
# Possessive throughout: bytes are looked at once, however a client makes the match fail.
_HEAD = re.compile(
    rb"POST (/[!\"$&-;=@-~]*+) HTTP/1\.1\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n){1,64}+)\r\n"
)
_LENGTH = re.compile(r"[0-9]{1,10}")
_ODD = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade", "te", "trailer", "http2-settings"})


class HttpHead(Struct, frozen=True, gc=False):
    """An ordinary POST's head."""

    path: str
    length: int
    """Bytes of the body."""
    headers: Mapping[str, str]
    """By lower-case name; each name stands once."""


def read_head(head: bytes) -> HttpHead | None:
    """Read a head, the empty line at its end included; None when it is not an ordinary POST's."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    headers: dict[str, str] = {}
    for line in match[2].decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in headers or name in _ODD:
            return None
        headers[name] = value.strip(" \t")
    length = headers.get("content-length", "")
    if not _LENGTH.fullmatch(length) or "host" not in headers:
        return None
    if headers.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    return HttpHead(match[1].decode("ascii"), int(length), headers)
