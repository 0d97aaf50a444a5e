"""Applies the suggested weights where `networks.*.weights` is "auto": in bounded steps, each a change like any other.

How long a step is, and which one is taken back, core.weights.weight_walk says by what was measured since the last one.
Each stands in the audit with its reason, and undo takes it back. After somebody has changed or undone weights by hand,
the network is left alone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

import structlog

from rpcaccel.config.errors import dotted
from rpcaccel.controlplane.settings.audit import Author, Change
from rpcaccel.controlplane.settings.ledger import ChangedMeanwhileError, InvalidSettingsError, Ledger, RefusedError
from rpcaccel.controlplane.stats.worth import Gathered, patch_of
from rpcaccel.core.weights.weighing import Suggestion
from rpcaccel.core.weights.weight_walk import EARLY, Measured, Walk

LOOK_EVERY = 30.0
"""Seconds between two looks at whether a step is due."""
REST = 3600.0
"""Seconds for which a network is left alone after its weights were changed or undone by hand."""
MYSELF = Author("rpcaccel", "weights")

log = structlog.get_logger("rpcaccel.weights")


class AutoWeights:
    """The steps of all networks. `gather` says what is known of the nodes."""

    def __init__(
        self,
        ledger: Ledger,
        gather: Callable[[], Gathered],
        wall: Callable[[], float] = time.time,
        every: float = LOOK_EVERY,
    ) -> None:
        """`every`: seconds between two looks."""
        self._ledger = ledger
        self._gather = gather
        self._wall = wall
        self._every = every
        self._walks: dict[str, Walk] = {}
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AutoWeights {', '.join(dict(self._due())) or 'nothing is due'}>"

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._run(), name="auto-weights")

    async def stop(self) -> None:
        """End, after a change that is being made."""
        self._ending.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._ending.wait()
            if not self._ending.is_set():
                try:
                    await self.look()
                except Exception:
                    log.exception("the weights were not looked at, and are looked at again")

    async def look(self) -> list[Change]:
        """Make the steps that are due, and take back those that made calls slower; returns the changes."""
        if not (due := dict(self._due())):
            return []
        revision, gathered = self._ledger.revision, self._gather()
        seen = await asyncio.to_thread(_looked, gathered, due)
        made: list[Change] = []
        for network, (measured, suggestion) in seen.items():
            nodes = self._ledger.settings.networks[network].nodes
            walk = self._walk(network, {node.id: node.weight for node in nodes})
            tiers = {node.id: node.tier for node in nodes}
            move = walk.next(tiers, measured, suggestion, gathered.at - due[network])
            if move is None:
                continue
            try:
                change = await self._ledger.change(patch_of(network, move.weights), MYSELF, revision, why=move.why)
            except (ChangedMeanwhileError, InvalidSettingsError, RefusedError) as error:
                log.warning("suggested weights are not applied", network=network, reason=str(error))
                break
            if change is not None:
                walk.made(move, measured)
                made.append(change)
                revision = change.revision
        return made

    def _walk(self, network: str, present: dict[str, int]) -> Walk:
        """The way of a network; a new one after somebody else changed its weights or nodes."""
        walk = self._walks.get(network)
        if walk is None or walk.weights != present:
            walk = self._walks[network] = Walk(present)
        return walk

    def _due(self) -> Iterator[tuple[str, float]]:
        """The networks that may be given other weights now, with the time since which theirs are in force."""
        now = self._wall()
        for name, network in self._ledger.settings.networks.items():
            changes = list(self._weighings(name)) if network.weights == "auto" else []
            rests = any(now - change.at < REST for change in changes if not _automatic(change))
            since = max((change.at for change in changes), default=0.0)
            if network.weights == "auto" and not rests and now - since >= EARLY:
                yield name, since

    def _weighings(self, network: str) -> Iterator[Change]:
        """The changes of the weights of a network that are remembered."""
        nodes = self._ledger.settings.networks[network].nodes
        paths = {dotted(("networks", network, "nodes", node.id, "weight")) for node in nodes}
        for change in self._ledger.audit:
            weighs = any(edit.path in paths for edit in change.difference)
            if weighs and change.outcome == "adopted" and change.action != "start":
                yield change


def _looked(gathered: Gathered, due: Mapping[str, float]) -> dict[str, tuple[Measured, Suggestion]]:
    """What each network did since its weights changed, and the weights that follow from it."""
    return {name: (gathered.measured(name, since), gathered.suggestion(name, since)) for name, since in due.items()}


def _automatic(change: Change) -> bool:
    """Was the change made by this program itself, here or on another host that shares the settings?"""
    if change.action == "undo":
        return False
    return (change.by, change.via) == (MYSELF.name, MYSELF.via) or (
        change.via == "shared" and change.by.startswith(f"{MYSELF.name} at ")
    )
