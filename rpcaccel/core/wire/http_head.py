"""Parses the head of an ordinary HTTP/1.1 POST.

Ordinary means that every parser agrees on where the body begins and ends and on what is requested. For everything else
(other methods and versions, chunked bodies, folded lines, a repeated or hop-by-hop header, bytes outside the grammar of
RFC 9112) the result is None, and the request goes unchanged to a complete HTTP server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

END = b"\r\n\r\n"
# All quantifiers are possessive: each byte is read once, however a client makes the match fail.
FIELDS = rb"((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n){1,64}+)"
"""The pattern of header lines, as one group."""
_HEAD = re.compile(rb"POST (/[!\"$&-;=?-~]*+) HTTP/1\.1\r\n" + FIELDS + rb"\r\n")
_LENGTH = re.compile(r"[0-9]{1,10}")
_ODD = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade", "te", "trailer", "http2-settings"})


class HttpHead(Struct, frozen=True, gc=False):
    """The head of an ordinary POST."""

    path: str
    """With the query, if there is one."""
    length: int
    """Content-Length: bytes of the body."""
    headers: Mapping[str, str]
    """Header values by lower-case name; no name is repeated."""


def read_head(head: bytes) -> HttpHead | None:
    """Parse a head that ends with the empty line; None when it is not that of an ordinary POST."""
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
