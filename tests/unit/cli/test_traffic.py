"""The demo's traffic."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.cli.traffic import METHODS, DemoCall, DemoWorld, draw, run, stopped
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind

WORLD = DemoWorld(["one1a", "one1b"], "0x" + "00" * 20)
SEED_METHODS = {
    "hmyv2_blockNumber",
    "hmyv2_getBlockSigners",
    "hmyv2_getBlocks",
    "hmyv2_getBalanceByBlockNumber",
    "hmyv2_getValidatorInformation",
    "hmyv2_call",
    "net_peerCount",
    "hmyv2_getNodeMetadata",
    "hmyv2_getCurrentTransactionErrorSink",
    "hmyv2_getCurrentUtilityMetrics",
}


class Proxy:
    """Answers everything with one reply, and says when it was asked often enough."""

    def __init__(self, reply: Answer | Failure, enough: int) -> None:
        self.reply = reply
        self.enough = enough
        self.calls: list[DemoCall] = []
        self.stop = asyncio.Event()

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        assert timeout > 0
        self.calls.append(DemoCall(method, [params]))
        if len(self.calls) >= self.enough:
            self.stop.set()
        return self.reply

    async def close(self) -> None:
        pass


def test_the_ten_methods_of_the_seed_and_some_of_ethereum_are_drawn() -> None:
    rng = Random(1)
    drawn = Counter(draw(rng, WORLD, 100).method for _ in range(2000))
    assert set(drawn) == set(METHODS) > SEED_METHODS
    assert sum(method.startswith("eth_") for method in METHODS) >= 3


@given(st.integers(), st.integers(0, 1 << 40), st.lists(st.text(), max_size=3))
def test_calls_never_ask_above_the_head_for_what_the_next_block_settles(
    seed: int, head: int, validators: list[str]
) -> None:
    call = draw(Random(seed), DemoWorld(validators, "0x"), head)
    numbers = [part for part in call.params if isinstance(part, int)]
    assert all(0 <= number <= max(1, head - 2) for number in numbers)


async def test_it_calls_at_a_rate_until_it_is_stopped() -> None:
    proxy = Proxy(Answer(result=b"7"), enough=50)
    answered = await run(proxy, WORLD, rng=Random(1), stop=proxy.stop, rate=5000)
    assert answered >= 49
    assert proxy.calls[0].method == "hmyv2_blockNumber"


async def test_failures_are_not_counted_as_answers_and_do_not_end_it() -> None:
    proxy = Proxy(Failure(FailureKind.TIMEOUT, "late"), enough=20)
    assert await run(proxy, WORLD, rng=Random(1), stop=proxy.stop, rate=5000) == 0


async def test_calls_that_hang_are_few_and_are_given_up_at_the_end() -> None:
    class Hanging(Proxy):
        async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
            await super().send(method, params, timeout=timeout)
            if len(self.calls) > 1:
                await asyncio.Event().wait()
            return self.reply

    proxy = Hanging(Answer(result=b"7"), enough=33)
    assert await run(proxy, WORLD, rng=Random(1), stop=proxy.stop, rate=5000) == 1
    assert len(proxy.calls) == 33


async def test_waiting_says_whether_it_was_stopped() -> None:
    stop = asyncio.Event()
    assert not await stopped(stop, 0.001)
    stop.set()
    assert await stopped(stop, 10)
