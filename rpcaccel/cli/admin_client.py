"""The client of the admin API that commands use: one request to a running proxy, and a text for each refusal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from rpcaccel.config.secrets import shown_url
from rpcaccel.core.wire.printable import printable

T = TypeVar("T")

DEFAULT_ADMIN = "127.0.0.1:8889"
READ_TIMEOUT_SECONDS, CHANGE_TIMEOUT_SECONDS = 10.0, 60.0
"""What is read comes at once; a purge walks through every key of a Redis, and workers take up a change."""
_API = "/api/v1/"
_MEMBERS = {
    "nodes": {"nodes", "answering"},
    "networks": {"revision"},
    "clients": {"clients"},
    "overview": {"subscriptions"},
    "changes": {"changes"},
    "settings": {"revision", "document"},
    "errors": {"groups", "samples"},
    "alerts": {"webhooks", "tests"},
    "record": {"calls"},
    "explain": {"method"},
    "purge": {"memory"},
}
"""By the beginning of a path, members of which every answer of the admin API has at least one. An answer without any
comes from another program."""


class RemoteError(Exception):
    """The admin side could not be asked, or refused; the text is for the operator."""

    def __init__(self, text: str) -> None:
        # The text may quote the server that answered, and is shown on a terminal.
        super().__init__("\n".join(printable(line) for line in text.split("\n")))


class AdminClient:
    """The admin side of a running proxy. Paths are those below /api/v1/; every method raises RemoteError."""

    def __init__(self, address: str, cacert: Path | None = None) -> None:
        """`cacert`: the file of the authorities that a certificate is checked against, in place of the system's."""
        self._address = address
        self._cacert = cacert

    def __str__(self) -> str:
        return self._address

    def get(self, path: str, *, timeout: float = READ_TIMEOUT_SECONDS) -> Any:
        """The document at a path. `timeout` in seconds."""
        return self._ask("GET", path, None, timeout)

    def post(self, path: str, document: object, *, timeout: float = CHANGE_TIMEOUT_SECONDS) -> Any:
        """Send a document, or the JSON text of one; the document of the answer. `timeout` in seconds."""
        return self._ask("POST", path, document, timeout)

    def change(self, path: str, document: object, *, revision: int | None, method: str = "PATCH") -> Any:
        """Change settings that are still of this revision (any when None); the document of the answer."""
        return self._ask(method, path, document, CHANGE_TIMEOUT_SECONDS, revision)

    def text(self, path: str, *, begins: str = "") -> str:
        """The text at a path from the root. Raises RemoteError also for a text that does not begin with `begins`."""

        def read(body: bytes) -> str:
            if not (answer := body.decode()).startswith(begins):
                raise ValueError
            return answer

        return self._read(Request(f"{self._base()}{path}", None, _headers()), READ_TIMEOUT_SECONDS, read)

    def _ask(self, method: str, path: str, document: object, timeout: float, revision: int | None = None) -> Any:
        def read(body: bytes) -> Any:
            answer = json.loads(body)
            for place, members in _MEMBERS.items():
                if path.startswith(place) and not (isinstance(answer, dict) and members & answer.keys()):
                    raise ValueError
            return answer

        text = document if document is None or isinstance(document, str) else json.dumps(document)
        headers = _headers() | ({} if revision is None else {"If-Match": f'"{revision}"'})
        body = None if text is None else text.encode()
        return self._read(Request(f"{self._base()}{_API}{path}", body, headers, method=method), timeout, read)

    def _read(self, request: Request, timeout: float, read: Callable[[bytes], T]) -> T:
        """Send a request; returns what `read` makes of the body of the answer."""
        try:
            opener = build_opener(ProxyHandler({}), _StayingHandler(), HTTPSHandler(context=self._authorities()))
            with opener.open(request, timeout=timeout) as reply:
                return read(reply.read())
        except HTTPError as error:
            with error:
                raise RemoteError(_refusal(error, self._address)) from None
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                untrusted = f"its certificate is not trusted: {reason.verify_message}"
                hint = "--cacert or RPCACCEL_CACERT names the file to trust"
                raise RemoteError(f"{self._address}: {untrusted} ({hint})") from None
            said, hint = getattr(reason, "strerror", None) or reason, "--admin or RPCACCEL_ADMIN says where it is"
            raise RemoteError(f"no answer from the admin side at {self._address}: {said} ({hint})") from None
        except (HTTPException, ValueError):
            raise RemoteError(f"what answers at {self._address} is not the admin side of rpcaccel") from None

    def _authorities(self) -> ssl.SSLContext:
        """The certificates that are trusted. Raises RemoteError for a file that holds none."""
        try:
            return ssl.create_default_context(cafile=self._cacert)
        except ssl.SSLError:
            raise RemoteError(f"--cacert {self._cacert}: expected certificates in PEM") from None
        except OSError as error:
            raise RemoteError(f"--cacert {self._cacert}: cannot be read: {error.strerror}") from None

    def _base(self) -> str:
        """The URL of the address. A host name without a URL scheme needs a port, since port 80 is never meant."""
        admin = self._address
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


def known_network(name: str, networks: dict[str, Any]) -> Any:
    """The settings of a network that a proxy serves. Raises RemoteError where it serves none of this name."""
    if name not in networks:
        raise RemoteError(f"no network is called {name}; there is: {', '.join(networks)}")
    return networks[name]


class _StayingHandler(HTTPRedirectHandler):
    """Follows no redirect: the password would be sent to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _headers() -> dict[str, str]:
    """The headers of every request, with the NAME:PASSWORD in RPCACCEL_TOKEN if it is set. Raises RemoteError for a
    token that cannot be sent."""
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
