"""Logging in and out of the admin side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson
import structlog
from aiohttp import web

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.auth import COOKIE, Gate, Who
from rpcaccel.controlplane.events import Events
from rpcaccel.controlplane.problem import ProblemError

LINES = 20
"""Failed logins that are told of within WITHIN seconds; more are counted in the next line."""
WITHIN = 60.0
_LONGEST = 64

log = structlog.get_logger("rpcaccel.admin")

WHO: web.RequestKey[Who | None] = web.RequestKey("who")
"""Who asks, as the guard found out."""


class FailedLogins:
    """Tells the log and the event stream of each login that fails, within bounds."""

    def __init__(self, events: Events | None, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._events = events
        self._clock = clock
        self._wall = wall
        self._since = -WITHIN
        self._told = 0
        self._left_out = 0

    def __repr__(self) -> str:
        return f"<FailedLogins {self._told} told, {self._left_out} left out>"

    def tell(self, name: str, remote: str, why: str) -> None:
        """A login under this name from this address failed. The name is what a stranger says: it is cut and escaped."""
        now = self._clock()
        if now - self._since >= WITHIN:
            self._since, self._told = now, 0
        if self._told >= LINES:
            self._left_out += 1
            return
        self._told += 1
        about: dict[str, str | int] = {"user": ascii(name[:_LONGEST])[1:-1], "address": remote, "why": why}
        if self._left_out:
            about["left_out"], self._left_out = self._left_out, 0
        log.warning("a login failed", **about)
        if self._events is not None:
            self._events.tell("login", {**about, "at": self._wall()})


class Login:
    """Handlers of /api/v1/session."""

    def __init__(
        self, gate: Gate, settings: Callable[[], AdminSettings], address: Callable[[web.Request], str]
    ) -> None:
        """`address` says where a request comes from."""
        self._gate = gate
        self._settings = settings
        self._address = address

    def __repr__(self) -> str:
        return f"<Login {self._gate!r}>"

    async def show(self, request: web.Request) -> web.Response:
        """Who is logged in, and whether one has to be."""
        return self._told(request[WHO])

    async def begin(self, request: web.Request) -> web.Response:
        """Log in."""
        try:
            asked = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            asked = None
        name, password = (asked.get("user"), asked.get("password")) if isinstance(asked, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(password, str):
            raise ProblemError(400, "not-json", 'send {"user": "...", "password": "..."}')
        secret = await self._gate.login(name, password, self._address(request), partial(has_left, request))
        settings = self._settings()
        response = self._told(Who(name, settings.accounts[name].role))
        response.set_cookie(
            COOKIE,
            secret,
            max_age=int(settings.session),
            httponly=True,
            samesite="Strict",
            secure=request.secure,
            path="/",
        )
        return response

    async def end(self, request: web.Request) -> web.Response:
        """Log out."""
        self._gate.logout(request.cookies.get(COOKIE, ""))
        response = web.Response(status=204)
        response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict", secure=request.secure)
        return response

    def _told(self, who: Who | None) -> web.Response:
        document = {
            "required": self._gate.required,
            "user": who.name if who else None,
            "role": who.role if who else None,
        }
        return web.Response(body=orjson.dumps(document), content_type="application/json")


def has_left(request: web.Request) -> bool:
    """Has the client closed its connection?"""
    return request.transport is None or request.transport.is_closing()
