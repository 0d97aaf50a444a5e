"""Commands that ask a running proxy: one request to its admin side, and its refusals in a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from http.client import HTTPException
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import typer

DEFAULT = "127.0.0.1:8889"
TIMEOUT = 60.0
"""Seconds; a purge walks through every key of a Redis."""

Admin = Annotated[
    str, typer.Option("--admin", envvar="RPCACCEL_ADMIN", metavar="HOST:PORT", help="The admin side of the proxy.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the document itself.")]


class RemoteError(Exception):
    """The admin side could not be asked, or refused; the text is for the operator."""


def post(admin: str, path: str, document: str) -> dict[str, Any]:
    """Send a JSON document to the admin side; what it answers. Raises RemoteError."""
    answer: dict[str, Any] = ask(admin, "POST", path, document)
    return answer


def ask(admin: str, method: str, path: str, document: str | None = None, *, revision: int | None = None) -> Any:
    """One request to the admin side; the document it answers. `revision`: the one a change is made for.

    Raises RemoteError.
    """
    return _read(admin, method, path, document, revision, json.loads)


def text(admin: str, path: str) -> str:
    """What the admin side answers to a GET, as text. Raises RemoteError."""
    return str(_read(admin, "GET", path, None, None, bytes.decode))


def _read(
    admin: str, method: str, path: str, document: str | None, revision: int | None, read: Callable[[bytes], Any]
) -> Any:
    """RPCACCEL_TOKEN, as NAME:PASSWORD, is sent along where the admin side asks who it is."""
    headers = _headers() | ({"If-Match": f'"{revision}"'} if revision is not None else {})
    body = None if document is None else document.encode()
    request = Request(f"{_base(admin)}{path}", body, headers, method=method)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT) as reply:
            answer = read(reply.read())
    except HTTPError as error:
        with error:
            raise RemoteError(_refusal(error, admin)) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason
        raise RemoteError(
            f"no answer from the admin side at {admin}: {reason} (--admin or RPCACCEL_ADMIN says where it is)"
        ) from None
    except (HTTPException, ValueError):
        raise RemoteError(f"what answers at {admin} is not the admin side of rpcaccel") from None
    return answer


def failed(error: RemoteError) -> int:
    """Say why it did not work; the exit code."""
    typer.echo(f"rpcaccel: {error}", err=True)
    return 1


def told(done: dict[str, Any]) -> str:
    """What a change did, in a line: "revision 5: harmony-s0 a: weight 1 to 5 (2 workers)"."""
    if done["change"] is None:
        return f"nothing to change; revision {done['revision']}"
    adopted = done["adopted"]
    line = f"revision {done['revision']}: {done['change']['text']} ({adopted} worker{'' if adopted == 1 else 's'})"
    waiting = f"waits for a restart: {', '.join(done['waiting'])}" if done["waiting"] else ""
    return "\n".join(filter(None, [line, waiting, done["note"]]))


def _base(admin: str) -> str:
    """The address as a URL. Raises RemoteError; a bare name needs its port, since 80 is never meant."""
    is_url = admin.startswith(("http://", "https://"))
    base = admin.rstrip("/") if is_url else f"http://{admin}"
    try:
        parts = urlsplit(base)
        found = parts.hostname and (is_url or parts.port)
    except ValueError:
        found = None
    if not found:
        raise RemoteError(f"--admin: found {admin!r}, expected HOST:PORT such as {DEFAULT}, or a URL")
    return base


def _headers() -> dict[str, str]:
    token = os.environ.get("RPCACCEL_TOKEN", "")
    headers = {"Content-Type": "application/json", "X-Rpcaccel-Request": "cli"}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _refusal(error: HTTPError, admin: str) -> str:
    """The problem document's own words (RFC 9457), the status else."""
    try:
        document = json.loads(error.read())
        return str(document.get("detail") or document["title"])
    except (ValueError, KeyError, TypeError, AttributeError):
        if error.code in {404, 405}:
            return f"what answers at {admin} is not the admin side of rpcaccel (HTTP {error.code})"
        return f"the admin side answered {error.code} {error.reason}"
