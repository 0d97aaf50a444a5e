"""The bodies that every call runs through: run once as tests, measured by `make bench-hot`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from rpcaccel import balancers, chains
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.nodes import eligibility
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import json_params, jsonrpc

pytestmark = pytest.mark.bench
T = TypeVar("T")

BODY = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x10",false]}'
RESULT = b'{"number":"0x10","extraData":"0x' + b"0" * 1660 + b'"}'
VIEW = ChainSnapshot(serial=1, head=100, best=100, final=100, eth_chain_id=1666600000, network_id=1)


def each(benchmark: BenchmarkFixture, body: Callable[[bytes], T], values: Iterator[bytes]) -> T:
    """Measure `body` with another value each time."""
    result: T = benchmark(lambda: body(next(values)))
    return result


@pytest.fixture
def planner() -> Planner:
    chain = chains.load("harmony")
    return Planner("harmony-s0", chain.rules, chain.tags, final_at_once=True)


def test_decode(benchmark: BenchmarkFixture) -> None:
    call = benchmark(jsonrpc.decode, BODY)
    assert isinstance(call, jsonrpc.Call)


def test_decode_a_batch_of_20(benchmark: BenchmarkFixture) -> None:
    body = b"[" + b",".join([BODY] * 20) + b"]"

    def decode() -> int:
        members = jsonrpc.decode(body)
        assert isinstance(members, list)
        return len([jsonrpc.decode_member(member) for member in members])

    assert benchmark(decode) == 20


def test_plan_of_a_call_that_came_before(benchmark: BenchmarkFixture, planner: Planner) -> None:
    plan = benchmark(planner.plan, "eth_getBlockByNumber", b'["0x10",false]', VIEW)
    assert plan.block == 16


def test_plan_of_a_new_call(benchmark: BenchmarkFixture, planner: Planner) -> None:
    params = (b'["0x%040x","0x10"]' % number for number in iter(range(1 << 60)))
    plan = each(benchmark, lambda text: planner.plan("eth_getTransactionCount", text, VIEW), params)
    assert plan.key is not None


def test_key_of_params(benchmark: BenchmarkFixture) -> None:
    text = b'[{"to":"0x5F3CDBCB3339FFF3FC4095665531066A200BE45F","data":"0x4936cd36"}, "0x10"]'
    assert benchmark(lambda: json_params.write(json_params.read(text)))


def test_memory_get(benchmark: BenchmarkFixture) -> None:
    tier = MemoryTier(1 << 26, 1 << 20)
    keys = [b"harmony-s0@1:eth_getBlockByNumber:n:[%d,false]" % number for number in range(10_000)]
    for key in keys:
        entry = Entry(result=RESULT, cache=CacheClass.BY_NUMBER, network="n", method="m", stored_at=0.0)
        tier.put(key, entry, 0.0)
    assert each(benchmark, lambda key: tier.get(key, 1.0), cycle(keys)) is not None


def test_memory_put_where_room_must_be_made(benchmark: BenchmarkFixture) -> None:
    tier = MemoryTier(1 << 22, 1 << 20)
    entry = Entry(result=RESULT, cache=CacheClass.BY_NUMBER, network="n", method="m", stored_at=0.0)
    keys = (b"key %d" % number for number in iter(range(1 << 60)))
    assert each(benchmark, lambda key: tier.put(key, entry, 1.0), keys)


def test_encode(benchmark: BenchmarkFixture) -> None:
    reply = benchmark(jsonrpc.result_reply, b"1", RESULT)
    assert reply[1] is RESULT


@pytest.mark.parametrize("name", balancers.names())
@pytest.mark.parametrize("count", [3, 50])
def test_balancer_choice(benchmark: BenchmarkFixture, name: str, count: int) -> None:
    nodes = [Node(f"node-{number}", weight=1 + number % 5) for number in range(count)]
    balancer, rng = balancers.load(name), Random(1)
    balancer.adopt(nodes)
    keys = cycle([b"key %d" % number for number in range(1000)])
    assert each(benchmark, lambda key: balancer.pick(nodes, route_key=key, now=1.0, rng=rng), keys) in nodes


def test_eligible_nodes_of_50(benchmark: BenchmarkFixture, planner: Planner) -> None:
    nodes = [Node(f"node-{number}") for number in range(50)]
    for node in nodes:
        node.head, node.chain_ok = 100, True
    plan = planner.plan("eth_getBlockByNumber", b'["0x10",false]', VIEW)
    assert benchmark(eligibility.eligible, nodes, plan, 1.0)


def test_tally_of_a_call(benchmark: BenchmarkFixture) -> None:
    cell = Tally(["m"]).cell("n", "m", CacheClass.HEAD)
    benchmark(cell.done, AnswerSource.MEMORY, 35e-6, 1700)
    assert cell.calls > 0
