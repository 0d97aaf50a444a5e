"""Errors of the admin API as problem documents (RFC 9457), with a code that stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from rpcaccel.config.errors import Fault

TITLES = {
    "not-json": "The body is no JSON object",
    "not-logged-in": "Log in first",
    "wrong-password": "The name or the password is wrong",
    "not-allowed": "This account may not do that",
    "cross-site": "X-Rpcaccel-Request is missing or Origin is not ours: changes come from the page or a program",
    "not-found": "There is no such thing",
    "refused": "The change was refused; nothing is changed anywhere",
    "no-file": "There is no config file to be read again",
    "changed-meanwhile": "The settings were changed meanwhile",
    "too-large": "The body is too large",
    "too-slow": "The body took too long",
    "malformed-body": "The body does not fit its Content-Encoding or Transfer-Encoding",
    "wrong-host": "The admin side is asked under its own address only (Host header)",
    "invalid-settings": "The settings would not be valid",
    "if-match-required": "Say by If-Match which revision the change is made for",
    "too-many-logins": "Too many attempts to log in",
    "no-answer": "The proxy's own front did not answer",
    "invalid-selection": "What is meant is not said, or more than one thing is",
    "invalid-question": "That cannot be answered",
    "not-a-call": "The call is no JSON-RPC call",
}
"""Every code with its title."""


class ProblemError(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        faults: Sequence[Fault] = (),
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = headers or {}
        self.more = more

    def response(self) -> web.Response:
        """The document."""
        document = {"code": self.code, **({"detail": self.detail} if self.detail else {}), **self.more}
        if self.faults:
            document["errors"] = [
                {"path": fault.path, "found": fault.found, "expected": fault.expected, "text": str(fault)}
                for fault in self.faults
            ]
        response = problem(self.status, TITLES[self.code], document)
        response.headers.update(self.headers)
        return response


def problem(status: int, title: str, more: dict[str, Any] | None = None) -> web.Response:
    """A problem document of this status."""
    body = msgspec.json.encode({"type": "about:blank", "title": title, "status": status, **(more or {})})
    return web.Response(status=status, body=body, content_type="application/problem+json")


def json_response(document: object) -> web.Response:
    """An answer with this document."""
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")
