"""The part of the admin API that looks closer: the past in ranges, that of one method, and how a single call goes."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

from rpcaccel.config.address import parse_listen
from rpcaccel.controlplane import trial
from rpcaccel.controlplane.history import History
from rpcaccel.controlplane.past import RANGES, method_past, past
from rpcaccel.controlplane.problem import ProblemError
from rpcaccel.controlplane.refusal import read
from rpcaccel.controlplane.view import View


class QueryRoutes:
    """Handlers over one history, and the front that `view` knows the address of."""

    def __init__(self, history: History, view: View) -> None:
        self._history = history
        self._view = view

    def __repr__(self) -> str:
        return f"<QueryRoutes over {self._history!r}>"

    async def past(self, request: web.Request) -> web.Response:
        """The last `range`: 5m, 1h or 24h."""
        document = past(self._history, request.query.get("range", "5m"))
        if document is None:
            raise ProblemError(404, "not-found", RANGES)
        return _json(document)

    async def method(self, request: web.Request) -> web.Response:
        """The last five minutes of one method."""
        return _json(method_past(self._history, request.query.get("network", ""), request.query.get("method", "")))

    async def run(self, request: web.Request) -> web.Response:
        """Send a call through the front as a client would, and tell how it went."""
        asked = read(await request.read(), trial.Trial)
        front = parse_listen(str(self._view.settings().get("listen", "")))
        try:
            return _json(await trial.run(asked, front))
        except OSError as error:
            raise ProblemError(502, "no-answer", f"the front did not answer: {error}") from None


def _json(document: Mapping[str, object]) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")
