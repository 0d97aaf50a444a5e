"""A caller that provokes errors by what its calls hold, whatever a node says of them: others' calls go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel import balancers, chains
from rpcaccel.core.nodes.eligibility import Ineligibility, judge
from rpcaccel.core.nodes.node import MANY_CALLS, Node
from rpcaccel.core.nodes.parking import DIFFERENT_CALLS, MAX_UNSURE_REST_SECONDS
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.pool import NodePool
from tests.support.dataplane.fake_client import FakeClient
from tests.support.dataplane.scripted_nodes import forward
from tests.support.instant_time import instantly
from tests.support.properties import examples
from tests.support.provider_errors import PROVIDER_ERRORS

CHAINS = [chains.load("harmony"), chains.load("ethereum")]
HEAD = 1000
METHODS = ["eth_call", "eth_getBalance", "eth_getTransactionCount", "debug_traceTransaction", "foo_bar"]


def texts_of(chain: chains.Chain) -> list[str]:
    """A text for every row of a chain's table, as far as texts decide."""
    groups = (text for row in chain.errors.rows for text in (*row.equals, *row.starts, *map(" ".join, row.contains)))
    return sorted({*groups, *(error.text for error in PROVIDER_ERRORS)})


TEXTS = sorted({text for chain in CHAINS for text in texts_of(chain)})
CODES = sorted({code for chain in CHAINS for row in chain.errors.rows for code in row.codes} | {35, -32000})
STATUSES = [200, 400, 401, 402, 403, 404, 413, 429, 500, 503]
SHAPES = ["{}", 'invalid argument 0: "{}"', "invalid address: {}", "the method {} does not exist", "{}: {}", "err: {}"]


class Refusing(FakeClient):
    """A node that refuses calls whose params begin with a number, in the words of the test, and answers the others."""

    def __init__(self, refusal: Answer | Failure) -> None:
        self.refusal, self.asked = refusal, 0

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        self.asked += 1
        if params[1:2].isdigit():
            return self.refusal
        return Answer(result=b'{"gas":1}' if method.startswith("debug") else b'"0x1"')


class Crowd:
    """Nodes of one chain, a caller that provokes an error, and others."""

    def __init__(self, chain: chains.Chain, refusal: Answer | Failure, nodes: int = 1) -> None:
        self.chain = chain
        self.upstreams = [Refusing(refusal) for _ in range(nodes)]
        self.nodes = [Node(f"n{number}") for number in range(nodes)]
        for node in self.nodes:
            node.told_head(HEAD, 0.0)
            node.chain_ok = True
        balancer = balancers.load("smooth_weighted")
        balancer.adopt(self.nodes)
        table = chain.errors
        self.pool = NodePool(
            nodes=self.nodes,
            balancer=balancer,
            upstreams={node.id: client for node, client in zip(self.nodes, self.upstreams, strict=True)},
            classify=lambda code, message, status: classify(table, code, message, status).kind,
            clock=asyncio.get_running_loop().time,
            rng=Random(1),
        )

    def plan(self, method: str, params: bytes) -> Plan:
        rule = self.chain.rules.get(method)
        return Plan(network="n", method=method, rule=rule, params=params, asked=params, cache=CacheClass.NEVER,
                    block=HEAD, head=HEAD, first_block=HEAD - 1)  # fmt: skip

    async def provoke(self, method: str, number: int) -> FailureKind | None:
        """The caller's call, which the nodes refuse."""
        said = await forward(self.plan(method, b"[%d]" % number), self.pool, deadline=self.pool.clock() + 5.0)
        return None if said.failure is None else said.failure.kind

    async def ask(self, method: str) -> bool:
        """Another caller's call, which the nodes answer: was it?"""
        said = await forward(self.plan(method, b'["good"]'), self.pool, deadline=self.pool.clock() + 5.0)
        return said.failure is None

    def against(self, method: str) -> set[Ineligibility]:
        """What keeps the nodes from others' calls of a method."""
        plan = self.plan(method, b'["good"]')
        return {judge(node, plan, self.pool.clock()) for node in self.nodes} - {Ineligibility.NONE}


def refusal(code: int, text: str, status: int, retry_after: float | None = None) -> Answer:
    error = msgspec.json.encode({"code": code, "message": text})
    return Answer(error=error, http_status=status, retry_after=retry_after)


async def others_go_on(chain: chains.Chain, error: Answer, runs: Sequence[tuple[str, int]], *, varied: bool) -> None:
    """Others are answered between the calls of a caller that provokes errors, and every node stays theirs."""
    crowd, number = Crowd(chain, error, nodes=2), 0
    for method in {method for method, _ in runs}:
        for _ in crowd.nodes:
            assert await crowd.ask(method)
    for method, provoked in runs:
        for _ in range(provoked):
            number += varied
            await crowd.provoke(method, number)
            assert crowd.against(method) == set()
        for _ in crowd.nodes:
            assert await crowd.ask(method)
        assert [node.breaker.in_row for node in crowd.nodes] == [0, 0]


@given(
    st.sampled_from(CHAINS),
    st.sampled_from(CODES),
    st.sampled_from(TEXTS),
    st.sampled_from(SHAPES),
    st.sampled_from(STATUSES),
    st.none() | st.floats(0.0, 4000.0),
    st.lists(st.tuples(st.sampled_from(METHODS), st.integers(1, DIFFERENT_CALLS // 2)), min_size=1, max_size=8),
    st.booleans(),
)
@settings(max_examples=examples(300), deadline=None)
def test_whatever_a_caller_provokes_the_calls_of_others_go_on(
    chain: chains.Chain,
    code: int,
    text: str,
    shape: str,
    status: int,
    retry_after: float | None,
    runs: list[tuple[str, int]],
    varied: bool,
) -> None:
    error = refusal(code, shape.replace("{}", text), status, retry_after)
    instantly(lambda: others_go_on(chain, error, runs, varied=varied))()


@pytest.mark.parametrize("method", METHODS)
@instantly
async def test_one_call_that_is_refused_again_and_again_is_told_so_and_keeps_no_other_out(method: str) -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 429))
    for _ in range(40):
        assert await crowd.provoke(method, 1) is FailureKind.RATE_LIMITED
    assert crowd.upstreams[0].asked == 1, "what was refused is not asked again at once"
    assert await crowd.ask(method)


@instantly
async def test_a_node_that_limits_the_rate_of_a_method_is_left_alone_after_a_few_calls() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 200))
    for number in range(100):
        assert await crowd.provoke("eth_call", number) is FailureKind.RATE_LIMITED
    assert crowd.upstreams[0].asked == DIFFERENT_CALLS
    assert crowd.against("eth_call") == {Ineligibility.METHOD_PARKED}
    assert crowd.against("eth_getBalance") == set()
    await asyncio.sleep(MAX_UNSURE_REST_SECONDS)
    assert await crowd.ask("eth_call")
    assert crowd.against("eth_call") == set()


@instantly
async def test_a_node_that_limits_the_rate_of_all_is_left_alone_after_a_few_calls() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 200))
    for number in range(30):
        await crowd.provoke(METHODS[number % 4], number)
    assert crowd.upstreams[0].asked == DIFFERENT_CALLS
    assert crowd.against("eth_call") == {Ineligibility.PARKED}


@instantly
async def test_a_time_that_the_node_names_parks_the_method_at_once_where_nobody_is_answered() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 429, retry_after=7.0))
    await crowd.provoke("eth_call", 1)
    assert crowd.against("eth_call") == {Ineligibility.METHOD_PARKED}


@instantly
async def test_a_time_that_the_node_names_rests_the_call_alone_while_others_are_answered() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 429, retry_after=7.0))
    assert await crowd.ask("eth_call")
    for _ in range(9):
        await crowd.provoke("eth_call", 1)
        assert await crowd.ask("eth_call")
    assert crowd.upstreams[0].asked == 1 + 1 + 9
    for number in range(2, 2 + 2 * DIFFERENT_CALLS):
        await crowd.provoke("eth_call", number)
    assert crowd.against("eth_call") == {Ineligibility.METHOD_PARKED}


@instantly
async def test_the_more_often_refusals_prove_to_be_about_single_calls_the_more_are_needed() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32005, "too many requests", 429))
    number = 0
    for run in (DIFFERENT_CALLS - 1, 2 * DIFFERENT_CALLS - 1, 4 * DIFFERENT_CALLS - 1):
        for _ in range(run):
            number += 1
            await crowd.provoke("eth_call", number)
        assert await crowd.ask("eth_call")


@pytest.mark.parametrize(("code", "text", "status"), [(-32601, "no such method", 200), (-32000, "forbidden", 403)])
@instantly
async def test_a_method_that_a_node_answered_is_lost_after_many_refusals_and_one_that_it_never_did_at_once(
    code: int, text: str, status: int
) -> None:
    crowd = Crowd(CHAINS[1], refusal(code, text, status))
    await crowd.provoke("eth_call", 1)
    assert crowd.against("eth_call") == {Ineligibility.LACKS}
    assert await crowd.ask("eth_getBalance")
    for number in range(MANY_CALLS):
        assert crowd.against("eth_getBalance") == set()
        await crowd.provoke("eth_getBalance", number)
    assert crowd.against("eth_getBalance") == {Ineligibility.LACKS}


@instantly
async def test_an_archive_refusal_by_status_teaches_the_bound_and_takes_no_new_block() -> None:
    crowd = Crowd(CHAINS[1], refusal(-32602, "Archive requests require a personal token. Get one at x.test", 403))
    old = crowd.plan("eth_getBalance", b"[1]")
    node = crowd.nodes[0]
    said = await forward(msgspec.structs.replace(old, block=7, first_block=None), crowd.pool, deadline=1e9)
    assert said.failure is not None
    assert (said.failure.kind, said.failure.error) == (FailureKind.PRUNED, crowd.upstreams[0].refusal.error)
    assert said.answer is not None, "the client gets the node's own words"
    assert node.pruned_below == 8
    assert crowd.against("eth_getBalance") == set()


@instantly
async def test_the_words_of_a_gateway_come_before_its_status() -> None:
    words = "Block is not available on the free plan, upgrade at x.test"
    crowd = Crowd(CHAINS[1], Failure(FailureKind.RATE_LIMITED, f"HTTP 402, {words}", said=words))
    old = msgspec.structs.replace(crowd.plan("eth_getBalance", b"[1]"), block=7, first_block=None)
    said = await forward(old, crowd.pool, deadline=1e9)
    assert said.failure is not None
    assert (said.failure.kind, crowd.nodes[0].pruned_below) == (FailureKind.PRUNED, 8)
    assert words in said.failure.text
    assert crowd.against("eth_getBalance") == set()
