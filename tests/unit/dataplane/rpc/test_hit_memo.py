"""What is learnt of calls that were answered at once."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import cast

import pytest
from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.block_range import Range
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire import call_template
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.hit_memo import Known, KnownCalls
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying

TEXT = b'{"jsonrpc":"2.0","id":%d,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
HIT = Outcome(source=AnswerSource.MEMORY, result=b"1")


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        yield proxy.worker.state.networks["harmony-s0"]


def learnt(known: KnownCalls, network: Network, text: bytes, outcome: Outcome = HIT) -> Known | None:
    plan = network.plan("hmyv2_getBlockByNumber", b"[26,{}]")
    known.learn(text, network, plan, replace(outcome, key=plan.key or b""), "all")
    return known.get(call_template.split(text)[0])


async def test_a_hit_is_learnt_for_every_id(network: Network) -> None:
    known = KnownCalls(network.memos)
    found = learnt(known, network, TEXT % 1)
    assert found is not None
    assert known.get(call_template.split(TEXT % 123456)[0]) is found
    assert found.key == network.plan("hmyv2_getBlockByNumber", b"[26,{}]").key
    assert found.serial == network.view.serial
    assert b"X-Rpcaccel-Cache: memory\r\n" in found.told
    assert "1 known" in repr(known)


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1.5,"method":"hmyv2_getBlockByNumber","params":[26,{}]}',
        b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}],"id":1}',
        TEXT % 1 + b" " * call_template.LONGEST,
    ],
)
async def test_what_is_no_plain_text_is_not(network: Network, text: bytes) -> None:
    known = KnownCalls(network.memos)
    assert learnt(known, network, text) is None
    assert learnt(known, network, text) is None


@pytest.mark.parametrize("source", [AnswerSource.REFUSED, AnswerSource.PARTIAL, AnswerSource.NODE])
async def test_nor_what_was_answered_otherwise(network: Network, source: AnswerSource) -> None:
    assert learnt(KnownCalls(network.memos), network, TEXT % 1, Outcome(source=source, result=b"1")) is None


async def test_nor_what_takes_more_than_one_lookup(network: Network) -> None:
    known, plan = KnownCalls(network.memos), network.plan("hmyv2_getBlockByNumber", b"[26,{}]")
    aged = replace(plan, rule=replace(plan.rule, max_age=1.0))
    named = replace(plan, rule=replace(plan.rule, names_transaction=0), key=None, head_key=b"k")
    forgotten = replace(plan, asked=b"[27,{}]")
    cut = replace(plan, range=cast(Range, object()))
    for other in (aged, named, forgotten, cut):
        known.learn(TEXT % 1, network, other, HIT, "all")
        assert known.get(call_template.split(TEXT % 1)[0]) is None
    known.learn(TEXT % 1, network, plan, HIT, "all")
    assert known.get(call_template.split(TEXT % 1)[0]) is not None


async def test_it_is_bounded(network: Network) -> None:
    network.memos.resize(0)
    known, other = KnownCalls(network.memos), KnownCalls(network.memos)
    for number in range(1000):
        text = (TEXT % 1)[:-1] + b',"more":"%04d%b"}' % (number, b"x" * 3900)
        for one in (known, other):
            assert learnt(one, network, text) is not None
    held = sum(len(before) + len(behind) for one in (known, other) for before, behind in one._known)
    assert network.memos.limit / 2 < held < network.memos.limit


async def test_a_known_wording_weighs_what_it_is_counted_with(network: Network) -> None:
    network.memos.resize(64 << 20)
    known = KnownCalls(network.memos)
    learnt(known, network, TEXT % 1)
    gc.collect()
    tracemalloc.start()
    before, counted = tracemalloc.get_traced_memory()[0], network.memos.size
    for number in range(2000):
        learnt(known, network, (TEXT % 1)[:-1] + b',"more":"%d%b"}' % (number, b"x" * (number % 500)))
    gc.collect()
    held, counted = tracemalloc.get_traced_memory()[0] - before, network.memos.size - counted
    tracemalloc.stop()
    assert 0.8 < held / counted < 1.2
