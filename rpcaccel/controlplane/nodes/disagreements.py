"""What follows when nodes differ: the cases are kept, a wrong answer is purged, and a node that is contradicted more
often than by chance is named, and drained where the operator wants that.

Only a share of the answers is compared, so what is kept may hold further wrong answers of a node that is named. Nobody
knows which ones: everything that is kept of the methods in which the node was contradicted is purged, once in a trial,
and while the node is suspected workers keep nothing that it answers.
A node is judged by the cases of the last hour, and after it was drained by those since: whoever takes it back gives it
a new trial.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

import structlog

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.audit import Author
from rpcaccel.core.agreement.cases import LATELY, Case, CaseLog, is_suspect

AUTHOR = Author("rpcaccel", "agreement")
NodeName = tuple[str, str]
"""The names of a network and of a node."""

log = structlog.get_logger("rpcaccel.agreement")


class _Trial:
    """The time in which one node is judged."""

    __slots__ = ("compared", "purged", "since")

    def __init__(self, since: float, compared: int) -> None:
        self.since = since
        """Seconds since 1970."""
        self.compared = compared
        """The node's compared answers before."""
        self.purged: set[str] = set()
        """The methods of which everything kept was purged."""


class Disagreements:
    """The cases of all networks, and what is done about them."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        compared: Callable[[], Mapping[NodeName, int]],
        purge: Callable[[dict[str, str]], Awaitable[None]],
        drain: Callable[[str, str], Awaitable[bool]],
        tell: Callable[[str], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            compared: the answers of each node that were compared since the start.
            purge: removes answers from every tier, worker and host: that of a `key`, or those of a `method` of a
                `network`.
            tell: tells the workers of a network that the nodes that are suspected have changed (`suspects_of`).
            drain: drains a node of a network, unless it is the last one that takes calls; returns whether it did.
            wall: the time in seconds since 1970.
        """
        self.cases = CaseLog()
        self._settings = settings
        self._compared = compared
        self._purge = purge
        self._drain = drain
        self._tell = tell
        self._wall = wall
        self._trials: dict[NodeName, _Trial] = {}
        self._work: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Disagreements {self.cases!r}>"

    def hear(self, case: Case) -> None:
        """Take a case that a worker found."""
        network = self._settings().networks.get(case.network)
        if network is None:
            return
        self.cases.keep_only(self._settings().networks)
        compared = self._compared()
        for answer in case.answers:
            self._begin_trial((case.network, answer.node), compared, case.at)
        self.cases.add(case, network.agreement.keep)
        who = f"contradicted: {', '.join(case.minority)}" if case.minority else "nobody could decide"
        log.warning(f"nodes differ about {case.method}; {who}", network=case.network, difference=case.difference)
        for key in case.wrong:
            self._later(self._purge({"key": key}))
        for node in case.minority:
            if not self.is_suspect(case.network, node, compared):
                continue
            trial = self._trials[case.network, node]
            self._tell(case.network)  # before the purge, so that no further wrong answer is kept
            for method in {one.method for one in self._against(case.network, node)} - trial.purged:
                trial.purged.add(method)
                self._later(self._purge({"network": case.network, "method": method}))
            if network.on_disagreement == "drain":
                self._later(self._take_out(case.network, node))

    def is_suspect(self, network: str, node: str, compared: Mapping[NodeName, int]) -> bool:
        """Was the node contradicted more often than by chance lately?"""
        trial = self._trials.get((network, node))
        if trial is None:
            return False
        return is_suspect(compared.get((network, node), 0) - trial.compared, len(self._against(network, node)))

    def suspects_of(self, network: str) -> tuple[str, ...]:
        """The nodes of a network that were contradicted more often than by chance."""
        if not self._trials:
            return ()
        compared = self._compared()
        return tuple(node for name, node in self._trials if name == network and self.is_suspect(name, node, compared))

    def suspects(self) -> Iterator[tuple[str, str, str]]:
        """The nodes that were contradicted more often than by chance: network, node, and a sentence about it."""
        if not self._trials:
            return
        compared = self._compared()
        for (network, node), trial in self._trials.items():
            if not self.is_suspect(network, node, compared):
                continue
            cases = self._against(network, node)
            of = max(compared.get((network, node), 0) - trial.compared, len(cases))
            said = (
                f"node {network}/{node} was contradicted by two others in {len(cases)} of {of} compared answers, "
                f"last in one to {cases[0].method}: look at the cases in the report on nodes"
            )
            yield network, node, said

    def _against(self, network: str, node: str) -> list[Case]:
        """The cases against a node in its trial, the newest first."""
        return self.cases.contradicted(network, node, max(self._trials[network, node].since, self._wall() - LATELY))

    async def _take_out(self, network: str, node: str) -> None:
        """Drain a node. It is suspected until then, and judged anew afterwards."""
        if await self._drain(network, node):
            self._trials.pop((network, node), None)

    async def stop(self) -> None:
        """End what is under way."""
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _begin_trial(self, name: NodeName, compared: Mapping[NodeName, int], at: float) -> None:
        """Judge a node from a time on (seconds since 1970); anew, when no case of the hour before is left."""
        known = self._trials.get(name)
        if known is None or not self.cases.contradicted(*name, max(known.since, at - LATELY)):
            self._trials[name] = _Trial(at, max(0, compared.get(name, 0) - 1))

    def _later(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            try:
                await work
            except Exception:
                log.exception("what follows from a disagreement was not done")

        task = asyncio.get_running_loop().create_task(done())
        self._work.add(task)
        task.add_done_callback(self._work.discard)
