"""The memo of calls that were answered at once before, by template: what a hit checks and counts.

Everything that follows from a template alone is found with one lookup, for as long as the snapshot of the network at
which the call was planned stays the same. There is one memo for each path served; a change of settings makes new paths,
and so forgets all of it.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct

from rpcaccel.core.cache.eviction import USES_CAP, CacheSlot
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Uses
from rpcaccel.core.stats.counters import AnswerSource, Cell
from rpcaccel.core.stats.histogram import BOUNDS, Histogram
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Wording
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.response_headers import HeadersShown, of_hit

KNOWN_BYTES = 400
"""Bytes of a known template beside its text (measured by tests/unit/dataplane/rpc/test_hit_memo.py)."""


class Known(Struct, frozen=True, gc=False):
    """What is known of the calls of one template."""

    serial: int
    """The serial of the snapshot at which the call was planned; nothing here holds at another one."""
    method: str
    """The full name of the method."""
    heavy: bool
    """Does the rule of the method say that it is heavy?"""
    head: int
    """The head at which the call was planned."""
    local: bytes | None
    """The result, where the proxy answers itself. The plan is not held: it would weigh as much again."""
    uses: Uses
    """The use counter of the call's plan."""
    key: bytes
    """The key of the kept answer; empty where the proxy answers itself."""
    told: bytes
    """The beginning of the reply's head when the answer took less than response_headers.SHOWN."""
    outcome: Outcome
    """The outcome of such a call, without its result."""
    cell: Cell
    """The counters of the method."""
    latency: Histogram
    """The histogram of `cell` for the source of the answer."""

    def count(self, memory: MemoryTier, slot: CacheSlot | None, size: int, seconds: float) -> None:
        """Count a hit of `size` bytes of result, given after `seconds`, as the ordinary way would have counted it."""
        if slot is not None:
            memory.hits += 1
            if slot.uses < USES_CAP:
                slot.uses += 1
        self.uses.count += 1
        self.cell.size += size
        self.latency.counts[bisect_left(BOUNDS, seconds)] += 1  # as Cell.done has it, without a further call
        self.latency.seconds += seconds


Hit = tuple[Known | None, bytes, bytes, CacheSlot | None]
"""The answer to a call of a known template: what is known of it (None: this is no hit), the raw id of the call, the
result, and the slot of the kept answer (None where the proxy answers itself). Nothing is counted before `Known.count`
is called."""
NO_HIT: Hit = (None, b"", b"", None)


class KnownCalls:
    """The templates known on one path; their weight is counted in the budget of all memos."""

    __slots__ = ("_known", "_network", "get")

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[Wording, Known | None] = {}
        self.get = self._known.get
        """What is known of a template; None where nothing is known, or its id is not where it seems to be."""

    def find(self, text: bytes, memory: MemoryTier, now: float) -> Hit:
        """The answer to a call of this text; NO_HIT where the ordinary way must find it."""
        if len(text) > jsonrpc.MAX_TEMPLATE_BYTES:
            return NO_HIT
        words, call_id = jsonrpc.split_template(text)
        known = self.get(words)
        if known is None or known.serial != self._network.sight.view.serial:
            return NO_HIT
        if known.local is not None:
            return known, call_id, known.local, None
        slot = memory.find(known.key, now)
        if slot is None or slot.entry is None or slot.entry.proved != known.outcome.proved:
            return NO_HIT
        return known, call_id, slot.entry.result, slot

    def __repr__(self) -> str:
        return f"<{len(self._known)} known calls>"

    def learn(self, text: bytes, plan: Plan, outcome: Outcome, shown: HeadersShown) -> None:
        """Learn from a call that was planned at the current snapshot and answered at once. Nothing is learnt where it
        takes more than one lookup to tell whether the same call is answered so again.

        Args:
            text: the call as it was sent.
            shown: the header lines that answers have.
        """
        if len(text) > jsonrpc.MAX_TEMPLATE_BYTES or not _plain(plan, outcome):
            return
        network = self._network
        words, _ = jsonrpc.split_template(text)
        uses = network.planner.uses(plan.method, plan.asked)
        if words is jsonrpc.NO_TEMPLATE or uses is None or not self._holds(words):
            return
        cell = network.cell(plan)
        known = Known(
            serial=network.view.serial,
            method=plan.method,
            heavy=plan.rule.heavy,
            head=plan.head,
            local=plan.local,
            uses=uses,
            key=outcome.key,
            told=of_hit(plan.local is not None, plan.head, shown, 0, outcome.proved),
            outcome=Outcome(source=outcome.source, result=b"", block=outcome.block, proved=outcome.proved),
            cell=cell,
            latency=cell.latency[outcome.source],
        )
        self._put(words, known)

    def _holds(self, words: Wording) -> bool:
        """Does the template alone say what is asked? Each template is checked once."""
        if words in self._known:
            return self._known[words] is not None
        self._put(words, None)
        return jsonrpc.template_holds(words)

    def _put(self, words: Wording, known: Known | None) -> None:
        self._network.memos.put(self._known, words, known, KNOWN_BYTES + len(words[0]) + len(words[1]))


def _plain(plan: Plan, outcome: Outcome) -> bool:
    """Is one lookup enough to answer the call again: no range to join, no age to check, no recent transaction?"""
    if outcome.source is AnswerSource.LOCAL:
        return plan.local is not None
    if outcome.source is not AnswerSource.MEMORY or plan.range is not None or plan.rule.max_age:
        return False
    return outcome.key == plan.key or plan.rule.names_transaction is None
