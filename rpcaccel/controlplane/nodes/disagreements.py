"""What follows when nodes differ, or give a false answer: the cases are kept, a wrong answer is purged, and a node that
is contradicted more often than by chance, or by arithmetic, is named, and drained where the operator wants that.

Only a share of the answers is compared, so what is kept may hold further wrong answers of a node that is named. Nobody
knows which ones: everything that is kept of the methods in which the node was contradicted is purged, once while it is
suspected, and workers keep nothing that it answers meanwhile. Other hosts purge as well, and judge nodes for
themselves. A node is judged by the last hour, and after it was drained by the time since: whoever takes it back gives
it a new trial.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import structlog
from msgspec.structs import replace

from rpcaccel.config.model import NetworkSettings, Settings
from rpcaccel.controlplane.settings.ledger import Author
from rpcaccel.core.agreement.cases import JUDGED_SECONDS, Case, CaseLog, is_suspect

AGREEMENT_AUTHOR = Author("rpcaccel", "agreement")
NodeName = tuple[str, str]
"""The names of a network and of a node."""
READ_EVERY = 300.0
"""Seconds between two readings of how many answers were compared."""
STAYS_SECONDS = 600.0
"""Seconds after its last case for which a node stays suspected, though chance explains its cases by then."""
MOST_KEYS = 4
"""Keys that are purged one by one; of a case with more of them, as a long range has, the method is purged."""

log = structlog.get_logger("rpcaccel.agreement")


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
            drain: drains a node of a network, unless it is the last one that takes calls; returns whether it did.
            tell: tells the workers of a network that the nodes that are suspected have changed (`suspects_of`).
            wall: the time in seconds since 1970.
        """
        self.cases = CaseLog()
        self._settings = settings
        self._compared = compared
        self._purge = purge
        self._drain = drain
        self._tell = tell
        self._wall = wall
        self._readings: deque[tuple[float, Mapping[NodeName, int]]] = deque(maxlen=int(JUDGED_SECONDS / READ_EVERY) + 1)
        """The compared answers at some moments of the last hour, the oldest first."""
        self._trials: dict[NodeName, tuple[float, int]] = {}
        """By node that was taken back: since when it is judged, and its compared answers until then."""
        self._purged: dict[NodeName, set[str]] = {}
        """By node that is suspected: the methods that were purged of what it may have answered."""
        self._work: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Disagreements {self.cases!r}, suspected: {', '.join(node for _, node in self._purged) or 'nobody'}>"

    def hear(self, case: Case) -> None:
        """Take a case that a worker found."""
        network = self._settings().networks.get(case.network)
        if network is None:
            return
        self.cases.keep_only(self._settings().networks)
        self.cases.add(replace(case, wrong=()), network.agreement.keep)
        who = f"contradicted: {', '.join(case.minority)}" if case.minority else "nobody could decide"
        said = f"node {case.minority[0]} gave a false answer" if case.disproved else f"nodes differ; {who}"
        log.warning(said, network=case.network, method=case.method, difference=case.difference)
        suspects = self._look(case.network)
        if case.wrong and case.answers[0].node not in suspects:  # of a suspect nothing is kept, and what was is purged
            self._purge_answer(case)
        for node in case.minority:
            if node in suspects:
                self._act(network, case, node)

    def suspects_of(self, network: str) -> dict[str, tuple[str, ...]]:
        """By node of a network that is suspected: the methods about which it was contradicted."""
        nodes = self._look(network) if self._purged else ()
        return {node: tuple(sorted({case.method for case in self._record(network, node, {})[0]})) for node in nodes}

    def suspects(self) -> Iterator[tuple[str, str, str]]:
        """The nodes that are suspected: network, node, and a sentence about it."""
        now = self._wall()
        if not self._readings or now - self._readings[-1][0] >= READ_EVERY:
            self._readings.append((now, dict(self._compared())))
        if not self._purged:
            return
        compared = self._compared()
        for network, node in list(self._purged):
            cases, of = self._record(network, node, compared)
            if self._is_suspected((network, node), cases, of):
                yield network, node, f"node {network}/{node} {_sentence(cases, of)}"

    async def stop(self) -> None:
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    # -- judging -----------------------------------------------------------------------------------------------------

    def _look(self, network: str) -> tuple[str, ...]:
        """The suspected nodes of a network; those that are no longer suspected are forgotten."""
        compared = self._compared()
        contradicted = {one for case in self.cases if case.network == network for one in case.minority}
        found = [
            node for node in contradicted if self._is_suspected((network, node), *self._record(network, node, compared))
        ]
        for name in [name for name in self._purged if name[0] == network and name[1] not in found]:
            del self._purged[name]
            why = f"cases against it known of the last hour, which chance explains: {len(self._record(*name, {})[0])}"
            log.info(f"the node is no longer suspected: {why}", network=network, node=name[1])
        return tuple(sorted(found))

    def _is_suspected(self, name: NodeName, cases: Sequence[Case], compared: int) -> bool:
        """Is a node suspected by the cases against it, of so many compared answers? A false answer is no chance. A node
        that lies seldom would be suspected and not by turns, so that its lies are kept between."""
        if any(case.disproved for case in cases) or is_suspect(compared, len(cases)):
            return True
        return name in self._purged and bool(cases) and self._wall() - cases[0].at < STAYS_SECONDS

    def _record(self, network: str, node: str, compared: Mapping[NodeName, int]) -> tuple[list[Case], int]:
        """The cases against a node in the time in which it is judged, and its compared answers then."""
        name, hour_ago = (network, node), self._wall() - JUDGED_SECONDS
        since, before = self._trials.get(name, (0.0, 0))
        earlier = [counts.get(name, 0) for at, counts in self._readings if at <= hour_ago]
        before = max(before, earlier[-1] if earlier else 0)
        return self.cases.against(network, node, max(since, hour_ago)), compared.get(name, 0) - before

    # -- acting ------------------------------------------------------------------------------------------------------

    def _purge_answer(self, case: Case) -> None:
        """Purge the one answer that was contradicted."""
        if len(case.wrong) > MOST_KEYS:
            self._later(self._purge({"network": case.network, "method": case.method}))
        else:
            for key in case.wrong:
                self._later(self._purge({"key": key}))

    def _act(self, network: NetworkSettings, case: Case, node: str) -> None:
        """Do what follows when a node is suspected."""
        name = (case.network, node)
        if name not in self._purged:
            log.warning("the node is suspected: nothing that it answers is kept", network=case.network, node=node)
        purged = self._purged.setdefault(name, set())
        self._tell(case.network)  # before the purge, so that no further wrong answer is kept
        cases, _ = self._record(case.network, node, {})
        for method in {one.method for one in cases} - purged:
            purged.add(method)
            self._later(self._purge({"network": case.network, "method": method}))
        if network.on_disagreement == "drain":
            self._later(self._take_out(case.network, node))

    async def _take_out(self, network: str, node: str) -> None:
        """Drain a node. It is suspected until then, and judged anew afterwards."""
        if await self._drain(network, node):
            self._trials[network, node] = self._wall(), self._compared().get((network, node), 0)
            self._purged.pop((network, node), None)

    def _later(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            try:
                await work
            except Exception:
                log.exception("what follows from a disagreement was not done")

        task = asyncio.get_running_loop().create_task(done())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _sentence(cases: Sequence[Case], compared: int) -> str:
    """What a suspected node did, the newest case first."""
    false = sum(case.disproved for case in cases)
    said = [f"gave {false} false answer{'s' * (false > 1)}"] if false else []
    if differed := len(cases) - false:
        said.append(f"was contradicted by two others in {differed} of {max(compared, differed)} compared answers")
    return f"{' and '.join(said)}, last in one to {cases[0].method}: look at the cases in the report on nodes"
