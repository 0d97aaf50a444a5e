"""From a body to a body: one call or a batch, answered by the engine. Knows JSON-RPC, nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from rpcaccel.config.model import HttpSettings
from rpcaccel.core.client_limits import Client
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import full_method
from rpcaccel.core.stats.counters import PARSED_OF, AnswerSource, Step
from rpcaccel.core.wire import call_template, jsonrpc
from rpcaccel.core.wire.jsonrpc import Call, Invalid
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.engine.results import out_of_time
from rpcaccel.dataplane.engine.single_flight import Pending
from rpcaccel.dataplane.rpc.hit_memo import Known
from rpcaccel.dataplane.rpc.observer import Observer
from rpcaccel.dataplane.rpc.path_routes import PathRoute

_UNTIMED = PARSED_OF - 1
TURN = 0.0005
"""Seconds that a batch may hold the loop before others get their turn."""
SHORT = 256
"""Bytes. An answer no longer than this has its place in a batch in any case: the error instead would be as long."""


class Answered(Struct, frozen=True):
    """What goes back for one request body."""

    body: bytes
    """Empty when there was nothing but notifications."""
    outcomes: tuple[Outcome, ...] = ()
    batch: bool = False
    http: int = 200
    shared: tuple[bytes, ...] = ()
    """What follows the body of a long answer: all who are told it have the same bytes, and none a copy."""

    def whole(self) -> bytes:
        """The body and what follows."""
        return b"".join((self.body, *self.shared))


class Calls:
    """Answers request bodies. One per worker."""

    def __init__(self, engine: Engine, clock: Callable[[], float], settings: HttpSettings) -> None:
        self.settings = settings
        self.access: Observer | None = None
        """Told of every call; None: nobody wants to know."""
        self._engine = engine
        self._clock = clock

    def begin(
        self, body: bytes, route: PathRoute, client: bytes, guest: Client | None = None, ends: float | None = None
    ) -> Answered | Pending[Answered]:
        """Answer a body: at once where nothing has to be waited for. Never raises for what a client sent.

        Args:
            client: what tells this caller from others, for networks that route by client.
            guest: who is held to limits; None: nobody is.
            ends: when the client wants its answer (monotonic seconds); None: it waits as long as the network does.
        """
        tally = self._engine.tally
        decoded = jsonrpc.decode(body) if tally.requests & _UNTIMED else self._decode_timed(body)
        if isinstance(decoded, list):
            return self._batch(decoded, route, client, guest, ends)
        if isinstance(decoded, Invalid):
            tally.refused("malformed")
            return Answered(jsonrpc.refusal(decoded))
        plan, outcome = self._take_up(decoded, route, guest)
        if outcome is not None:
            route.known.learn(body, route.network, plan, outcome, self.settings.headers)
            return _single(decoded, outcome)
        return self._begin(plan, route, client, ends).then(
            partial(self._single_came, decoded, plan, route, self._clock())
        )

    def _decode_timed(self, body: bytes) -> Call | Invalid | list[Raw]:
        started = self._clock()
        decoded = jsonrpc.decode(body)
        self._engine.tally.step(Step.PARSE, self._clock() - started)
        return decoded

    async def answer(
        self, body: bytes, route: PathRoute, client: bytes, guest: Client | None = None, ends: float | None = None
    ) -> Answered:
        """The same, waited for."""
        answered = self.begin(body, route, client, guest, ends)
        return answered if isinstance(answered, Answered) else await answered

    def _batch(
        self, members: list[Raw], route: PathRoute, client: bytes, guest: Client | None, ends: float | None
    ) -> Answered | Pending[Answered]:
        """Independent calls, answered in order: hits at once, misses together, one failing item spoils no other."""
        tally = self._engine.tally
        tally.batches += 1
        most = self.settings.max_batch
        if len(members) > most:
            tally.refused("batch-too-long")
            message = f"batch too long: {len(members)} calls, at most {most} are taken"
            return Answered(jsonrpc.refusal(Invalid(jsonrpc.INVALID_REQUEST, message)))
        if guest is not None and (refused := guest.batch(len(members))) is not None:
            return Answered(jsonrpc.error_reply(b"null", refused.error), http=refused.http)
        batch = _Batch(members, self.settings.max_batch_answer)
        self.take_turn(batch, route, guest)
        return self.whole(batch) if batch.settled else _BatchFetch(self, batch, route, client, guest, ends).begin()

    def whole(self, batch: _Batch) -> Answered:
        """The answer to a batch whose items are all settled."""
        if batch.full:
            self._engine.tally.refused("batch-answer-too-large")
        return batch.answered()

    def take_turn(self, batch: _Batch, route: PathRoute, guest: Client | None) -> None:
        """Read on in a batch, for as long as one may hold the loop: answer hits, collect misses."""
        particular = guest is not None or self.access is not None
        now = self._clock()
        turn_ends = now + TURN
        while batch.next < batch.size and now < turn_ends:
            position, text = batch.next, bytes(batch.members[batch.next])
            batch.next = position + 1
            known = None if particular or batch.full else self._take_known(batch, position, text, route, now)
            if known is None:
                self._take(batch, position, text, route, guest)
            started, now = now, self._clock()
            if known is not None:
                known.latency.observe(now - started)

    def _take(self, batch: _Batch, position: int, text: bytes, route: PathRoute, guest: Client | None) -> None:
        call = jsonrpc.decode_member(text)
        if isinstance(call, Invalid):
            self._engine.tally.refused("malformed")
            batch.replies[position] = call.id, jsonrpc.ERROR, jsonrpc.error_object(call.code, call.message)
            return
        if batch.full:
            batch.turn_away(position, call.id)
            return
        plan, outcome = self._take_up(call, route, guest)
        if outcome is None:
            batch.misses.append((position, call, plan))
            return
        route.known.learn(text, route.network, plan, outcome, self.settings.headers)
        batch.settle(position, call.id, outcome)

    def _take_known(self, batch: _Batch, position: int, text: bytes, route: PathRoute, now: float) -> Known | None:
        """An item that was answered at once before, as dataplane.http.hit_path has it for single calls: the long way's
        counts and bytes without its steps. None, and nothing done, where anything is not as it was."""
        words, call_id = call_template.split(text)
        known = route.known.get(words)
        if known is None or known.serial != route.network.sight.view.serial:
            return None
        result = known.local
        if result is None:
            memory = self._engine.memory
            slot = memory.find(known.key, now)
            if slot is None or slot.entry is None or len(slot.entry.result) > batch.room:
                return None
            memory.hit(slot)
            result = slot.entry.result
        known.uses.count += 1
        known.cell.size += len(result)
        batch.room -= len(result)
        batch.outcomes[position] = known.outcome
        batch.replies[position] = call_id, jsonrpc.RESULT, result
        return known

    def _take_up(self, call: Call, route: PathRoute, guest: Client | None) -> tuple[Plan, Outcome | None]:
        """The plan of a call, and the answer that needs no waiting, counted. A guest pays for the call, whoever
        answers it. Who may call is looked at first: of a refused call nothing is read or remembered."""
        network, started = route.network, self._clock()
        method = full_method(call.method, route.prefix) if route.prefix else call.method
        rule = network.planner.rule(method)
        outcome = None if guest is None else _refused(guest, method, rule.heavy, started)
        outcome = outcome or self._engine.refused(network, method, rule)
        if outcome is not None:
            plan = network.planner.unread(method, call.params)
        else:
            plan = network.planner.plan(method, call.params, network.sight.view)
            outcome = self._engine.answer_now(network, plan)
        if outcome is not None:
            self._count(plan, route, outcome, started)
        return plan, outcome

    def fetch(self, plan: Plan, route: PathRoute, client: bytes, ends: float | None) -> Pending[Outcome]:
        """The outcome of a call, counted. A client that waits no longer is like one that leaves: what others wait for
        goes on without it."""
        started = self._clock()
        return self._begin(plan, route, client, ends).then(partial(self._counted, plan, route, started))

    def _begin(self, plan: Plan, route: PathRoute, client: bytes, ends: float | None) -> Pending[Outcome]:
        pending = self._engine.fetch(route.network, plan, client)
        if ends is not None:
            pending.within(ends - self._clock(), out_of_time(plan.head))
        return pending

    def _single_came(self, call: Call, plan: Plan, route: PathRoute, started: float, outcome: Outcome) -> Answered:
        self._count(plan, route, outcome, started)
        return _single(call, outcome)

    def _counted(self, plan: Plan, route: PathRoute, started: float, outcome: Outcome) -> Outcome:
        self._count(plan, route, outcome, started)
        return outcome

    def _count(self, plan: Plan, route: PathRoute, outcome: Outcome, started: float) -> None:
        size = len(outcome.result) if outcome.result is not None else 0
        failed = outcome.error is not None and outcome.source is not AnswerSource.REFUSED
        seconds = self._clock() - started
        cell = route.network.cell(plan)
        cell.done(outcome.source, seconds, size, failed)
        for step, taken in outcome.steps:  # none of what was answered at once
            cell.took(step, taken)
        if self.access is not None:
            self.access.answered(route.network.name, plan, outcome, seconds)


class _BatchFetch:
    """The items of one batch that have to be waited for, so many of them at once."""

    __slots__ = ("_batch", "_calls", "_client", "_ends", "_going_on", "_guest", "_pending", "_route", "_under_way")

    def __init__(
        self, calls: Calls, batch: _Batch, route: PathRoute, client: bytes, guest: Client | None, ends: float | None
    ) -> None:
        self._calls = calls
        self._batch = batch
        self._route = route
        self._client = client
        self._guest = guest
        self._ends = ends
        self._under_way: set[Pending[Outcome]] = set()
        self._going_on = False
        """Are items being begun? One that is answered at once leaves the next one to whoever began it."""
        self._pending: Pending[Answered] = Pending(self)

    def begin(self) -> Pending[Answered]:
        """Fetch what misses, and read on where the batch was too long for one turn of the loop."""
        if not self._batch.read:
            asyncio.get_running_loop().call_soon(self._read_on)
        self._go_on()
        return self._pending

    def leave(self, pending: Pending[Any]) -> None:  # noqa: ARG002 - there is one who waits
        """The caller left, and with it those who wait for the items."""
        under_way, self._under_way = self._under_way, set()
        for one in under_way:
            one.cancel()

    def _read_on(self) -> None:
        if self._pending.done():
            return
        self._calls.take_turn(self._batch, self._route, self._guest)
        if not self._batch.read:
            asyncio.get_running_loop().call_soon(self._read_on)
        self._go_on()

    def _go_on(self) -> None:
        batch, calls = self._batch, self._calls
        if self._going_on:
            return
        self._going_on = True
        while batch.misses and len(self._under_way) < calls.settings.batch_at_once and not self._pending.done():
            position, call, plan = batch.misses.popleft()
            if batch.full:
                batch.turn_away(position, call.id)
            elif calls.access is None:
                self._fetch(position, call, plan)
            else:
                copy_context().run(self._fetch, position, call, plan)  # a trace of its own
        self._going_on = False
        if batch.settled and not self._under_way and not self._pending.done():
            self._pending.land(calls.whole(batch))

    def _fetch(self, position: int, call: Call, plan: Plan) -> None:
        if self._calls.access is not None:
            self._calls.access.another()
        pending = self._calls.fetch(plan, self._route, self._client, self._ends)
        self._under_way.add(pending)
        pending.listen(partial(self._landed, position, call))

    def _landed(self, position: int, call: Call, pending: Pending[Outcome]) -> None:
        self._under_way.discard(pending)
        if self._pending.done():
            return
        try:
            self._batch.settle(position, call.id, pending.result())
        except (Exception, asyncio.CancelledError) as error:
            self.leave(pending)
            self._pending.land(None, error)
        else:
            self._go_on()


class _Batch:
    """A batch while its items are answered."""

    __slots__ = ("full", "members", "misses", "most", "next", "outcomes", "replies", "room", "size")

    def __init__(self, members: list[Raw], most: int) -> None:
        """`most`: bytes of results and errors that its answer may have."""
        self.members = members
        self.size = len(members)
        self.next = 0
        """The position of the item to be looked at next."""
        self.most = self.room = most
        """Bytes of them that may still come."""
        self.full = False
        """Was there no room for an answer? Then nothing more is begun: what is under way, and small, may still fit."""
        self.replies: list[tuple[bytes, bytes, bytes] | None] = [None] * self.size
        """As jsonrpc.batch_reply takes them."""
        self.outcomes: list[Outcome | None] = [None] * self.size
        """Those of known calls are without their results."""
        self.misses: deque[tuple[int, Call, Plan]] = deque()
        """Read, and still to be fetched."""

    @property
    def read(self) -> bool:
        """Have all items been looked at?"""
        return self.next == self.size

    @property
    def settled(self) -> bool:
        """Is there nothing left to wait for?"""
        return self.read and not self.misses

    def settle(self, position: int, call_id: bytes | None, outcome: Outcome) -> None:
        """One item has its answer, which is shown where there is room for it; a notification has none to show."""
        if call_id is None:
            self.outcomes[position] = replace(outcome, result=b"", error=None)
            return
        found = outcome.result is not None
        value = (outcome.result if found else outcome.error) or b"null"
        if len(value) > max(self.room, SHORT):
            self.turn_away(position, call_id)
            return
        self.room -= len(value)
        self.outcomes[position] = outcome
        self.replies[position] = call_id, jsonrpc.RESULT if found else jsonrpc.ERROR, value

    def turn_away(self, position: int, call_id: bytes | None) -> None:
        """There is no room for the answer of one item: it is not held, and nothing more is begun."""
        self.full = True
        message = f"response too large: the answers of a batch have {self.most} bytes at the most; ask for less at once"
        error = jsonrpc.error_object(jsonrpc.RESPONSE_TOO_LARGE, message)
        self.outcomes[position] = Outcome(source=AnswerSource.REFUSED, error=error)
        if call_id is not None:
            self.replies[position] = call_id, jsonrpc.ERROR, error

    def answered(self) -> Answered:
        """The whole, in the order of the items."""
        said = [reply for reply in self.replies if reply is not None]
        outcomes = tuple(outcome for outcome in self.outcomes if outcome is not None)
        return Answered(jsonrpc.batch_reply(said) if said else b"", outcomes, batch=True)


def _single(call: Call, outcome: Outcome) -> Answered:
    if call.id is None:
        return Answered(b"", (outcome,))
    if outcome.result is not None and len(outcome.result) >= jsonrpc.SHARED_FROM:
        before, *shared = jsonrpc.result_parts(call.id, outcome.result)
        return Answered(before, (outcome,), http=outcome.http, shared=tuple(shared))
    if outcome.result is not None:
        return Answered(jsonrpc.result_reply(call.id, outcome.result), (outcome,), http=outcome.http)
    return Answered(jsonrpc.error_reply(call.id, outcome.error or b"null"), (outcome,), http=outcome.http)


def _refused(guest: Client, method: str, heavy: bool, now: float) -> Outcome | None:
    refusal = guest.call(method, heavy, now)
    if refusal is None:
        return None
    return Outcome(source=AnswerSource.REFUSED, error=refusal.error, http=refusal.http, retry_after=refusal.retry_after)
