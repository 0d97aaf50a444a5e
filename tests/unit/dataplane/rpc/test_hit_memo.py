"""What is learnt of calls that were answered at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
from msgspec.structs import replace

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.eviction import USES_CAP
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.block_range import Range
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.hit_memo import NO_HIT, Known, KnownCalls
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.held_memory import bytes_held
from tests.support.proxy import proxying

TEXT = b'{"jsonrpc":"2.0","id":%d,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
HIT = Outcome(source=AnswerSource.MEMORY, result=b"1")


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        yield proxy.worker.state.networks["harmony-s0"]


def learnt(known: KnownCalls, network: Network, text: bytes, outcome: Outcome = HIT) -> Known | None:
    plan = network.plan("hmyv2_getBlockByNumber", b"[26,{}]")
    network.planner.remember(plan, network.view)
    known.learn(text, plan, replace(outcome, key=plan.key or b""), "all")
    return known.get(jsonrpc.split_template(text)[0])


async def test_a_hit_is_learnt_for_every_id(network: Network) -> None:
    known = KnownCalls(network)
    found = learnt(known, network, TEXT % 1)
    assert found is not None
    assert known.get(jsonrpc.split_template(TEXT % 123456)[0]) is found
    assert found.key == network.plan("hmyv2_getBlockByNumber", b"[26,{}]").key
    assert found.serial == network.view.serial
    assert b"X-Rpcaccel-Cache: memory\r\n" in found.told
    assert "1 known" in repr(known)


async def test_a_hit_is_found_while_the_answer_is_kept_and_the_snapshot_stays_and_counted_when_it_is_given(
    network: Network,
) -> None:
    known, memory = KnownCalls(network), MemoryTier(1 << 20, 1 << 16)
    assert learnt(known, network, TEXT % 1) is not None
    assert known.find(TEXT % 2, memory, 0.0) is NO_HIT
    key = network.plan("hmyv2_getBlockByNumber", b"[26,{}]").key
    assert key is not None
    memory.put(key, Entry(result=b"17", cache=CacheClass.BY_NUMBER, network="n", method="m", stored_at=0.0), 0.0)
    found, call_id, result, slot = known.find(TEXT % 2, memory, 0.0)
    assert (call_id, result) == (b"2", b"17")
    assert found is not None
    before = found.uses.count, found.cell.size, found.cell.latency[AnswerSource.MEMORY].count, memory.stats().hits
    found.count(memory, slot, 2, 0.25)
    after = found.uses.count, found.cell.size, found.cell.latency[AnswerSource.MEMORY].count, memory.stats().hits
    assert [new - old for old, new in zip(before, after, strict=True)] == [1, 2, 1, 1]
    assert found.cell.latency[AnswerSource.MEMORY].seconds == 0.25
    for _ in range(USES_CAP):
        assert slot is not None
        found.count(memory, slot, 2, 0.25)
    assert slot.uses == USES_CAP
    network.see(replace(network.view, serial=network.view.serial + 1))
    assert known.find(TEXT % 2, memory, 0.0) is NO_HIT


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1.5,"method":"hmyv2_getBlockByNumber","params":[26,{}]}',
        b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}],"id":1}',
        TEXT % 1 + b" " * jsonrpc.MAX_TEMPLATE_BYTES,
    ],
)
async def test_what_is_no_plain_text_is_not(network: Network, text: bytes) -> None:
    known = KnownCalls(network)
    assert learnt(known, network, text) is None
    assert learnt(known, network, text) is None


@pytest.mark.parametrize("source", [AnswerSource.REFUSED, AnswerSource.PARTIAL, AnswerSource.NODE])
async def test_nor_what_was_answered_otherwise(network: Network, source: AnswerSource) -> None:
    assert learnt(KnownCalls(network), network, TEXT % 1, Outcome(source=source, result=b"1")) is None


async def test_nor_what_takes_more_than_one_lookup(network: Network) -> None:
    known, plan = KnownCalls(network), network.plan("hmyv2_getBlockByNumber", b"[26,{}]")
    aged = replace(plan, rule=replace(plan.rule, max_age=1.0))
    named = replace(plan, rule=replace(plan.rule, names_transaction=0), key=None, head_key=b"k")
    forgotten = replace(plan, asked=b"[27,{}]")
    network.planner.remember(plan, network.view)
    cut = replace(plan, range=cast(Range, object()))
    for other in (aged, named, forgotten, cut):
        known.learn(TEXT % 1, other, HIT, "all")
        assert known.get(jsonrpc.split_template(TEXT % 1)[0]) is None
    known.learn(TEXT % 1, plan, HIT, "all")
    assert known.get(jsonrpc.split_template(TEXT % 1)[0]) is not None


async def test_it_is_bounded(network: Network) -> None:
    network.memos.resize(0)
    known, other = KnownCalls(network), KnownCalls(network)
    for number in range(1000):
        text = (TEXT % 1)[:-1] + b',"more":"%04d%b"}' % (number, b"x" * 3900)
        for one in (known, other):
            assert learnt(one, network, text) is not None
    held = sum(len(before) + len(behind) for one in (known, other) for before, behind in one._known)
    assert network.memos.limit / 2 < held < network.memos.limit


async def test_a_known_wording_weighs_what_it_is_counted_with(network: Network) -> None:
    network.memos.resize(64 << 20)
    known = KnownCalls(network)
    learnt(known, network, TEXT % 1)
    before = network.memos.size

    def learn() -> None:
        for number in range(2000):
            learnt(known, network, (TEXT % 1)[:-1] + b',"more":"%d%b"}' % (number, b"x" * (number % 500)))

    held, counted = bytes_held(learn), network.memos.size - before
    assert 0.8 < held / counted < 1.2
