"""Gathering: who travels together, who does not, and that no call harms another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from rpcaccel.core.dispatch.batching import FEWEST_SLOTS, SLOT_SECONDS, Gathering
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.rpc.admission import Caller
from rpcaccel.dataplane.upstream.attempt import Attempt
from rpcaccel.dataplane.upstream.batcher import SETTLED_AT_ONCE, Batcher
from rpcaccel.dataplane.upstream.pool import NodePool
from tests.support.dataplane.fake_client import FakeClient, FakeSpan, asked, pool_of
from tests.support.manual_clock import ManualClock
from tests.support.plans import plan_of

RULES = {
    "light": Rule(method="light", cache=CacheClass.HEAD),
    "heavy": Rule(method="heavy", cache=CacheClass.HEAD, heavy=True),
    "send": Rule(method="send", cache=CacheClass.NEVER, kind="send", repeat=False),
}


class Node(FakeClient):
    """An upstream that answers when told to, and remembers how it was asked."""

    def __init__(self) -> None:
        self.singles: list[bytes] = []
        self.told: list[str] = []
        """What each request said of the trace it belongs to."""
        self.batches: list[list[bytes]] = []
        self.open = asyncio.Event()
        self.refuses: FailureKind | None = None
        self.loses = b""
        self.pool: NodePool | None = None

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        self.singles.append(params)
        self.told.append(self.span)
        await self.open.wait()
        return Answer(result=params, elapsed=0.001)

    async def send_batch(self, calls: Sequence[tuple[str, bytes]], *, timeout: float) -> list[Answer | Failure]:
        self.batches.append([params for _, params in calls])
        self.told.append(self.span)
        await self.open.wait()
        if self.refuses:
            return [Failure(self.refuses, "no batches here")] * len(calls)
        missing = Failure(FailureKind.WRONG_ID, "no answer to this item")
        return [missing if params == self.loses else Answer(result=params) for _, params in calls]


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def batcher(node: Node) -> Batcher:
    return Batcher(node, 512, lambda: 0.0, Gathering())


def pool(batcher: Batcher, clock: Callable[[], float] = lambda: 0.0) -> NodePool:
    """The pool behind a batcher, made with the first call."""
    assert isinstance(batcher.client, Node)
    if batcher.client.pool is None:
        batcher.client.pool = pool_of(batcher, clock=clock)
    return batcher.client.pool


def plan(method: str, number: int) -> Plan:
    return plan_of(method, rule=RULES.get(method, UNKNOWN_RULE), params=b"[%d]" % number)


async def call(batcher: Batcher, method: str, number: int, *, timeout: float = 5.0) -> Answer | Failure:
    """The reply to one call."""
    return await asked(pool(batcher), plan(method, number), timeout=timeout)


async def ask(
    batcher: Batcher,
    count: int,
    method: str = "light",
    first: int = 0,
    span: str = "",
    among: NodePool | None = None,
) -> list[asyncio.Task[Answer | Failure]]:
    """Begin calls, each with its own params, and let them get as far as they can."""
    among = among or pool(batcher)
    origin = Caller(trace=FakeSpan(span) if span else None)
    tasks = [
        asyncio.create_task(asked(among, plan(method, number), origin=origin)) for number in range(first, first + count)
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_calls_go_alone_while_there_are_slots_and_the_rest_together(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS + 4)
    assert len(node.singles) == FEWEST_SLOTS
    node.open.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.result for answer in answers if isinstance(answer, Answer)] == [
        b"[%d]" % number for number in range(FEWEST_SLOTS + 4)
    ]
    assert node.batches == [[b"[%d]" % number for number in range(FEWEST_SLOTS, FEWEST_SLOTS + 4)]]


@pytest.mark.parametrize("method", ["heavy", "send", "unknown"])
async def test_heavy_calls_writes_and_unknown_methods_go_alone_and_are_nothing_to_a_light_read(
    node: Node, batcher: Batcher, method: str
) -> None:
    node.open.set()
    await asyncio.gather(*await ask(batcher, 30, method))
    assert batcher.state.single == 0.0, "how long they take is no measure"
    node.open.clear()
    tasks = await ask(batcher, 30, method)
    tasks += await ask(batcher, FEWEST_SLOTS, first=100)
    assert node.singles[60:] == [b"[%d]" % number for number in range(100, 100 + FEWEST_SLOTS)], "it waits for none"
    node.open.set()
    await asyncio.gather(*tasks)
    assert (batcher.state.single, node.batches) == (0.001, [])


async def test_a_slot_that_a_call_keeps_too_long_is_given_to_those_that_wait(node: Node) -> None:
    clock = ManualClock()
    batcher = Batcher(node, 512, clock.now, Gathering())
    pool(batcher, clock.now)
    tasks = await ask(batcher, FEWEST_SLOTS + 1)
    assert len(node.singles) == FEWEST_SLOTS
    clock.advance(SLOT_SECONDS)
    async with asyncio.timeout(30):
        while len(node.singles) == FEWEST_SLOTS:  # a timer looks for such slots
            await asyncio.sleep(0.01)
    tasks += await ask(batcher, FEWEST_SLOTS - 1, first=100)
    assert len(node.singles) == 2 * FEWEST_SLOTS, "who comes now finds them free"
    tasks += await ask(batcher, 1, first=200)
    assert len(node.singles) == 2 * FEWEST_SLOTS
    node.open.set()
    await asyncio.gather(*tasks)
    assert "0 slots taken, 0 waiting" in repr(batcher)


async def test_calls_of_one_turn_that_find_no_slot_wait_for_one_that_is_kept_too_long(node: Node) -> None:
    clock = ManualClock()
    batcher = Batcher(node, 512, clock.now, Gathering())
    for _ in range(200):
        batcher.state.called(clock.now())  # so that calls of one turn are collected though slots are free
    among = pool(batcher, clock.now)
    tasks = await ask(batcher, FEWEST_SLOTS + 10, among=among)
    assert "0 waiting" not in repr(batcher)
    async with asyncio.timeout(30):
        while "0 waiting" not in repr(batcher):
            clock.advance(SLOT_SECONDS)
            await asyncio.sleep(0.01)
    node.open.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("why", [FailureKind.NOT_JSON_RPC, FailureKind.CALL_REFUSED, FailureKind.OVERSIZED])
async def test_a_batch_the_node_refuses_is_taken_apart_and_no_more_are_sent(
    node: Node, batcher: Batcher, why: FailureKind
) -> None:
    node.refuses = why
    tasks = await ask(batcher, FEWEST_SLOTS + 3)
    node.open.set()
    answers = await asyncio.gather(*tasks)
    assert all(isinstance(answer, Answer) for answer in answers)
    assert len(node.batches) == 1
    await asyncio.gather(*await ask(batcher, FEWEST_SLOTS + 3, first=100))
    assert len(node.batches) == 1


async def test_an_item_the_batch_did_not_answer_is_asked_again_alone(node: Node, batcher: Batcher) -> None:
    node.loses = b"[5]"
    tasks = await ask(batcher, FEWEST_SLOTS + 3)
    node.open.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.result for answer in answers if isinstance(answer, Answer)] == [
        b"[%d]" % number for number in range(FEWEST_SLOTS + 3)
    ]
    assert node.singles.count(b"[5]") == 1


async def test_a_caller_that_left_is_not_asked_for(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS + 3)
    tasks[FEWEST_SLOTS].cancel()
    await asyncio.sleep(0)
    node.open.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert node.batches == [[b"[%d]" % number for number in range(FEWEST_SLOTS + 1, FEWEST_SLOTS + 3)]]


async def test_a_call_that_waits_too_long_fails_unsent_at_its_own_deadline(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS)
    late = await call(batcher, "light", 99, timeout=0.01)
    assert isinstance(late, Failure)
    assert (late.kind, late.sent) == (FailureKind.TIMEOUT, False)
    node.open.set()
    await asyncio.gather(*tasks)
    assert b"[99]" not in node.singles
    assert "0 waiting" in repr(batcher)


async def test_a_batch_holds_no_more_than_the_node_is_known_to_answer_quickly(node: Node, batcher: Batcher) -> None:
    batcher.state.items = 2
    tasks = await ask(batcher, FEWEST_SLOTS + 5)
    node.open.set()
    await asyncio.gather(*tasks)
    assert node.batches
    assert all(len(batch) <= 2 for batch in node.batches[:1])


async def test_the_replies_of_a_large_batch_are_settled_in_turns(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS + 30)
    batcher.state.items = 30
    node.open.set()
    done, most = 0, 0
    while done < len(tasks):
        await asyncio.sleep(0)
        now = sum(task.done() for task in tasks)
        if node.batches:
            most = max(most, now - done)
        done = now
    assert max(map(len, node.batches)) > SETTLED_AT_ONCE
    assert most <= 2 * SETTLED_AT_ONCE
    answers = [task.result() for task in tasks]
    assert [answer.result for answer in answers if isinstance(answer, Answer)] == [
        b"[%d]" % number for number in range(len(tasks))
    ]


async def test_one_batch_is_tried_before_others_are_sent(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS + 20)
    batcher.state.items = 2
    node.open.set()
    first = asyncio.Event()
    node.open = first  # what is sent from now on waits
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(node.batches) == 1
    assert len(node.singles) == FEWEST_SLOTS + FEWEST_SLOTS - 1
    first.set()
    await asyncio.gather(*tasks)
    assert len(node.batches) > 1


async def test_what_comes_in_one_turn_travels_together_once_the_node_is_asked_busily(
    node: Node, batcher: Batcher
) -> None:
    node.open.set()
    for number in range(200):  # the clock stands still: nothing runs out of the bucket
        await call(batcher, "light", number)
    singles = len(node.singles)
    await asyncio.gather(*await ask(batcher, 3, first=1000))
    assert node.batches == [[b"[1000]", b"[1001]", b"[1002]"]]
    assert len(node.singles) == singles


async def test_who_travels_alone_is_cut_off_when_its_caller_leaves(node: Node, batcher: Batcher) -> None:
    told: list[object] = []
    among = pool(batcher)

    def over(_attempt: Attempt, reply: Answer | Failure, _kind: object) -> None:
        told.append(reply)

    sent, unsent = (
        Attempt(plan("light", number), among, Asked(1, among.nodes[0], 5.0), 0.0, over) for number in (1, 2)
    )
    unsent.cut("cancelled")
    for _ in range(3):
        await asyncio.sleep(0)
    sent.cut("cancelled")
    for _ in range(3):
        await asyncio.sleep(0)
    assert (node.singles, told) == ([b"[1]"], [])
    assert "0 slots taken, 0 waiting" in repr(batcher)


async def test_a_call_of_which_its_node_is_told_the_trace_travels_alone(node: Node, batcher: Batcher) -> None:
    tasks = await ask(batcher, FEWEST_SLOTS + 1)
    tasks += await ask(batcher, 2, first=100, span="00-abc")
    assert node.told == [*[""] * FEWEST_SLOTS, "00-abc", "00-abc"]
    tasks += await ask(batcher, 1, first=200)
    node.open.set()
    await asyncio.gather(*tasks)
    assert node.batches == [[b"[%d]" % FEWEST_SLOTS, b"[200]"]]
    assert node.told[-1] == "", "whoever makes room for others does not lend them its trace"


async def test_a_batch_holds_calls_of_one_pool(node: Node, batcher: Batcher) -> None:
    batcher.state.proved = True
    tasks = await ask(batcher, FEWEST_SLOTS + 2)
    tasks += await ask(batcher, 2, first=100, among=pool_of(batcher, clock=lambda: 0.0))
    node.open.set()
    await asyncio.gather(*tasks)
    assert [sorted(batch) for batch in node.batches] == [
        [b"[%d]" % number for number in (FEWEST_SLOTS, FEWEST_SLOTS + 1)],
        [b"[100]", b"[101]"],
    ]


async def test_a_node_that_is_sent_no_batches_is_asked_for_each_call_at_once(node: Node) -> None:
    batcher = Batcher(node, 512, lambda: 0.0, Gathering(), gathers=False)
    tasks = await ask(batcher, FEWEST_SLOTS + 6)
    assert len(node.singles) == FEWEST_SLOTS + 6
    node.open.set()
    await asyncio.gather(*tasks)
    assert node.batches == []
