"""The state of one node as its probes have shown it."""

from __future__ import annotations

import asyncio
from math import inf

from msgspec.structs import replace

from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.head_stream import HeadStream
from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.core.heads.chain_view import BLOCKS_OF_A_NODE
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, IdentityCheck, judge
from rpcaccel.core.heads.lateness import Lateness
from rpcaccel.core.heads.probe_schedule import ProbeSchedule
from rpcaccel.core.heads.served_head import NodeHead

_UNCHECKED = IdentityCheck(None)
UNSURE_EVERY = 5.0
"""Seconds after which a node that did not say which chain it serves is asked again: it gets no calls meanwhile."""


class ProbeState:
    """The probe results of one node, and the task that probes it."""

    def __init__(self, settings: NodeSettings, asker: Asker, schedule: ProbeSchedule) -> None:
        self.settings = settings
        self.asker = asker
        self.schedule = schedule
        self.stream: HeadStream | None = None
        """The heads that the node pushes; None while nothing is expected to push them."""
        self.streaming: asyncio.Task[None] | None = None
        self.pushed_at = -inf
        """When the node last pushed a block that was news."""
        self.claims: Claims | None = None
        self.checked_at = 0.0
        self.timed = False
        """Whether the node was asked for the timestamps of two headers."""
        self.tags_at = -inf
        """When the node was last asked which blocks are final and safe."""
        self.early = False
        """Whether the identity was claimed while block 1 of the node was not known to be final: the node is asked again
        once it is."""
        self.verdict = _UNCHECKED
        self.fails = 0
        self.returned = False
        """Whether the node answered the last probe and not the one before."""
        self.fault = ""
        self.barred = False
        """Whether the node refused the last probe: its key is not accepted, or the URL has no JSON-RPC."""
        self.latency: float | None = None
        self.lateness = Lateness()
        self.seen_at: float | None = None
        self.leapt_from = -1
        """The head from which a pushed one leapt over blocks between. Its hash is asked for, because the blocks between
        may have replaced it; -1 when it is known."""
        self.told = -1
        """The head in the last answer; a hint may have shown a newer one since."""
        self.head_since = 0.0
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None
        self.resting: asyncio.Future[None] | None = None
        """The pause before the next probe; cancelled when that is to come sooner."""

    def __repr__(self) -> str:
        return f"<ProbeState {self.settings.id} head {self.told}, {self.fails} fails, right: {self.verdict.right}>"

    def reached_as(self, settings: NodeSettings) -> bool:
        """Is the node reached in the same way under these settings? Otherwise a new session is needed."""
        before = self.settings
        return (before.url, before.headers, before.connect_timeout) == (
            settings.url,
            settings.headers,
            settings.connect_timeout,
        )

    @property
    def counts(self) -> bool:
        """Whether the head of the node counts: it has said what it serves, and that is the right chain."""
        asked = self.claims is not None
        return asked and self.verdict.right is not False and not self.settings.drain

    @property
    def announces(self) -> bool:
        """Whether the workers are told the blocks that the node pushes: its head counts, and has a weight."""
        return self.counts and self.settings.weight > 0

    @property
    def looked_at(self) -> bool:
        """Whether a first probe has ended, with or without success."""
        return self.seen_at is not None or self.fails > 0

    @property
    def answering(self) -> bool:
        """Whether the node answered the last probe."""
        return self.seen_at is not None and self.fails == 0

    @property
    def pushes(self) -> bool:
        """Whether the node pushes its heads now."""
        return self.stream is not None and self.stream.pushes

    def wake(self) -> None:
        """Look again when the next probe is due: that has changed."""
        if self.resting is not None:
            self.resting.cancel()

    def due(self, now: float, every: float) -> bool:
        """Whether the node is to be asked for its identity: at first, every `every` seconds, sooner while it did not
        say enough to be judged, and after a failure."""
        if self.verdict.right is None:
            every = min(every, UNSURE_EVERY)
        return self.claims is None or self.fails > 0 or now - self.checked_at >= every

    def claim(self, claims: Claims, now: float, *, one_is_final: bool | None) -> None:
        """Take over the identity that the node claims. The hashes of blocks 0 and 1 that are missing are taken from the
        claim before, and so are missing roles, unless the node was away: it may have come back as something else.

        `one_is_final`: whether the node has block 1 and it is final; None where the node did not tell its head. Another
        block may still take the place of one that is not final, so that its hash would name a branch, not the chain.
        """
        before, block_one = self.claims, claims.block_one if one_is_final else None
        if before is not None:
            if one_is_final is not False and claims.genesis in {None, before.genesis}:
                block_one = block_one or before.block_one
            says = claims.says if claims.says or self.fails else before.says
            claims = replace(claims, genesis=claims.genesis or before.genesis, says=says)
        self.claims, self.checked_at, self.early = replace(claims, block_one=block_one), now, not one_is_final

    def judge(self, wanted: ExpectedIdentity) -> None:
        self.verdict = _UNCHECKED if self.claims is None else judge(self.claims, wanted)

    def see(self, head: int, latency: float, now: float) -> None:
        """The probe succeeded: the node answered with this head."""
        if head < self.told - BLOCKS_OF_A_NODE:
            self.checked_at = -inf  # the chain may have begun anew: the node is asked for its identity at once
        if head != self.told:
            self.told, self.head_since = head, now
        self.returned = self.fails > 0
        self.fails, self.fault, self.barred = 0, "", False
        self.latency, self.seen_at = latency, now

    def push(self, head: int, now: float) -> None:
        """The node pushed this head, and it was news."""
        if head != self.told:
            self.told, self.head_since = head, now
        self.pushed_at = now

    def fail(self, fault: str, *, barred: bool = False) -> None:
        """The probe failed because of `fault`."""
        self.fails += 1
        self.fault, self.barred = fault, barred

    def node_head(self, head: int, lag: int | None, now: float, stall: float) -> NodeHead:
        """What the probes know about the node.

        Args:
            head: the last block that it may be asked about; -1 without one.
            lag: blocks behind the served head; None while that is not known.
            stall: seconds without a new head that are worth a note.
        """
        return NodeHead(
            id=self.settings.id,
            head=head,
            chain_ok=self.verdict.right,
            says={} if self.claims is None else self.claims.says,
            answering=self.answering,
            barred=self.fault if self.barred else "",
            note=self.note(now, lag, stall),
            latency=self.latency,
            seen_at=self.seen_at,
            behind=self.lateness.behind,
            pushes=self.pushes,
            place=self.stream.place if self.stream is not None else 0,
            late=self.lateness.usual,
        )

    def note(self, now: float, lag: int | None, stall: float) -> str:
        """A sentence for the operator; empty when all is well. `stall`: seconds without a new head that are worth a
        note."""
        if self.verdict.right is False:
            return self.verdict.why
        if self.fails:
            return self.fault if self.fails == 1 else f"{self.fault} ({self.fails} times in a row)"
        if lag and self.told >= 0 and now - self.head_since > stall:
            return f"its head has not moved for {now - self.head_since:.0f} s"
        return self.verdict.why or (self.stream.note if self.stream is not None else "")
