"""What is known of calls that were answered at once before, by their wording.

Whatever follows from a wording alone is found with one lookup, for as long as the view of the network it was planned at
stays the same. One memo for each path served; a change of settings makes new paths, and so forgets all of it.
"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core import wording
from rpcaccel.core.cells import Cell, Source
from rpcaccel.core.histogram import Histogram
from rpcaccel.core.outcome import Outcome
from rpcaccel.core.plan import Plan
from rpcaccel.core.planner import Remembered
from rpcaccel.core.wording import Wording
from rpcaccel.dataplane.headers import Shown, of_hit
from rpcaccel.dataplane.network import Network

MOST = 8192
"""Wordings known on one path; with more, all are learnt anew."""


class Known(Struct, frozen=True, gc=False):
    """One wording."""

    serial: int
    """Of the view it was planned at, for which all of this holds."""
    plan: Plan
    uses: Remembered
    """Where it is counted how often the call is made."""
    key: bytes
    """Of the kept answer, unless the plan has the answer itself."""
    told: bytes
    """The beginning of the reply's head, where it took no time to speak of."""
    outcome: Outcome
    """How such a call ends, without its result."""
    cell: Cell
    latency: Histogram


class KnownCalls:
    """The wordings known on one path."""

    __slots__ = ("_known", "get")

    def __init__(self) -> None:
        self._known: dict[Wording, Known | None] = {}
        self.get = self._known.get
        """What is known of a wording; None: nothing, or that its id is not where it seems to be."""

    def __repr__(self) -> str:
        return f"<{len(self._known)} known calls>"

    def learn(self, text: bytes, network: Network, plan: Plan, outcome: Outcome, shown: Shown) -> None:
        """A call of this text was planned so, at the view of now, and answered at once. Nothing is learnt where more
        than one lookup tells whether it is answered so again. `shown`: the headers that answers have."""
        if len(text) > wording.LONGEST or not _plain(plan, outcome):
            return
        words, _ = wording.split(text)
        uses = network.planner.remembered(plan.method, plan.asked)
        if words is wording.NONE or uses is None or not self._holds(words):
            return
        cell = network.cell(plan)
        self._known[words] = Known(
            serial=network.view.serial,
            plan=plan,
            uses=uses,
            key=outcome.key,
            told=of_hit(plan.local is not None, plan.head, shown, 0),
            outcome=Outcome(source=outcome.source, result=b"", block=outcome.block),
            cell=cell,
            latency=cell.latency[outcome.source],
        )

    def _holds(self, words: Wording) -> bool:
        """Does the wording alone say what is asked? Found out once."""
        if words in self._known:
            return self._known[words] is not None
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[words] = None
        return wording.holds(words)


def _plain(plan: Plan, outcome: Outcome) -> bool:
    """Does one lookup tell all: no range to be put together, no age to be looked at, no transaction sent meanwhile?"""
    if outcome.source is Source.LOCAL:
        return True
    if outcome.source is not Source.MEMORY or plan.range is not None or plan.rule.max_age:
        return False
    return outcome.key == plan.key or plan.rule.names_transaction is None
