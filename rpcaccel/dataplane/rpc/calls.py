"""Request bodies to reply bodies: one call or a batch, answered by the engine. Knows JSON-RPC, nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import Raw, Struct

from rpcaccel.config.sections import HttpSettings
from rpcaccel.core.client_limits import Client, LimitRefusal
from rpcaccel.core.dispatch.outcome import Outcome, miss_reason, out_of_time
from rpcaccel.core.plan.planner import full_method
from rpcaccel.core.stats.counters import PARSED_OF, AnswerSource, Step, bump
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call, Invalid
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.engine.single_flight import Waiter
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.live.hub import Hub
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.admission import NOBODY, Caller, PathRoute
from rpcaccel.dataplane.rpc.batch import Batch, PlannedCall
from rpcaccel.dataplane.rpc.error_notes import ErrorNotes
from rpcaccel.dataplane.rpc.hit_memo import NO_HIT
from rpcaccel.dataplane.rpc.observers import Observer

_UNTIMED = PARSED_OF - 1


class Answered(Struct, frozen=True):
    """The reply to one request body."""

    parts: tuple[bytes, ...] = ()
    """The body of the reply in parts; none when there was nothing but notifications. The result of a single call is a
    part by itself, and so is a long one in a batch: the clients that share it hold the same bytes, and none a copy."""
    outcomes: tuple[Outcome, ...] = ()
    batch: bool = False
    http: int = 200

    @property
    def body(self) -> bytes:
        """The whole body of the reply."""
        return b"".join(self.parts)


AnswerTold = Callable[[Answered | BaseException], None]
"""Called once with the answer to a request body, with CancelledError where nobody answers any more, or with a bug."""


class CallWait(Waiter, eq=False, kw_only=True):
    """The wait for a single call. Its caller sets `told`."""

    calls: Calls
    taken: PlannedCall
    told: AnswerTold | None = None
    came: Outcome | BaseException | None = None
    """How the flight landed, if that was before anybody could be told."""

    def landed(self, outcome: Outcome | BaseException) -> None:
        """Count the outcome, and tell the caller."""
        told, self.told = self.told, None
        if told is None:
            self.came = outcome
            return
        answered: Answered | BaseException
        try:
            answered = self.calls.single(self.taken, outcome) if isinstance(outcome, Outcome) else outcome
        except Exception as bug:
            answered = bug
        told(answered)

    def cancel(self) -> None:
        """Give up the wait: the caller left. `told` is called with CancelledError."""
        if self.flight is not None:
            self.leave()
            self.landed(asyncio.CancelledError())


class Calls:
    """Answers request bodies. One per worker."""

    def __init__(self, engine: Engine, live: Hub, clock: Callable[[], float], settings: HttpSettings) -> None:
        self.settings = settings
        self.access: Observer | None = None
        """Called for every call; None: neither log nor traces are wanted."""
        self.errors = ErrorNotes()
        self._engine = engine
        self._live = live
        self.clock = clock

    def begin(self, body: bytes, route: PathRoute, caller: Caller = NOBODY) -> Answered | AnswerWait:
        """Answer a body: at once where nothing has to be waited for. Never raises for what a client sent."""
        tally, started = self._engine.tally, self.clock()
        tally.bytes_in += len(body)
        # An object in ASCII, the usual body, needs no check for UTF-8 and is no batch.
        usual = body.startswith(b"{") and body.isascii()
        decoded = jsonrpc.decode_member(body) if usual else jsonrpc.decode(body, self.settings.max_batch)
        if not tally.requests & _UNTIMED:
            tally.step(Step.PARSE, self.clock() - started)
        if isinstance(decoded, list):
            return self._batch(decoded, route, caller)
        if decoded is jsonrpc.TOO_MANY:
            return self._too_long()
        if isinstance(decoded, Invalid):
            tally.refused("malformed")
            return Answered((jsonrpc.refusal(decoded),))
        taken, outcome = self._plan_call(decoded, route, caller, started)
        if outcome is not None:
            route.known.learn(body, taken.plan, outcome, self.settings.headers)
            return self.single(taken, outcome)
        wait = CallWait(calls=self, taken=taken)
        self.fetch(taken, route, wait)
        if wait.came is None:
            return wait
        if isinstance(wait.came, BaseException):
            raise wait.came
        return self.single(taken, wait.came)

    async def answer(self, body: bytes, route: PathRoute, caller: Caller = NOBODY) -> Answered:
        """The reply of `begin`, awaited."""
        answered = self.begin(body, route, caller)
        return answered if isinstance(answered, Answered) else await answer_to(answered)

    def _batch(self, members: list[Raw], route: PathRoute, caller: Caller) -> Answered | AnswerWait:
        """Independent calls, answered in order: hits at once, misses together, one failing item spoils no other."""
        guest = caller.guest
        self._engine.tally.batches += 1
        if guest is not None and (refused := guest.batch(len(members))) is not None:
            return Answered((jsonrpc.error_reply(b"null", refused.error),), http=refused.http)
        batch = Batch(members, self.settings.max_batch_answer)
        self.read_slice(batch, route, caller)
        return self.whole(batch, route, caller) if batch.settled else BatchFetch(self, batch, route, caller).begin()

    def _too_long(self) -> Answered:
        """The answer to a batch of more calls than are taken. How many more is not known: the rest is not read."""
        tally, most = self._engine.tally, self.settings.max_batch
        tally.batches += 1
        tally.refused("batch-too-long")
        message = f"batch too long: more than {most} calls"
        return Answered((jsonrpc.refusal(Invalid(jsonrpc.INVALID_REQUEST, message)),))

    def whole(self, batch: Batch, route: PathRoute, caller: Caller) -> Answered:
        """The answer to a batch whose items are all settled."""
        if batch.full:
            self._engine.tally.refused("batch-answer-too-large")
            self.errors.turned_away(caller, route.network.name, batch.turned, batch.too_large)
        return Answered(*batch.reply(), batch=True)

    def read_slice(self, batch: Batch, route: PathRoute, caller: Caller) -> None:
        """Read on in a batch, for as long as one may hold the loop: answer hits, collect misses."""
        particular = caller.guest is not None or self.access is not None
        memory, now = self._engine.memory, self.clock()
        turn_ends = now + TURN_SECONDS
        while batch.next < batch.size and now < turn_ends:
            position, text = batch.next, bytes(batch.members[batch.next])
            batch.next = position + 1
            started, ordinary = now, particular or batch.full
            known, call_id, result, slot = NO_HIT if ordinary else route.known.find(text, memory, started)
            if known is not None and len(result) <= batch.room:
                batch.room -= len(result)
                batch.outcomes[position] = known.outcome
                batch.replies[position] = call_id, jsonrpc.RESULT, result
                now = self.clock()
                known.count(memory, slot, len(result), now - started)
            else:
                self._read_item(batch, position, text, route, caller, started)
                now = self.clock()

    def _read_item(
        self, batch: Batch, position: int, text: bytes, route: PathRoute, caller: Caller, started: float
    ) -> None:
        """Decode one item of a batch, and answer it at once, refuse it, or put it among the misses."""
        call = jsonrpc.decode_member(text)
        if isinstance(call, Invalid):
            self._engine.tally.refused("malformed")
            batch.replies[position] = call.id, jsonrpc.ERROR, jsonrpc.error_object(call.code, call.message)
            return
        if batch.full:
            batch.turn_away(position, call.id, full_method(call.method, route.prefix))
            return
        taken, outcome = self._plan_call(call, route, caller, started)
        if outcome is None:
            batch.misses.append((position, taken))
            return
        route.known.learn(text, taken.plan, outcome, self.settings.headers)
        self.count(taken, outcome)
        batch.settle(position, taken, outcome)

    def _plan_call(
        self, call: Call, route: PathRoute, caller: Caller, started: float
    ) -> tuple[PlannedCall, Outcome | None]:
        """Plan a call, and give the answer that needs no waiting. A guest pays for the call, whoever answers it.

        Whether the call is refused is asked first: the params of a refused call are not read, and no plan is
        remembered. That a method with a rule is accepted is asked once for each path and revision of the settings.
        """
        network, engine, guest = route.network, self._engine, caller.guest
        accepted = route.accepted.get(call.method)
        if accepted is not None:
            rule, refused = accepted[0], None
            method = rule.method
        else:
            method = full_method(call.method, route.prefix)
            rule = network.planner.rule(method)
            refused = engine.refused(network, method, rule)
        outcome = (None if guest is None else _refused(guest, method, rule.heavy, started)) or refused
        if outcome is not None:
            plan = network.planner.unread(method, call.params)
        elif rule.kind == "subscribe":
            plan = network.planner.unread(method, call.params)
            outcome = self._live.answer(network, plan, caller.turn, partial(self._replay, network, guest, started))
        else:
            plan = network.planner.plan(method, call.params, network.sight.view)
            outcome = engine.answer_now(network, plan)
            if outcome is not None:
                network.planner.remember(plan, network.sight.view)
        if accepted is None:
            accepted = rule, network.cell(plan)
            if rule.known and refused is None:
                if len(route.accepted) >= route.most_accepted:
                    route.accepted.clear()
                route.accepted[call.method] = accepted
            elif refused is None:
                self.errors.called(plan.network, method)
        return PlannedCall(call.id, plan, accepted[1], started, network.sight.view.fork_epoch, caller), outcome

    def _replay(self, network: Network, guest: Client | None, now: float, method: str, calls: int) -> Outcome | None:
        """Charge a guest for the calls by which it could get the old blocks that it subscribes to. Returns the refusal
        where it may not make those calls."""
        rule = network.planner.rule(method)
        refusal = None if guest is None else guest.pay(method, rule.heavy, now, calls)
        return self._engine.refused(network, method, rule) if refusal is None else _outcome(refusal)

    def fetch(self, taken: PlannedCall, route: PathRoute, waiter: Waiter) -> None:
        """Fetch the outcome of a call that misses. The waiter may be told before this returns.

        When the client wants its answer, the wait ends as if the client left: the fetch goes on for others.
        """
        caller, plan, misses = taken.caller, taken.plan, taken.cell.misses
        reason = "not-kept-yet" if plan.key is not None or plan.head_key is not None else miss_reason(plan)
        misses[reason] = misses.get(reason, 0) + 1
        self._engine.fetch(route.network, plan, caller, waiter)
        if caller.ends is not None:
            waiter.within(caller.ends - self.clock(), out_of_time(plan.head))

    def single(self, taken: PlannedCall, outcome: Outcome) -> Answered:
        """Count the outcome of a single call, and write its reply."""
        self.count(taken, outcome)
        if taken.id is None:
            return Answered((), (outcome,))
        if outcome.result is not None:
            return Answered(jsonrpc.result_reply(taken.id, outcome.result), (outcome,), http=outcome.http)
        return Answered((jsonrpc.error_reply(taken.id, outcome.error or b"null"),), (outcome,), http=outcome.http)

    def count(self, taken: PlannedCall, outcome: Outcome) -> None:
        """Count the outcome of a call, and call the observer of every call."""
        seconds = self.clock() - taken.started
        size = len(outcome.result) if outcome.result is not None else 0
        fault = ""
        if outcome.error is None:
            taken.cell.done(outcome.source, seconds, size, steps=outcome.steps)
        else:
            code, fault = self.errors.note(taken.caller, taken.plan, outcome, seconds)
            by_client = fault == "client"
            taken.cell.done(outcome.source, seconds, 0, failed=True, by_client=by_client, steps=outcome.steps)
            if fault == "service":
                bump(self._engine.tally.network(taken.plan.network).failed, str(code))
        if (guest := taken.caller.guest) is not None:
            guest.cell.answered(taken.cell.method, outcome.source, seconds, fault)
        if self.access is not None:
            self.access.answered(taken.caller, taken.plan, outcome, seconds)


class BatchFetch:
    """Fetches the items of one batch that must be waited for, at most http.batch_at_once of them at a time. Its caller
    sets `told`."""

    __slots__ = ("_batch", "_caller", "_calls", "_came", "_going_on", "_route", "_under_way", "told")

    def __init__(self, calls: Calls, batch: Batch, route: PathRoute, caller: Caller) -> None:
        self._calls = calls
        self._batch = batch
        self._route = route
        self._caller = caller
        self._under_way: set[_ItemWait] = set()
        self._going_on = False
        """Is `_go_on` beginning items? An item that is answered within that leaves the next one to the same loop."""
        self._came: Answered | BaseException | None = None
        """How the batch ended; None while it is under way."""
        self.told: AnswerTold | None = None

    def begin(self) -> Answered | AnswerWait:
        """Fetch the misses, and read on where the batch was too long for one turn of the loop."""
        if not self._batch.read:
            asyncio.get_running_loop().call_soon(self._read_on)
        self._go_on()
        if isinstance(self._came, BaseException):
            raise self._came
        return self._came or self

    def cancel(self) -> None:
        """Give up the waits for all items: the caller left. `told` is called with CancelledError."""
        self._end(asyncio.CancelledError())

    def _end(self, answered: Answered | BaseException) -> None:
        """Tell the caller, and leave the items under way."""
        if self._came is not None:
            return
        self._came = answered
        under_way, self._under_way = self._under_way, set()
        for one in under_way:
            one.leave()
        told, self.told = self.told, None
        if told is not None:
            told(answered)

    def _read_on(self) -> None:
        if self._came is not None:
            return
        try:
            self._calls.read_slice(self._batch, self._route, self._caller)
            if not self._batch.read:
                asyncio.get_running_loop().call_soon(self._read_on)
            self._go_on()
        except Exception as bug:  # or the caller would wait for ever
            self._end(bug)

    def _go_on(self) -> None:
        batch, calls = self._batch, self._calls
        if self._going_on:
            return
        self._going_on = True
        while batch.misses and len(self._under_way) < calls.settings.batch_at_once and self._came is None:
            position, taken = batch.misses.popleft()
            if batch.full:
                batch.turn_away(position, taken.id, taken.plan.method)
            else:
                self._fetch(position, taken)
        self._going_on = False
        if batch.settled and not self._under_way and self._came is None:
            self._end(calls.whole(batch, self._route, self._caller))

    def _fetch(self, position: int, taken: PlannedCall) -> None:
        if self._calls.access is not None:
            taken.caller = self._calls.access.another(taken.caller)
        taken.started = self._calls.clock()  # the wait for items before it is no part of its latency
        network, plan = self._route.network, taken.plan
        if network.sight.view.fork_epoch != taken.fork_epoch:  # by the old plan, a node on a left branch might be asked
            taken.plan = network.replan(plan)
        wait = _ItemWait(batch=self, position=position, taken=taken)
        self._under_way.add(wait)
        self._calls.fetch(taken, self._route, wait)

    def landed(self, wait: _ItemWait, outcome: Outcome | BaseException) -> None:
        """Settle one item, and begin the next one; an item that ends with an error ends the batch."""
        self._under_way.discard(wait)
        if isinstance(outcome, BaseException):
            self._end(outcome)
        elif self._came is None:
            try:
                self._calls.count(wait.taken, outcome)
                self._batch.settle(wait.position, wait.taken, outcome)
                self._go_on()
            except Exception as bug:
                self._end(bug)


class _ItemWait(Waiter, eq=False, kw_only=True):
    """The wait for one item of a batch."""

    batch: BatchFetch
    position: int
    taken: PlannedCall

    def landed(self, outcome: Outcome | BaseException) -> None:
        self.batch.landed(self, outcome)


AnswerWait = CallWait | BatchFetch
"""A request body whose answer must be waited for."""


async def answer_to(wait: AnswerWait) -> Answered:
    """The answer that is waited for. A caller that is cancelled gives up the wait."""
    came: asyncio.Future[Answered | BaseException] = asyncio.get_running_loop().create_future()
    wait.told = lambda answered: None if came.done() else came.set_result(answered)
    try:
        answered = await came
    except asyncio.CancelledError:
        wait.cancel()
        raise
    if isinstance(answered, BaseException):
        raise answered
    return answered


def _refused(guest: Client, method: str, heavy: bool, now: float) -> Outcome | None:
    refusal = guest.call(method, heavy, now)
    return None if refusal is None else _outcome(refusal)


def _outcome(refusal: LimitRefusal) -> Outcome:
    return Outcome(source=AnswerSource.REFUSED, error=refusal.error, http=refusal.http, retry_after=refusal.retry_after)
