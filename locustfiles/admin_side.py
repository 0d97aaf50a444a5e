"""Requests to the admin side of the proxy (--admin or RPCACCEL_ADMIN, RPCACCEL_TOKEN, RPCACCEL_CACERT)."""

from __future__ import annotations

import json
import os
import ssl
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from locust.env import Environment

USUAL = "127.0.0.1:8889"
READ_SECONDS = 30.0
"""Seconds."""
MAX_ANSWER_BYTES = 64_000_000
"""Bytes of an answer that are read."""


class _StayingHere(HTTPRedirectHandler):
    """A redirect is an error: the token goes to the admin side alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def address(environment: Environment) -> str:
    """The URL of the admin side; empty when none was named."""
    place = (getattr(environment.parsed_options, "admin", "") or "").strip().rstrip("/")
    return place if not place or place.startswith(("http://", "https://")) else f"http://{place}"


def ask(
    base: str, path: str, method: str = "GET", document: Any = None, headers: dict[str, str] | None = None
) -> bytes:
    """Make one request. Raises OSError, HTTPException, ValueError."""
    sent = {"Content-Type": "application/json", "X-Rpcaccel-Request": "cli", **(headers or {})}
    if token := _token():
        sent["Authorization"] = f"Bearer {token}"
    body = None if document is None else json.dumps(document).encode()
    request = Request(base + path, body, sent, method=method)
    trusted = ssl.create_default_context(cafile=os.environ.get("RPCACCEL_CACERT") or None)
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trusted), _StayingHere())
    with opener.open(request, timeout=READ_SECONDS) as reply:
        found: bytes = reply.read(MAX_ANSWER_BYTES)
        return found


def _token() -> str:
    return os.environ.get("RPCACCEL_TOKEN", "").strip()


def reason(error: Exception) -> str:
    """Why `ask` failed, in words that hold no secret."""
    if isinstance(error, HTTPError) and error.code == HTTPStatus.UNAUTHORIZED:
        return (
            "the name or the password in RPCACCEL_TOKEN is wrong"
            if _token()
            else "it asks for RPCACCEL_TOKEN=NAME:PASSWORD"
        )
    if isinstance(error, HTTPError):
        return f"it answered HTTP {error.code}"
    if isinstance(error, URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    if isinstance(error, HTTPException):
        return "it does not answer as an HTTP server does"
    return str(error)
