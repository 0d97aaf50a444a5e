"""What is known of calls that were answered at once before, by their wording.

Whatever follows from a wording alone is found with one lookup, for as long as the view of the network it was planned at
stays the same. One memo for each path served; a change of settings makes new paths, and so forgets all of it.
"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.memo import Memos
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Uses
from rpcaccel.core.stats.counters import AnswerSource, Cell
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.wire import call_template
from rpcaccel.core.wire.call_template import Wording
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.response_headers import Shown, of_hit

KNOWN_BYTES = 400
"""What a known wording costs beside its text (bytes; measured by tests/unit/dataplane/test_known.py)."""


class Known(Struct, frozen=True, gc=False):
    """One wording."""

    serial: int
    """Of the view it was planned at, for which all of this holds."""
    method: str
    """The full name."""
    heavy: bool
    """Is it a heavy method?"""
    head: int
    """The head it was planned at."""
    local: bytes | None
    """The result itself, where the proxy knows it. The plan is not held: it would weigh as much again."""
    uses: Uses
    """Where it is counted how often the call is made."""
    key: bytes
    """Of the kept answer, unless the proxy knows it."""
    told: bytes
    """The beginning of the reply's head, where it took no time to speak of."""
    outcome: Outcome
    """How such a call ends, without its result."""
    cell: Cell
    latency: Histogram


class KnownCalls:
    """The wordings known on one path; what they weigh is counted with what others remember."""

    __slots__ = ("_known", "_memos", "get")

    def __init__(self, memos: Memos) -> None:
        self._memos = memos
        self._known: dict[Wording, Known | None] = {}
        self.get = self._known.get
        """What is known of a wording; None: nothing, or that its id is not where it seems to be."""

    def __repr__(self) -> str:
        return f"<{len(self._known)} known calls>"

    def learn(self, text: bytes, network: Network, plan: Plan, outcome: Outcome, shown: Shown) -> None:
        """A call of this text was planned so, at the view of now, and answered at once. Nothing is learnt where more
        than one lookup tells whether it is answered so again. `shown`: the headers that answers have."""
        if len(text) > call_template.LONGEST or not _plain(plan, outcome):
            return
        words, _ = call_template.split(text)
        uses = network.planner.uses(plan.method, plan.asked)
        if words is call_template.NONE or uses is None or not self._holds(words):
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
            told=of_hit(plan.local is not None, plan.head, shown, 0),
            outcome=Outcome(source=outcome.source, result=b"", block=outcome.block),
            cell=cell,
            latency=cell.latency[outcome.source],
        )
        self._put(words, known)

    def _holds(self, words: Wording) -> bool:
        """Does the wording alone say what is asked? Found out once."""
        if words in self._known:
            return self._known[words] is not None
        self._put(words, None)
        return call_template.holds(words)

    def _put(self, words: Wording, known: Known | None) -> None:
        self._memos.put(self._known, words, known, KNOWN_BYTES + len(words[0]) + len(words[1]))


def _plain(plan: Plan, outcome: Outcome) -> bool:
    """Does one lookup tell all: no range to be put together, no age to be looked at, no transaction sent meanwhile?"""
    if outcome.source is AnswerSource.LOCAL:
        return True
    if outcome.source is not AnswerSource.MEMORY or plan.range is not None or plan.rule.max_age:
        return False
    return outcome.key == plan.key or plan.rule.names_transaction is None
