"""The HTTP server of the admin side: routes behind their guards, the sampling of the history, and the dashboard's
files.

Without accounts the admin side may listen on this machine alone. The Host header is checked against DNS rebinding, by
which a web page elsewhere makes a browser send requests here: such requests carry another host's name. The files of the
dashboard are found in a checkout and in an installed wheel alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import structlog
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import UNSET, Struct

import rpcaccel
from rpcaccel.config.model import AdminSettings
from rpcaccel.config.schema import explanations
from rpcaccel.config.secrets import is_loopback, parse_listen
from rpcaccel.config.validate import OPEN, is_open
from rpcaccel.controlplane.admin import admin_connections
from rpcaccel.controlplane.admin.admin_routes import ANSWER_HEADERS, ROUTES, AdminRoute, describe
from rpcaccel.controlplane.admin.alert_routes import AlertRoutes, attention_document
from rpcaccel.controlplane.admin.auth import (
    ADDRESS,
    PROOF,
    WHO,
    Gate,
    Sessions,
    admit,
    has_left,
    same_site,
)
from rpcaccel.controlplane.admin.diagnostics import QueryRoutes
from rpcaccel.controlplane.admin.event_stream import LiveEvents
from rpcaccel.controlplane.admin.handling import (
    AUTHOR,
    MAX_BODY_BYTES,
    STILL_ALLOWED,
    STREAM_HEADERS,
    TITLES,
    Control,
    Problem,
    ProblemError,
    json_response,
)
from rpcaccel.controlplane.admin.login_throttle import FailedLogins
from rpcaccel.controlplane.admin.settings_api import ChangeRoutes
from rpcaccel.controlplane.admin.weight_routes import WeightRoutes
from rpcaccel.controlplane.documents import current_figures, error_documents
from rpcaccel.controlplane.documents.client_figures import ClientDocument, Clients, client_document, clients_document
from rpcaccel.controlplane.documents.error_documents import (
    ErrorGroupOpened,
    ErrorQuestion,
    ErrorsNow,
    Treatment,
    treatment,
)
from rpcaccel.controlplane.documents.series import CLIENT_RANGES, client_past
from rpcaccel.controlplane.hosts.host_book import HostsNow
from rpcaccel.controlplane.settings.ledger import Author
from rpcaccel.controlplane.stats import prometheus
from rpcaccel.controlplane.stats.attention import NODES_SECONDS, attention, failing_networks, failing_nodes
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.notices import LEVELS, tier_changes
from rpcaccel.controlplane.stats.snapshot import AdminView, Frame, Notice
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.controlplane.workers.operations import OperationRefused, read
from rpcaccel.controlplane.workers.sockets import name_asked
from rpcaccel.core.wire.forwarded_for import Trust
from rpcaccel.dataplane.certificate import ServedCertificate

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""The media type of each kind of file that is served; other files in the folder are not served."""


class Page(Struct, frozen=True):
    """One file."""

    body: bytes
    content_type: str


def dashboard_home(package: Path | None = None) -> Path | None:
    """The folder of the page: inside the installed package, or beside it in a checkout; None when it is in neither."""
    package = package or Path(rpcaccel.__file__).parent
    for folder in (package / "dashboard", package.parent / "dashboard"):
        if (folder / "index.html").is_file():
            return folder
    return None


def page_files(home: Path | None = None) -> dict[str, Page]:
    """Every file to be served, by its path below the folder; none when there is no folder."""
    home = home or dashboard_home()
    if home is None:
        return {}
    return {
        path.relative_to(home).as_posix(): Page(path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(home.rglob("*"))
        if path.suffix in MEDIA_TYPES and path.is_file() and not path.is_symlink()
    }


log = structlog.get_logger("rpcaccel.admin")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answering = Callable[[web.Request], Awaitable[object]]
"""A handler of a route: it returns the document of the answer, or the response itself."""

BODY_TIMEOUT_SECONDS = 30.0
"""Seconds in which the body of a request has to be there."""


class Admin:
    """The admin side over one view; `start` listens, `close` ends."""

    def __init__(  # noqa: PLR0913 -- all but the view and the control have defaults
        self,
        view: AdminView,
        listen: str = "127.0.0.1:8889",
        *,
        control: Control,
        links: Sequence[Link] = (),
        settings: Callable[[], AdminSettings] = AdminSettings,
        files: dict[str, Page] | None = None,
        sessions: Path | None = None,
        history: History | None = None,
        certificate: ServedCertificate | None = None,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`settings` gives the accounts of the moment; `sessions` is the file of their sessions; `history` takes in
        what is sampled; `interval`: seconds between two points of it.

        Raises ValueError with the fault of `listen`.
        """
        place = parse_listen(listen)
        if is_open(listen, settings()):
            raise ValueError(f"admin.listen: found {listen}, expected {OPEN}")
        self.view = view
        self.history = history or History()
        self.address = listen
        self._failed_logins = FailedLogins(control.events, clock, wall)
        self._sessions = Sessions(clock, wall, sessions)
        self.session = Gate(settings, clock, failed=self._failed_logins.tell, sessions=self._sessions)
        self.change_routes = ChangeRoutes(control)
        self.weight_routes = WeightRoutes(self.change_routes, view, self.history, wall)
        self.query_routes = QueryRoutes(self.history, view, control, links, clock)
        self.alert_routes = AlertRoutes(control.alerts)
        self._settings = settings
        self._certificate = certificate
        self._control = control
        self.live_events = LiveEvents(control)
        self._host, self._port = place
        self._name = name_asked(f"{self._host}:0")
        self._files = page_files() if files is None else files
        self._interval, self._clock, self._wall = interval, clock, wall
        self._frame: Frame = view.frame()
        self._logged: Frame | None = None
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Admin {self.address} {'up' if self._runner else 'down'}>"

    async def start(self) -> str:
        """Listen; the address, with the port that was chosen when the settings say 0. Raises OSError."""
        self._sessions.open(self._settings().session)
        self._runner = web.AppRunner(self.application(), shutdown_timeout=1.0)
        await self._runner.setup()
        assert self._runner.server is not None
        self._listening = await admin_connections.listen(
            self._runner.server, (self._host, self._port), self._certificate
        )
        # Read now: the source may be another version's when the page first asks.
        asyncio.get_running_loop().run_in_executor(None, explanations)
        host, port = self._listening.sockets[0].getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return self.address

    async def close(self) -> None:
        """Stop listening and sampling, and end every stream."""
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._sessions.close)
            if self._runner is not None:
                runner, self._runner = self._runner, None
                last_first.push_async_callback(runner.cleanup)
            if self._listening is not None:
                self._listening.close()
            self._control.events.close()

    def application(self) -> web.Application:
        """The application by itself, for tests and for mounting elsewhere."""
        app = web.Application(middlewares=[self._around], client_max_size=MAX_BODY_BYTES)
        for route in ROUTES:
            app.router.add_route(route.method, route.path, self._guarded(route), expect_handler=_expected)
        app.router.add_route("*", "/{nowhere:.*}", _nowhere, expect_handler=_expected)
        app.cleanup_ctx.append(self._sampling)
        return app

    def sample(self) -> None:
        """Take a frame, and add it to the history."""
        self._frame = self.view.frame()
        for notice in tier_changes(self._logged, self._frame):
            log.log(LEVELS[notice.level], notice.text)
        self._logged = self._frame
        now, at = self._clock(), self._wall()
        self.history.cost(self._control.ledger.settings.networks)
        self.history.add(self._frame.snapshot, now, at, self._frame.nodes)
        self.live_events.tell(self._frame, self.history, self._wall())
        self._control.alerts.look(self._attention(now))

    async def _sampling(self, _app: web.Application) -> AsyncIterator[None]:
        self.sample()
        task = asyncio.create_task(self._sample_forever(), name="admin-sampling")
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _sample_forever(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                self.sample()
            except Exception:
                # The page then shows an older second; the next one is tried all the same.
                log.exception("sampling failed")

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[STREAM_HEADERS] = ANSWER_HEADERS
        try:
            self._check_name(request.host)
            response = await handler(request)
        except ProblemError as error:
            response = error.response()
        except OperationRefused as error:
            response = ProblemError(error.status, error.code, error.detail).response()
        except web.HTTPException as error:
            code = {404: "not-found", 413: "too-large"}.get(error.status)
            title = TITLES[code] if code else error.reason
            response = Problem(title=title, status=error.status, code=code or UNSET).response()
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        except Exception as error:
            if not (isinstance(error, ConnectionError) and has_left(request)):
                log.exception("admin request failed", path=request.path)
            response = Problem(title="Internal Server Error", status=500).response()
        if not response.prepared:
            response.headers.update(ANSWER_HEADERS)
        return response

    def _guarded(self, route: AdminRoute) -> Handler:
        """The handler of a route behind its guard; every route is added through this."""
        handler: Answering = attrgetter(route.handler)(self)

        async def guarded(request: web.Request) -> web.StreamResponse:
            if route.guard in ("login", "change"):
                same_site(request.headers)
            who = None
            request[ADDRESS] = self._address_of(request)
            if route.guard != "open" or route.handler == "session.show":
                gone = partial(has_left, request)
                who = await self.session.who(request.headers, request.cookies, request[ADDRESS], gone)
            admit(who, route.guard)
            request[WHO] = who
            request[AUTHOR] = Author(who.name if who else "", _via(request))
            request[STILL_ALLOWED] = lambda: self.session.known(request.headers, request.cookies) is not None
            await _have_body(request)
            answer = await handler(request)
            if route.guard == "change":
                self._frame = self.view.frame()  # the next request of the same client shows the change
            return answer if isinstance(answer, web.StreamResponse) else json_response(answer)

        return guarded

    def _address_of(self, request: web.Request) -> str:
        """The address of the client, by which logins are throttled and logged. Proxies that are trusted about clients
        are trusted here as well; the address lets nobody in."""
        peer = request.remote or ""
        clients = self._control.ledger.settings.clients
        if not clients.trusted_proxies:
            return peer
        trust = Trust(clients.trusted_proxies, clients.forwarded_header)
        return trust.client(peer, request.headers.getall(clients.forwarded_header, ()))

    def _check_name(self, host: str) -> None:
        """Check the Host header. Raises ProblemError for a name that is not one of the admin side."""
        name = name_asked(host)
        if not is_loopback(name) and name not in (self._name, *self._settings().names):
            raise ProblemError(421, "wrong-host")

    async def healthz(self, _request: web.Request) -> web.Response:
        """Say that this program is alive."""
        return web.Response(text="ok\n")

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus' text format. Made in a thread: calls go on being answered meanwhile."""
        body = await asyncio.to_thread(prometheus.render, self.view.frame())
        return web.Response(body=body, headers={"Content-Type": prometheus.CONTENT_TYPE})

    async def openapi(self, _request: web.Request) -> dict[str, Any]:
        """This description of the API (OpenAPI 3.1)."""
        # Made in a thread: calls go on being answered meanwhile.
        return await asyncio.to_thread(describe, ROUTES, lambda name: attrgetter(name)(self))

    async def overview(self, _request: web.Request) -> current_figures.Overview:
        """The document of the first view."""
        said = attention_document(self._attention(self._clock()), self._control.alerts)
        settings, revision = self.view.settings(), self._control.ledger.revision
        return current_figures.overview(self._frame, self.history, settings, self._wall(), revision, said)

    def _attention(self, now: float) -> list[Notice]:
        """What needs attention at the moment of the latest frame: what the page shows, and what alerts are made of."""
        minute, limits = self.history.window(current_figures.MINUTE_SECONDS), self._control.ledger.settings.errors
        failing = failing_networks(minute, self._control.errors, limits, now)
        nodes = failing_nodes(self.history.window(NODES_SECONDS), self.view.errors(), self._wall())
        return attention(self._frame, [*failing, *nodes])

    async def nodes(self, _request: web.Request) -> current_figures.Nodes:
        """The nodes with their states and figures."""
        return current_figures.nodes(self._frame, self.history)

    async def methods(self, _request: web.Request) -> current_figures.Methods:
        """The methods that were called, with their figures."""
        return current_figures.methods(self._frame, self.history)

    async def cache(self, _request: web.Request) -> current_figures.Cache:
        """The cache tiers and cache classes with their figures."""
        return current_figures.cache(self._frame, self.history)

    async def hosts(self, _request: web.Request) -> HostsNow:
        """The hosts that share a Redis with this one, what they do, and who of them is behind."""
        return self._control.hosts()

    async def clients(self, _request: web.Request) -> Clients:
        """The holders of API keys and callers without one."""
        window = self.history.window(current_figures.RATE_SECONDS)
        return clients_document(self._frame.snapshot, window, self.view.settings(), self._clock())

    async def client(self, request: web.Request) -> ClientDocument:
        """A client with its methods and its last hour or day."""
        name = request.match_info["name"]
        found = next((one for one in (await self.clients(request)).clients if one.name == name), None)
        series = await asyncio.to_thread(client_past, self.history, name, request.query.get("range", "1h"))
        if found is None or series is None:
            raise ProblemError(404, "not-found", CLIENT_RANGES if found else f"no client is called {name!r}")
        cell = next((cell for cell in self._frame.snapshot.clients if cell.client == name), None)
        return client_document(found, cell, series)

    async def errors(self, request: web.Request) -> ErrorsNow:
        """The errors that clients got, and the errors of nodes that no rule knew."""
        network = request.query.get("network", "")
        there = self._control.ledger.settings.networks
        if network and network not in there:
            raise ProblemError(404, "not-found", f"no network is called {network!r}: there are {', '.join(there)}")
        refused = error_documents.refused_requests(
            self._frame.snapshot, self.history.window(current_figures.MINUTE_SECONDS)
        )
        return error_documents.errors(
            self._control.errors,
            self.view.errors(),
            refused,
            minutes=_minutes(request.query.get("minutes", "")),
            network=network,
            method=request.query.get("method", ""),
            now=self._clock(),
            at=self._wall(),
        )

    async def error_group(self, request: web.Request) -> ErrorGroupOpened:
        """The errors of one cause with samples."""
        group = self._control.errors.group(request.match_info["id"])
        if group is None:
            raise ProblemError(404, "not-found", "no such group of errors is known, or it was dropped for newer ones")
        return error_documents.opened(group, self._clock())

    async def try_error(self, request: web.Request) -> Treatment:
        """Tell what would be done with an error, and change nothing."""
        question = read(await request.read(), ErrorQuestion)
        try:
            return treatment(question, self._control.ledger.settings.networks)
        except ValueError as error:
            raise ProblemError(400, "invalid-question", str(error)) from None

    async def page(self, request: web.Request) -> web.Response:
        """A file of the dashboard, by its name in a list made at the start: no path is ever taken from a request."""
        found = self._files.get(request.match_info["file"] or "index.html")
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found.body, headers={"Content-Type": found.content_type})


async def _expected(request: web.Request) -> None:
    """Answer Expect (RFC 9110 section 10.1.1). aiohttp's own answer quotes the header, and fails at one not UTF-8."""
    if request.version < HttpVersion11:
        return
    if request.headers["Expect"].strip().lower() != "100-continue":
        raise web.HTTPExpectationFailed(text="the only expectation that can be met is 100-continue\n")
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _nowhere(request: web.Request) -> web.StreamResponse:
    """Answer a request that no route serves: 405 for another method of an existing path, or 404."""
    *resources, _this = request.app.router.resources()
    allowed = set[str]().union(*[(await resource.resolve(request))[1] for resource in resources])
    if allowed:
        raise web.HTTPMethodNotAllowed(request.method, allowed)
    raise web.HTTPNotFound


async def _have_body(request: web.Request) -> None:
    """Read the whole body within BODY_TIMEOUT_SECONDS, before the handler asks for it. Raises ProblemError."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            await request.read()
    except TimeoutError:
        raise ProblemError(408, "too-slow", f"the body was not there within {BODY_TIMEOUT_SECONDS:g} s") from None
    except (HttpProcessingError, web.RequestPayloadError):
        raise ProblemError(400, "malformed-body") from None


def _minutes(given: str) -> int:
    """The minutes that a request looks back. Raises ProblemError."""
    if given.isascii() and given.isdigit() and len(given) <= 2 and 1 <= int(given) <= error_documents.MAX_MINUTES:
        return int(given)
    if given:
        expected = f"a whole number from 1 to {error_documents.MAX_MINUTES}"
        raise ProblemError(422, "invalid-question", f"minutes: found {given[:40]!r}, expected {expected}")
    return error_documents.MAX_MINUTES


def _via(request: web.Request) -> str:
    """The way that a change came, as the client says: page, cli or api."""
    said = request.headers.get(PROOF, "")
    return said if said in ("page", "cli") else "api"
