"""What becomes of a node's answer, over simulated nodes."""

from __future__ import annotations

import asyncio

from rpcaccel.core.cache.retention import lifetime
from rpcaccel.core.dispatch.outcome import Forwarded, Leg
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Hint
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.answer import Answer
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying


async def test_a_block_that_an_answer_names_is_told_to_the_control_plane_which_believes_it_or_not() -> None:
    told: list[Hint | Sent] = []
    async with harmony_nodes(1) as nodes, proxying(nodes, on_hint=told.append) as proxy:
        engine = proxy.worker.engine
        network = proxy.worker.state.networks["harmony-s0"]
        nodes[0].chain.advance()
        plan = network.plan("hmyv2_getNodeMetadata", b"[]")
        for rule_plan in (plan, network.plan("hmyv2_latestHeader", b"[]")):
            await engine.outcome(network, rule_plan)
        async with asyncio.timeout(20):
            while not told:
                await asyncio.sleep(0.01)
        assert told[0] == Hint("harmony-s0", nodes[0].name, nodes[0].head)


async def test_attempts_are_told_where_there_were_several() -> None:
    legs = (Leg("a", 0.0, 0.1, "timeout"), Leg("b", 0.1, 0.1, "answered"))
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        context, network = proxy.worker.engine, proxy.worker.state.networks["harmony-s0"]
        plan = network.plan("eth_gasPrice", b"[]")
        for answer in (Answer(result=b"1"), Answer(error=b'{"code":-32000,"message":"no"}'), None):
            forwarded = Forwarded(answer=answer, failure=None, legs=legs)
            assert context.conclude(network, plan, forwarded, []).legs == legs


async def test_what_a_node_without_the_index_says_is_passed_on_when_nobody_has_it_and_never_kept() -> None:
    asked = {"address": "0x" + "11" * 20}
    async with harmony_nodes(2, explorer=False) as nodes, proxying(nodes) as proxy:
        for _ in range(2):
            reply = await proxy.call("hmyv2_getStakingTransactionsHistory", asked)
            assert (reply.result, reply.cache) == (None, "miss")
        nodes[0].knobs.explorer = True
        async with asyncio.timeout(20):
            while (await proxy.call("hmyv2_getStakingTransactionsHistory", asked)).result is None:
                for node in proxy.worker.state.networks["harmony-s0"].pool.nodes:
                    node.lacks.clear()


async def test_answers_that_were_kept_together_do_not_expire_together() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, clock=lambda: 1000.0) as proxy:
        context, network = proxy.worker.engine, proxy.worker.state.networks["harmony-s0"]
        whole = lifetime(CacheClass.HEAD, network.chain.block_time).memory
        plan, left = network.plan("eth_gasPrice", b"[]"), set()
        for _ in range(10):
            context.keep(network, plan, b'"0x1"', node_head=nodes[0].head)
            entry = context.memory.peek(plan.head_key or b"", 1000.0)
            assert entry is not None
            left.add(entry.expires - 1000.0)
    assert len(left) == 10
    assert 0.9 * whole <= min(left) <= max(left) <= whole
