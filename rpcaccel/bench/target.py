"""Where calls are sent: an address whose secrets are never shown, and the fixed part of its requests."""

from __future__ import annotations

import ssl
from base64 import b64encode
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from rpcaccel.config.address import NodeUrl


class Target(Struct, frozen=True):
    """One endpoint."""

    host: str
    port: int
    tls: bool
    shown: str
    """Scheme, host and port: a path may hold a key."""
    head: bytes
    """A request up to the value of Content-Length."""

    def request(self, body: bytes) -> bytes:
        """The bytes of a request."""
        return b"%b%d\r\n\r\n%b" % (self.head, len(body), body)

    def context(self) -> ssl.SSLContext | None:
        """What TLS needs, None without it."""
        return ssl.create_default_context() if self.tls else None

    @property
    def local(self) -> bool:
        """Is it on this machine, by its address?"""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def parse(url: str) -> Target:
    """The target of a URL. Raises ValueError for what is none; the text holds no secret."""
    shown = NodeUrl(url).shown
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = port == (443 if tls else 80)
    name = f"[{host}]" if ":" in host else host
    lines = [f"POST {path} HTTP/1.1", f"Host: {name if usual else f'{name}:{port}'}", "Content-Type: application/json"]
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Authorization: Basic {b64encode(secret.encode()).decode()}")
    head = "\r\n".join((*lines, "Content-Length: ")).encode("latin-1")
    return Target(host, port, tls, shown, head)
