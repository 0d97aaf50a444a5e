"""Logging in and out of the admin side."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from aiohttp import web

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.auth import COOKIE, Gate, Who
from rpcaccel.controlplane.problem import ProblemError

WHO: web.RequestKey[Who | None] = web.RequestKey("who")
"""Who asks, as the guard found out."""


class Login:
    """Handlers of /api/v1/session."""

    def __init__(self, gate: Gate, settings: Callable[[], AdminSettings]) -> None:
        self._gate = gate
        self._settings = settings

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
        secret = await self._gate.login(name, password, request.remote or "")
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
