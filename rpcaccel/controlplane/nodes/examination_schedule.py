"""Decides which nodes of a network are examined, and when, and which of them get no calls of clients until then.

A node that joins at run time is examined before its weight counts, and so is one that comes back after a long absence
or with another version of its software. The nodes that are there at the start serve at once, and are examined later,
one after the other. What an examination found to be missing, or could not find out, is looked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.probe_state import ProbeState
from rpcaccel.controlplane.nodes.quotas import Quotas
from rpcaccel.controlplane.nodes.shadow_calls import Examined, ProbeBudget, budget_of
from rpcaccel.core.heads.examination import Examination

START_AFTER = 60.0
"""Seconds after the start at which the nodes that were there then begin to be examined."""
ABSENCE = 3600.0
"""Seconds without an answered probe after which a node is examined again before it gets calls."""
BETWEEN = 600.0
"""Seconds between two examinations of a node at the least, unless it joins, was away, or is examined by hand."""
MAX_GATED_EXAMINATIONS = 4
"""Nodes of a network that are examined at once while they wait for their first calls."""
RENEW_AFTER = 86_400.0
"""Seconds after which a node is examined again whose examination bounds it: it may have got what it lacked."""
RETRY_AFTER = 3600.0
"""Seconds until a node of which something was not found out is examined again, the first time; then RENEW_AFTER."""
NEAR = 64
"""Blocks by which the head of a node may be below the served head when it is examined: less than nodes that prune keep.
One that syncs has the state of all of its few blocks."""
FORGET_AFTER = 86_400.0
"""Seconds after which a version of a node's software that was not seen again is forgotten."""
MAX_PEERS = 2
"""Other nodes that the answers of a node are compared with."""
_VERSIONS = 8
"""Versions of a node's software that are remembered. Several machines behind one URL may have several: a change to one
that was seen before is none."""
log = structlog.get_logger("rpcaccel.heads")


@dataclass(slots=True)
class _ExaminationState:
    """What is known of the examinations of one node."""

    seen_at: float
    """When the node last answered a probe, or joined."""
    due: float | None
    """When the node is to be examined; None while it is not."""
    gated: bool
    """Does the node wait for its examination before it gets calls of clients?"""
    out: bool = False
    """Was the node kept out when it last answered a probe?"""
    examination: Examination | None = None
    ended_at: float = float("-inf")
    versions: dict[str, float] = field(default_factory=dict)
    """When each version of its software was last seen."""
    task: asyncio.Task[None] | None = None
    """The examination that is under way."""
    gently: bool = False
    """Did the node serve when that examination began?"""


class ExaminationSchedule:
    """The examinations of the nodes of one network."""

    def __init__(
        self,
        network: str,
        nodes: Mapping[str, ProbeState],
        examine: Callable[[Examined, Sequence[Examined]], Awaitable[Examination]],
        changed: Callable[[], None],
        clock: Callable[[], float],
        quotas: Quotas | None = None,
        wanted: Callable[[], bool] = lambda: True,
        served: Callable[[], int] = lambda: -1,
    ) -> None:
        """
        Args:
            nodes: the nodes by id, as the prober follows them.
            examine: examines a node, with other nodes to compare with, by the settings in force.
            changed: is called when a node begins or ends to be kept out, and when an examination has ended.
            quotas: says what nodes may be asked, and counts it; None where nobody counts.
            wanted: are nodes examined by the settings in force? By hand they are in any case.
            served: the served head; -1 while there is none.
        """
        self._network = network
        self._nodes = nodes
        self._examine = examine
        self._changed = changed
        self._clock = clock
        self._quotas = quotas
        self._wanted = wanted
        self._served = served
        self._states: dict[str, _ExaminationState] = {}
        self._started = False

    def __repr__(self) -> str:
        gated = sum(one.gated for one in self._states.values())
        return f"<ExaminationSchedule {self._network} {len(self._states)} nodes, {gated} wait for their examination>"

    def start(self) -> None:
        """From now on, a node that joins is examined before it gets calls."""
        self._started = True

    async def stop(self) -> None:
        tasks = [one.task for one in self._states.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def joined(self, node_id: str, *, again: bool = False) -> None:
        """A node was added to the network. `again`: it served until now, and is reached in another way from now on."""
        now = self._clock()
        due = now if self._started else now + START_AFTER
        gated = self._started and self._wanted() and not (again and self._holds_back)
        self._states[node_id] = _ExaminationState(seen_at=now, due=due, gated=gated)

    def left(self, node_id: str) -> asyncio.Task[None] | None:
        """A node is no longer of the network; returns the task that is being cancelled."""
        task = self._states.pop(node_id).task
        if task is not None:
            task.cancel()
        return task

    def seen(self, probed: ProbeState) -> None:
        """A node has answered a probe."""
        now, state = self._clock(), self._states[probed.settings.id]
        if now - state.seen_at >= ABSENCE:
            state.due, state.gated = now, True
        state.seen_at = now
        if self._is_new(state, "" if probed.claims is None else probed.claims.version):
            rested = now - state.ended_at >= BETWEEN and state.examination is not None
            state.gated = state.gated or (probed.returned and rested and not self._holds_back)
            soon = max(now, state.ended_at + BETWEEN)
            if state.due is None or state.examination is not None:
                state.due = soon if state.due is None else min(soon, state.due)
        if not self._wanted():
            state.due, state.gated = None, False
        self._begin(probed, state)
        if state.out is not (out := self.keeps_out(probed.settings.id)):
            state.out = out
            self._changed()

    def keeps_out(self, node_id: str) -> bool:
        """Does the node get no calls of clients until it is examined, since another node of its tier, or of a lower
        one, is there to answer them?"""
        return self._states[node_id].gated and any(
            one.announces
            and one.answering
            and not self._states[other].gated
            and one.settings.tier <= self._nodes[node_id].settings.tier
            for other, one in self._nodes.items()
            if other != node_id
        )

    def weighs(self, probed: ProbeState) -> bool:
        """Does the weight of the node count for the served head?"""
        return probed.counts and not self.keeps_out(probed.settings.id)

    def last(self, node_id: str) -> Examination | None:
        """The last examination of the node; None before the first has ended."""
        return self._states[node_id].examination

    def examine_now(self, node_id: str) -> bool:
        """Examine a node by hand while it goes on serving; False when there is no such node."""
        state = self._states.get(node_id)
        if state is None:
            return False
        if state.task is None:
            state.due = self._clock()
            self._begin(self._nodes[node_id], state)
        return True

    # -- an examination ----------------------------------------------------------------------------------------------

    @property
    def _holds_back(self) -> bool:
        """Does a node wait for its examination already? Of those that served, one alone is kept out at a time: the
        others have its calls to answer."""
        return any(one.gated for one in self._states.values())

    def _is_new(self, state: _ExaminationState, version: str) -> bool:
        """Is this another version than the node had so far?"""
        now, versions = self._clock(), state.versions
        for old in [one for one, seen_at in versions.items() if now - seen_at >= FORGET_AFTER and one != version]:
            del versions[old]
        known = version in versions
        if not version or (not known and len(versions) >= _VERSIONS):
            return False
        first = not versions
        versions[version] = now
        return not known and not first

    def _begin(self, probed: ProbeState, state: _ExaminationState) -> None:
        """Begin the examination of a node that is due, where the node can be examined and there is a place."""
        if state.task is not None or state.due is None or self._clock() < state.due:
            return
        right = probed.claims is not None and probed.verdict.right is not False
        if not probed.answering or not right or probed.told < max(0, self._served() - NEAR):
            return
        gently = not state.gated
        under_way = sum(one.task is not None and one.gently is gently for one in self._states.values())
        if under_way < (1 if gently else MAX_GATED_EXAMINATIONS):
            state.due, state.gently = None, gently
            state.task = asyncio.create_task(self._run(probed, state), name=f"examination of {probed.settings.id}")

    async def _run(self, probed: ProbeState, state: _ExaminationState) -> None:
        before = state.examination
        try:
            state.examination = await self._examine_beside_peers(probed)
        except Exception as error:  # a bug in an examination must not keep a good node out
            log.exception("an examination failed", network=self._network, node=probed.settings.id)
            state.examination = Examination(at=0.0, faults=(f"the examination itself failed: {type(error).__name__}",))
        finally:
            state.task = None
        state.gated, state.ended_at = False, self._clock()
        if state.due is None and (wait := _lasts(state.examination, before)) is not None:
            state.due = state.ended_at + wait
        for node_id, other in self._states.items():
            self._begin(self._nodes[node_id], other)
        self._changed()

    async def _examine_beside_peers(self, probed: ProbeState) -> Examination:
        version = "" if probed.claims is None else probed.claims.version
        node = self._examined(probed, version, alone=self.keeps_out(probed.settings.id))
        peers = self._peers(probed.settings.id)
        try:
            return await self._examine(node, peers)
        finally:
            for one in (node, *peers):
                if self._quotas is not None and one.budget.spent:
                    self._quotas.spend(self._network, one.id, one.budget.spent)

    def _peers(self, node_id: str) -> list[Examined]:
        """The other nodes to compare with: rather those whose calls nobody counts, then those with the most weight."""
        others = [
            one
            for other, one in self._nodes.items()
            if other != node_id and one.answering and one.counts and not self.keeps_out(other)
        ]
        others.sort(key=lambda one: (bool(one.settings.quota.day or one.settings.quota.month), -one.settings.weight))
        return [self._examined(one) for one in others[:MAX_PEERS]]

    def _examined(self, probed: ProbeState, version: str = "", *, alone: bool = False) -> Examined:
        """A node with what it may be asked. `alone`: does it get no calls of clients meanwhile?"""
        return Examined(
            probed.settings.id, probed.asker, probed.told, version, self._budget(probed.settings, alone=alone)
        )

    def _budget(self, settings: NodeSettings, *, alone: bool) -> ProbeBudget:
        if self._quotas is None:
            return budget_of(settings.quota, alone=alone)
        return self._quotas.budget(self._network, settings, alone=alone)


def _lasts(examination: Examination, before: Examination | None) -> float | None:
    """Seconds until a node with this examination, and that one before, is examined again; None: nothing to gain."""
    if examination.faults and (before is None or not before.faults):
        return RETRY_AFTER
    return RENEW_AFTER if examination.faults or examination.bounds else None
