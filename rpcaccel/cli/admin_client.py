"""The client of the admin API that commands use: one request to a running proxy, and a text for each refusal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import typer

from rpcaccel.cli import terminal
from rpcaccel.config.secrets import shown_url
from rpcaccel.core.wire.printable import printable

T = TypeVar("T")

DEFAULT_ADMIN = "127.0.0.1:8889"
TIMEOUT, READING = 60.0, 10.0
"""Seconds: a purge walks through every key of a Redis, and workers take up a change; what is read comes at once."""
_HOLDS = {
    "/api/v1/nodes": {"nodes", "answering"},
    "/api/v1/networks": {"revision"},
    "/api/v1/clients": {"clients"},
    "/api/v1/overview": {"subscriptions"},
    "/api/v1/changes": {"changes"},
    "/api/v1/settings": {"revision", "document"},
    "/api/v1/errors": {"groups", "samples"},
    "/api/v1/alerts": {"webhooks", "tests"},
    "/api/v1/record": {"calls"},
    "/api/v1/explain": {"method"},
    "/api/v1/purge": {"memory"},
}
"""By the beginning of a path, members of which every answer of the admin API has at least one. An answer without any
comes from another program."""

_CACERT = "rpcaccel.cacert"


class AdminSide(str):
    """The address of an admin side, and the file of the authorities that its certificate is checked against."""

    __slots__ = ("cacert",)
    cacert: Path | None

    def __new__(cls, address: str, cacert: Path | None = None) -> AdminSide:
        side = super().__new__(cls, address)
        side.cacert = cacert
        return side


def _trusting(context: typer.Context, cacert: Path | None) -> None:
    context.meta[_CACERT] = cacert


def _side(context: typer.Context, address: str) -> AdminSide:
    return AdminSide(address, context.meta.get(_CACERT))


AdminAddress = Annotated[
    str,
    typer.Option(
        "--admin", envvar="RPCACCEL_ADMIN", metavar="HOST:PORT", help="The admin side of the proxy.", callback=_side
    ),
]
CaCert = Annotated[
    Path | None,
    typer.Option(
        "--cacert",
        envvar="RPCACCEL_CACERT",
        metavar="FILE",
        help="Authorities (PEM) of an admin side at https://, in place of the system's.",
        callback=_trusting,
        expose_value=False,
        is_eager=True,
    ),
]
"""Beside each --admin (`main.run`). It is read first, and goes with the address (`AdminSide`)."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


class RemoteError(Exception):
    """The admin side could not be asked, or refused; the text is for the operator."""

    def __init__(self, text: str) -> None:
        # The text may quote the server that answered, and is shown on a terminal.
        super().__init__("\n".join(printable(line) for line in text.split("\n")))


def post(admin: str, path: str, document: str) -> dict[str, Any]:
    """Send a JSON document to the admin side; returns the document of the answer. Raises RemoteError."""
    answer: dict[str, Any] = ask(admin, "POST", path, document)
    return answer


async def meanwhile(asking: Callable[[], T]) -> T:
    """Run a request that blocks in a thread of its own. A caller that is cancelled does not wait for the thread."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(how: Callable[[Any], None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else how(what))

    def ask_now() -> None:
        try:
            found = asking()
        except Exception as error:
            tell(answer.set_exception, error)
        else:
            tell(answer.set_result, found)

    threading.Thread(target=ask_now, daemon=True).start()
    return await answer


def ask(
    admin: str,
    method: str,
    path: str,
    document: str | None = None,
    *,
    revision: int | None = None,
    patience: float | None = None,
) -> Any:
    """Send one request to the admin side; returns the document of the answer.

    `revision`: the revision of the settings that a change is made for; `patience`: seconds that the answer may take.
    Raises RemoteError.
    """

    def read(body: bytes) -> Any:
        answer = json.loads(body)
        for place, members in _HOLDS.items():
            if path.startswith(place) and not (isinstance(answer, dict) and members & answer.keys()):
                raise ValueError
        return answer

    return _read(admin, method, path, document, revision, read, patience)


def text(admin: str, path: str, *, begins: str = "") -> str:
    """The text that the admin side answers to a GET. Raises RemoteError, also for a text that does not begin with
    `begins`."""

    def read(body: bytes) -> str:
        if not (answer := body.decode()).startswith(begins):
            raise ValueError
        return answer

    return str(_read(admin, "GET", path, None, None, read))


def _read(
    admin: str,
    method: str,
    path: str,
    document: str | None,
    revision: int | None,
    read: Callable[[bytes], Any],
    patience: float | None = None,
) -> Any:
    """Send a request, with the NAME:PASSWORD in RPCACCEL_TOKEN if it is set; returns what `read` makes of the body of
    the answer. Raises RemoteError."""
    headers = _headers() | ({"If-Match": f'"{revision}"'} if revision is not None else {})
    body = None if document is None else document.encode()
    request = Request(f"{_base(admin)}{path}", body, headers, method=method)
    try:
        opener = build_opener(ProxyHandler({}), _Stays(), HTTPSHandler(context=_authorities(admin)))
        with opener.open(request, timeout=patience or _patience(method, path)) as reply:
            answer = read(reply.read())
    except HTTPError as error:
        with error:
            raise RemoteError(_refusal(error, admin)) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            said = f"its certificate is not trusted: {reason.verify_message}"
            raise RemoteError(f"{admin}: {said} (--cacert or RPCACCEL_CACERT names the file to trust)") from None
        reason = getattr(reason, "strerror", None) or reason
        raise RemoteError(
            f"no answer from the admin side at {admin}: {reason} (--admin or RPCACCEL_ADMIN says where it is)"
        ) from None
    except (HTTPException, ValueError):
        raise RemoteError(f"what answers at {admin} is not the admin side of rpcaccel") from None
    return answer


def _authorities(admin: str) -> ssl.SSLContext:
    """The certificates that are trusted. Raises RemoteError for a file that holds none."""
    cacert = admin.cacert if isinstance(admin, AdminSide) else None
    try:
        return ssl.create_default_context(cafile=cacert)
    except ssl.SSLError:
        raise RemoteError(f"--cacert {cacert}: expected certificates in PEM") from None
    except OSError as error:
        raise RemoteError(f"--cacert {cacert}: cannot be read: {error.strerror}") from None


def known_network(admin: str, name: str) -> None:
    """Check that the proxy serves a network of this name; an empty name stands for all. Raises RemoteError."""
    there = ask(admin, "GET", "/api/v1/settings")["document"]["networks"] if name else ()
    if name and name not in there:
        raise RemoteError(f"no network is called {name}; there is: {', '.join(there)}")


class _Stays(HTTPRedirectHandler):
    """Follows no redirect: the password would be sent to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _patience(method: str, path: str) -> float:
    return READING if method == "GET" or path.endswith("/record") else TIMEOUT


def show_change(done: dict[str, Any], *, as_json: bool) -> None:
    """Print the outcome of a change."""
    if as_json:
        terminal.show_json(outcome(done))
    else:
        typer.echo(told(done))


def outcome(done: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a change, without the settings themselves."""
    return {key: done[key] for key in ("revision", "change", "adopted", "waiting", "persisted", "note")}


def agreed(question: str, otherwise: str) -> bool:
    """Whether the operator says yes to a question. Raises typer.Abort where nobody can be asked, after `otherwise`."""
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)  # typer.confirm writes a space to stdout
    if not (answer := sys.stdin.readline()):
        typer.echo(f"\nrpcaccel: {otherwise}; --yes does it without asking", err=True)
        raise typer.Abort
    return answer.strip().lower() in {"y", "yes"}


def told(done: dict[str, Any]) -> str:
    """The outcome of a change in one line: "revision 5: harmony-s0 a: weight 1 to 5 (2 workers)"."""
    if done["change"] is None:
        return f"nothing to change; revision {done['revision']}"
    adopted = done["adopted"]
    line = f"revision {done['revision']}: {done['change']['text']} ({terminal.plural(adopted, 'worker')})"
    waiting = f"waits for a restart: {', '.join(done['waiting'])}" if done["waiting"] else ""
    return "\n".join(filter(None, [line, waiting, done["note"]]))


def _base(admin: str) -> str:
    """The URL of an admin address. A host name without a URL scheme needs a port, since port 80 is never meant. Raises
    RemoteError."""
    if "@" in admin:
        raise RemoteError("--admin: expected an address alone; RPCACCEL_TOKEN=NAME:PASSWORD says who asks")
    is_url = admin.startswith(("http://", "https://"))
    base = admin.rstrip("/") if is_url else f"http://{admin}"
    try:
        parts = urlsplit(base)
        found = parts.hostname and (is_url or parts.port)
    except ValueError:
        found = None
    if not found:
        raise RemoteError(f"--admin: found {admin!r}, expected HOST:PORT such as {DEFAULT_ADMIN}, or a URL")
    return base


def _headers() -> dict[str, str]:
    """The headers of every request. Raises RemoteError for a token that cannot be sent."""
    token = _token()
    if not token.isprintable():
        raise RemoteError("RPCACCEL_TOKEN: expected NAME:PASSWORD in one line")
    token = token.encode().decode("latin-1")  # headers are written as Latin-1: the server gets UTF-8
    headers = {"Content-Type": "application/json", "X-Rpcaccel-Request": "cli"}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _token() -> str:
    return os.environ.get("RPCACCEL_TOKEN", "").strip()


def _refusal(error: HTTPError, admin: str) -> str:
    """The detail of a problem document (RFC 9457), or a sentence about the HTTP status of any other answer."""
    if 300 <= error.code < 400:
        where = shown_url(error.headers.get("Location", ""))
        return f"what answers at {admin} sends on to {where}: say --admin {where} if that is the admin side"
    if error.code == HTTPStatus.UNAUTHORIZED:
        if _token():
            return "the name or the password in RPCACCEL_TOKEN is wrong"
        return "the admin side asks who it is: set RPCACCEL_TOKEN to NAME:PASSWORD"
    try:
        document = json.loads(error.read())
        return str(document.get("detail") or document["title"])
    except (ValueError, KeyError, TypeError, AttributeError):
        if error.code in {404, 405}:
            return f"what answers at {admin} is not the admin side of rpcaccel (HTTP {error.code})"
        return f"the admin side answered {error.code} {error.reason}"
