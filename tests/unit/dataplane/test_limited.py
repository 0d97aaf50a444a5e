"""A node that limits the rate of one method, or of all: what is asked of it meanwhile, and how it comes back."""

from __future__ import annotations

from functools import partial

from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.nodes.parking import MAX_REST_SECONDS
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock
from tests.support.proxy import Proxy, proxying

ONE = "one1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqquvvxs"
DAY = {"faults": {"too_many": 1.0}, "retry_after": 86_400.0}
METHODS = ("hmyv2_getBalance", "hmyv2_getTransactionsCount", "hmyv2_getStakingTransactionsCount")


def mend(node: SimNode) -> None:
    node.knobs.turn({"faults": {}})


async def balance(proxy: Proxy, method: str = "hmyv2_getBalance") -> int:
    """The status of a call that is nowhere kept, since each comes at another head."""
    proxy.nodes[0].chain.advance()
    proxy.see()
    more = ["ALL"] if "Count" in method else []
    return (await proxy.call(method, ONE, *more)).status


async def test_a_day_named_for_one_method_takes_neither_the_node_nor_the_day() -> None:
    clock = ManualClock()
    async with harmony_nodes(1) as nodes, proxying(nodes, clock=clock.now) as proxy:
        nodes[0].knobs.turn(DAY | {"fault_methods": {"hmyv2_getBalance"}})
        limited = [await proxy.call("hmyv2_getBalance", ONE) for _ in range(3)]
        assert [(reply.status, reply.headers["Retry-After"]) for reply in limited] == [
            (429, f"{MAX_REST_SECONDS:.0f}")
        ] * 3
        assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).result["number"] == 1
        (report,) = proxy.worker.report().nodes
        assert (report.parked, report.refusal) == (0.0, "")
        assert report.rests == "it limits the rate of hmyv2_getBalance: it gets none of them for 300.0 s at the most"
        explained = await proxy.worker.explain("", "hmyv2_getBalance", b'["one1"]')
        assert explained is not None
        assert [refused.why for refused in explained.refused] == [
            "node node-0 limits the rate of hmyv2_getBalance: it gets none for 300.0 s"
        ]
        mend(nodes[0])
        clock.advance(MAX_REST_SECONDS)
        assert await balance(proxy) == 200
        assert proxy.worker.report().nodes[0].rests == ""


async def test_a_node_that_refuses_everything_is_left_alone_until_a_probe_is_answered() -> None:
    clock = ManualClock()
    async with harmony_nodes(1) as nodes, proxying(nodes, clock=clock.now) as proxy:
        head = nodes[0].head

        def probed(seen_at: float) -> None:
            told = NodeHead(id=nodes[0].name, head=head, chain_ok=True, answering=True, seen_at=seen_at)
            proxy.worker.see(NetworkHeads(network="harmony-s0", served=Served(head, head), nodes=(told,)))

        probed(1.0)
        nodes[0].knobs.turn(DAY)
        for method in METHODS:
            assert (await proxy.call(method, ONE, "ALL")).status == 429
        assert proxy.worker.report().nodes[0].parked == MAX_REST_SECONDS
        mend(nodes[0])
        assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).status == 429
        probed(1.0)
        assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).status == 429, "nothing was learnt since"
        probed(2.0)
        assert proxy.worker.report().nodes[0].parked == MAX_REST_SECONDS, "this look may be older than the refusals"
        probed(3.0)
        assert proxy.worker.report().nodes[0].parked == 0.0
        assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).result["number"] == 1
        assert (await proxy.call("hmyv2_getBalance", ONE)).status == 429, "what it refused, it is not asked yet"


async def test_a_node_that_limits_us_without_naming_a_time_is_asked_once_for_a_call() -> None:
    """The retry after a rate limit is free, so nothing else bounds how often such a node is asked."""
    clock = ManualClock()
    async with harmony_nodes(1) as nodes, proxying(nodes, clock=clock.now) as proxy:
        nodes[0].knobs.turn({"faults": {"too_many": 1.0}, "retry_after": 0.0})
        asked = partial(nodes[0].counts.asked, "hmyv2_getBalance")
        before = asked()
        assert (await proxy.call("hmyv2_getBalance", ONE)).status == 429
        assert asked() - before == 1
