"""The opening handshake of a WebSocket (RFC 6455 section 4), from a server's side, and what it offers (RFC 7692).

Only a handshake that every parser reads alike is read here. Any other request that wants an upgrade goes to a complete
HTTP server, and `fault` says what is wrong with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from rpcaccel.core.wire.http_head import FIELDS

WEBSOCKET_VERSION = "13"
_HEAD = re.compile(rb"GET (/[!\"$&-;=@-~]*+(?:\?[!-\"$-~]*+)?+) HTTP/1\.1\r\n" + FIELDS + rb"\r\n")
_LISTS = frozenset({"connection", "cookie", "forwarded", "sec-websocket-extensions", "sec-websocket-protocol", "via",
                    "x-forwarded-for"})  # fmt: skip
"""Headers that may come several times and then stand for one list (RFC 9110 section 5.3)."""
_SEPARATORS = {"cookie": "; "}
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16
_WINDOWS = {str(bits): bits for bits in range(9, 16)}
"""The windows that zlib can write, in bits."""
_FLAGS = frozenset({"server_no_context_takeover", "client_no_context_takeover"})
_AGREED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_LARGEST = 15
_NAMED = "server_max_window_bits"


class Fields(Protocol):
    """Headers by name in lower case."""

    def get(self, key: str, default: str) -> str:
        """The first value of a header."""
        ...


class Handshake(Struct, frozen=True, gc=False):
    """A client's part of a handshake."""

    path: str
    """With the query, if there is one. Percent signs stand in the query alone."""
    headers: Mapping[str, str]
    """Header values by lower-case name; those that came several times are joined."""
    key: str
    window: int
    """The window in bits with which answers may be compressed; 0: the client did not offer that, or offered what cannot
    be done here."""
    named: bool
    """Did the offer name this window? The answer must name it then (RFC 7692 section 7.1.2.1)."""


class HandshakeFault(Struct, frozen=True):
    """Why a handshake is refused."""

    status: int
    words: str


def read_handshake(head: bytes) -> Handshake | None:
    """Parse a head that ends with the empty line; None when it is not that of a well-formed handshake."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    headers: dict[str, str] = {}
    for line in match[2].decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in _LISTS:
            headers[name] += _SEPARATORS.get(name, ", ") + value
        else:
            return None
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0" or fault(headers) is not None:
        return None
    window, named = window_offered(headers.get("sec-websocket-extensions", ""))
    return Handshake(match[1].decode("ascii"), headers, headers["sec-websocket-key"], window, named)


def fault(headers: Fields) -> HandshakeFault | None:
    """What is wrong with the headers of a handshake; None when they are as they must be."""
    if not headers.get("host", ""):
        return HandshakeFault(400, "the header Host is missing")
    if headers.get("upgrade", "").strip().lower() != "websocket":
        return HandshakeFault(426, "the header Upgrade must be websocket")
    if "upgrade" not in {item.strip().lower() for item in headers.get("connection", "").split(",")}:
        return HandshakeFault(400, "the header Connection must name upgrade")
    if headers.get("sec-websocket-version", "").strip() != WEBSOCKET_VERSION:
        return HandshakeFault(426, f"the header Sec-WebSocket-Version must be {WEBSOCKET_VERSION}")
    if not _is_key(headers.get("sec-websocket-key", "").strip()):
        return HandshakeFault(400, f"the header Sec-WebSocket-Key must be {_KEY_BYTES} bytes in base64")
    return None


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def accepted(handshake: Handshake, server: str) -> bytes:
    """The head of the answer that opens the WebSocket. No subprotocol is chosen."""
    digest = hashlib.sha1(handshake.key.encode("ascii") + _GUID, usedforsecurity=False).digest()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode('ascii')}",
        f"Server: {server}",
    ]
    if handshake.window:
        narrow = f"; server_max_window_bits={handshake.window}" if handshake.named else ""
        lines.append(f"Sec-WebSocket-Extensions: {_AGREED}{narrow}")
    return "\r\n".join((*lines, "\r\n")).encode("ascii")


def window_offered(extensions: str) -> tuple[int, bool]:
    """The window of the first offer of permessage-deflate that can be accepted (RFC 7692 section 7.1), and whether the
    offer named it; 0: there is none."""
    for offer in extensions.split(","):
        name, *params = (part.strip() for part in offer.split(";"))
        if name.lower() == "permessage-deflate" and (window := _window(params)):
            return window, any(param.partition("=")[0].strip() == _NAMED for param in params)
    return 0, False


def _window(params: list[str]) -> int:
    """The window that the parameters of an offer ask for; 0 where one of them is unknown, repeated or out of range."""
    window, met = _LARGEST, set[str]()
    for param in params:
        name, equals, value = (part.strip() for part in param.partition("="))
        value = value.strip('"')
        if name in met:
            return 0
        met.add(name)
        if name == _NAMED:
            window = _WINDOWS.get(value, 0)
        elif name == "client_max_window_bits":
            window = window if not equals or value in _WINDOWS or value == "8" else 0
        elif name not in _FLAGS or equals:
            window = 0
        if not window:
            return 0
    return window
