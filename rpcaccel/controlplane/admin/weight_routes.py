"""The part of the admin API about what each node is worth: the report, and applying the suggested weights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from rpcaccel.controlplane.admin.handling import AUTHOR, ProblemError, body_of, expected_revision
from rpcaccel.controlplane.admin.settings_api import ChangeRoutes
from rpcaccel.controlplane.documents.node_report import NodesReport, report
from rpcaccel.controlplane.documents.worth import Gathered, patch_of
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.node_history import Over
from rpcaccel.controlplane.stats.snapshot import AdminView

_OVER: dict[str, Over] = {"": "hour", "hour": "hour", "day": "day"}


class WeightsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The suggested weights to apply: those that were shown, or those of this moment if none are named."""

    weights: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=1000)]],
        Meta(description="By node id; all that are suggested now if unset."),
    ] = {}


class WeightRoutes:
    """The handlers of the report and of the suggested weights."""

    def __init__(
        self, changes: ChangeRoutes, view: AdminView, history: History, wall: Callable[[], float] = time.time
    ) -> None:
        self._changes = changes
        self._view = view
        self._history = history
        self._wall = wall

    def __repr__(self) -> str:
        return f"<WeightRoutes {self._history.nodes!r}>"

    async def report(self, request: web.Request) -> NodesReport:
        """Report on every node over the last hour or day, with suggested weights and their reasons."""
        asked = request.query.get("over", "")
        over = _OVER.get(asked)
        if over is None:
            raise ProblemError(422, "invalid-question", f"over: found {asked[:40]!r}, expected hour or day")
        # Put together in a thread: calls go on being answered meanwhile.
        cases = list(self._changes.control.cases)
        return await asyncio.to_thread(report, self._gathered(), over, cases)

    async def apply(self, request: web.Request) -> web.Response:
        """Give the nodes of a network the suggested weights, as one change that can be undone."""
        network, ledger = request.match_info["network"], self._changes.control.ledger
        wanted = (await body_of(request, WeightsRequest)).weights
        expected = expected_revision(request, ledger)
        if network not in ledger.settings.networks:
            raise ProblemError(404, "not-found", f"no network is called {network!r}")
        made = (await asyncio.to_thread(self._gathered().suggestions))[network]
        if not made.weights:
            raise ProblemError(409, "refused", f"no weights are suggested for {network}: {made.why}")
        if unknown := sorted(wanted.keys() - made.weights.keys()):
            raise ProblemError(422, "invalid-question", f"weights: no weight is suggested for {unknown[0][:40]!r}")
        values = {id: one.value for id, one in made.weights.items()}
        weights: Mapping[str, int] = wanted or values
        by_hand = "by hand, in place of the weights that the last hour suggests"
        why = f"suggested by the last hour: {made.why}" if weights == values else by_hand
        change = ledger.change(patch_of(network, weights), request[AUTHOR], expected, why=why)
        return await self._changes.changed(change)

    def _gathered(self) -> Gathered:
        settings = self._changes.control.ledger.settings
        return Gathered(self._history.nodes, self._view.frame().nodes, settings, self._wall())
