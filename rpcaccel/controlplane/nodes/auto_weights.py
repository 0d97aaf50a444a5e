"""Applies the suggested weights where `networks.*.weights` is "auto": in bounded steps, each a change like any other.

A step stands in the audit with its reason, and undo takes it back. After somebody has changed or undone weights by
hand, the network is left alone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

import structlog

from rpcaccel.config.errors import dotted
from rpcaccel.controlplane.settings.audit import Author, Change
from rpcaccel.controlplane.settings.ledger import ChangedMeanwhileError, InvalidSettingsError, Ledger, RefusedError
from rpcaccel.controlplane.stats.worth import Gathered, patch_of
from rpcaccel.core.nodes.weighing import Suggestion, step

LOOK_EVERY = 30.0
"""Seconds between two looks at whether a step is due."""
STEP_EVERY = 600.0
"""Seconds between two steps in one network, and the seconds that nodes must have been watched before the first one."""
REST = 3600.0
"""Seconds for which a network is left alone after its weights were changed or undone by hand."""
LEAST_GAIN = 0.05
"""Share of the mean latency that the suggested weights must save."""
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
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AutoWeights {', '.join(self._due()) or 'nothing is due'}>"

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
        """Make the steps that are due; returns the changes."""
        if not (due := list(self._due())):
            return []
        revision, gathered = self._ledger.revision, self._gather()
        if gathered.hour.seconds < STEP_EVERY:
            return []
        suggestions = await asyncio.to_thread(gathered.suggestions)
        made: list[Change] = []
        for network in due:
            suggestion = suggestions.get(network)
            if suggestion is None or suggestion.gain < LEAST_GAIN or not suggestion.weights:
                continue
            try:
                change = await self._step(network, suggestion, revision)
            except (ChangedMeanwhileError, InvalidSettingsError, RefusedError) as error:
                log.warning("suggested weights are not applied", network=network, reason=str(error))
                break
            if change is not None:
                made.append(change)
                revision = change.revision
        return made

    async def _step(self, network: str, suggestion: Suggestion, revision: int) -> Change | None:
        present = {node.id: node.weight for node in self._ledger.settings.networks[network].nodes}
        wanted = {id: one.value for id, one in suggestion.weights.items() if present.get(id)}
        weights = step(present, wanted)
        why = f"a step towards the suggested weights: {suggestion.why}"
        return await self._ledger.change(patch_of(network, weights), MYSELF, revision, why=why)

    def _due(self) -> Iterator[str]:
        """The networks that may be given a step now."""
        now = self._wall()
        for name, network in self._ledger.settings.networks.items():
            if network.weights == "auto" and all(
                now - change.at >= (STEP_EVERY if _automatic(change) else REST) for change in self._weighings(name)
            ):
                yield name

    def _weighings(self, network: str) -> Iterator[Change]:
        """The changes of the weights of a network that are remembered."""
        nodes = self._ledger.settings.networks[network].nodes
        paths = {dotted(("networks", network, "nodes", node.id, "weight")) for node in nodes}
        for change in self._ledger.audit:
            weighs = any(edit.path in paths for edit in change.difference)
            if weighs and change.outcome == "adopted" and change.action != "start":
                yield change


def _automatic(change: Change) -> bool:
    """Was the change made by this program itself, here or on another host that shares the settings?"""
    if change.action == "undo":
        return False
    return (change.by, change.via) == (MYSELF.name, MYSELF.via) or (
        change.via == "shared" and change.by.startswith(f"{MYSELF.name} at ")
    )
