"""A batch of JSON-RPC calls while its items are answered: their order, and the bytes that the answers may have."""

from __future__ import annotations

from collections import deque

from msgspec import Raw, Struct
from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stats.counters import AnswerSource, Cell
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.rpc.admission import Caller

SHORT_ANSWER_BYTES = 256
"""Bytes. An answer no longer than this has its place in a batch in any case: the error instead would be as long."""


class PlannedCall(Struct, gc=False):
    """A well-formed call with what is needed to fetch and to count its outcome."""

    id: bytes | None
    """Raw JSON text of the caller's id; None for a notification."""
    plan: Plan
    cell: Cell
    started: float
    """When the latency of the call began to count (monotonic seconds)."""
    fork_epoch: int
    """The fork epoch at which the call was planned."""
    caller: Caller


class Batch:
    """A batch while its items are answered."""

    __slots__ = ("full", "members", "misses", "most", "next", "outcomes", "replies", "room", "size", "turned")

    def __init__(self, members: list[Raw], most: int) -> None:
        """`most`: bytes of results and errors that the reply may have."""
        self.members = members
        self.size = len(members)
        self.next = 0
        """The position of the next item to look at."""
        self.most = self.room = most
        """Bytes of results and errors for which there is still room."""
        self.full = False
        """Was there no room for an answer? No further item is begun then; small answers under way may still fit."""
        self.turned: dict[str, int] = {}
        """Items whose answers found no room, by method."""
        self.replies: list[tuple[bytes, bytes, bytes] | None] = [None] * self.size
        """The replies by position, as jsonrpc.batch_reply takes them."""
        self.outcomes: list[Outcome | None] = [None] * self.size
        """The outcomes by position; those of known calls are without their results."""
        self.misses: deque[tuple[int, PlannedCall]] = deque()
        """Positions and calls that were read and must be fetched."""

    @property
    def read(self) -> bool:
        """Have all items been looked at?"""
        return self.next == self.size

    @property
    def settled(self) -> bool:
        """Is there nothing left to wait for?"""
        return self.read and not self.misses

    @property
    def too_large(self) -> str:
        """The sentence for an item whose answer finds no room."""
        return f"response too large: the answers of a batch have {self.most} bytes at the most; ask for less at once"

    def settle(self, position: int, taken: PlannedCall, outcome: Outcome) -> None:
        """Take the outcome of one item: its reply where there is room, none for a notification."""
        call_id = taken.id
        if call_id is None:
            self.outcomes[position] = replace(outcome, result=b"", error=None)
            return
        found = outcome.result is not None
        value = (outcome.result if found else outcome.error) or b"null"
        if len(value) > max(self.room, SHORT_ANSWER_BYTES):
            self.turn_away(position, call_id, taken.plan.method)
            return
        self.room -= len(value)
        self.outcomes[position] = outcome
        self.replies[position] = call_id, jsonrpc.RESULT if found else jsonrpc.ERROR, value

    def turn_away(self, position: int, call_id: bytes | None, method: str) -> None:
        """Refuse one item because there is no room for its answer. No further item is begun."""
        self.full = True
        self.turned[method] = self.turned.get(method, 0) + 1
        error = jsonrpc.error_object(jsonrpc.RESPONSE_TOO_LARGE, self.too_large)
        self.outcomes[position] = Outcome(source=AnswerSource.REFUSED, error=error)
        if call_id is not None:
            self.replies[position] = call_id, jsonrpc.ERROR, error

    def reply(self) -> tuple[tuple[bytes, ...], tuple[Outcome, ...]]:
        """The parts of the reply to the whole batch, in the order of the items, and the outcomes."""
        said = [reply for reply in self.replies if reply is not None]
        outcomes = tuple(outcome for outcome in self.outcomes if outcome is not None)
        return jsonrpc.batch_reply(said) if said else (), outcomes
