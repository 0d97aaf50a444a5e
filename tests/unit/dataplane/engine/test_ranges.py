"""Ranges put together from what is known and from what nodes say, over simulated nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.plan.block_range import MOST_TRACES
from rpcaccel.simnode.methods.log_methods import TRACES_UNASKED
from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_chain, harmony_nodes, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.gate import Gate
from tests.support.dataplane.saying import saying
from tests.support.proxy import Proxy, Reply, proxying

BLOCKS = "hmyv2_getBlocks"
LOGS = "eth_getLogs"


def window(first: int, last: int | str, **more: Any) -> dict[str, Any]:
    return {"fromBlock": hex(first), "toBlock": last if isinstance(last, str) else hex(last), **more}


def asked(nodes: Sequence[SimNode]) -> list[tuple[int, int]]:
    """The ranges that nodes were asked for since the last look, in order of their first block."""
    calls = [orjson.loads(params) for node in nodes for _, params in node.counts.log]
    for node in nodes:
        node.counts.reset()
    ends = [(call[0], call[1]) if len(call) == 3 else (call[0]["fromBlock"], call[0]["toBlock"]) for call in calls]
    return sorted((int(str(first), 0), int(str(last), 0)) for first, last in ends)


async def same(proxy: Proxy, method: str, *params: Any) -> Reply:
    """Ask the proxy, and a node that nobody counts: the answers are the same to the byte."""
    reply = await proxy.call(method, *params)
    witness = SimNode(proxy.nodes[0].chain, name="witness")
    assert reply.body == await witness.brain.reply(RequestItem(method, orjson.dumps(params), b"1"))
    return reply


async def test_an_overlapping_range_asks_only_for_the_missing_blocks() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await same(proxy, BLOCKS, 10, 49, {})).cache == "miss"
        partial = await same(proxy, BLOCKS, 30, 69, {})
        assert partial.cache == "partial; cached=20; of=40"
        assert (await same(proxy, BLOCKS, "0xf", "65", {})).cache == "memory"
        assert asked(nodes) == [(10, 49), (50, 69)]


async def test_a_block_of_a_range_and_a_range_of_one_block_are_one_entry() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await same(proxy, BLOCKS, 10, 20, {})
        assert (await same(proxy, BLOCKS, 15, 15, {})).cache == "memory"
        await same(proxy, BLOCKS, 40, 40, {})
        assert (await same(proxy, BLOCKS, 39, 41, {})).cache == "miss"  # a gap so short is fetched again
        assert (await proxy.call(BLOCKS, 15, 15, {"fullTx": True})).cache == "miss"


async def test_two_holes_far_apart_are_two_calls() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await same(proxy, BLOCKS, 50, 99, {})
        assert (await same(proxy, BLOCKS, 40, 109, {})).cache == "partial; cached=50; of=70"
        assert asked(nodes) == [(40, 49), (50, 99), (100, 109)]


async def test_the_pieces_of_a_range_have_one_deadline_together() -> None:
    def ahead() -> float:
        """A clock on which a tenth more time passes: a timer counts whole milliseconds and may end a little early."""
        return time.monotonic() * 1.1

    net = {"deadline": "200ms", "ranges": {"at_once": 1}}
    async with harmony_nodes(1) as nodes, proxying(nodes, net=net, clock=ahead) as proxy:
        await same(proxy, BLOCKS, 50, 99, {})
        nodes[0].knobs.turn({"faults": {"hang": 1.0}})
        assert (await proxy.call(BLOCKS, 40, 109, {})).status == 504
        assert asked(nodes) == [(40, 49), (50, 99)], "nobody is asked for the other hole when the time is over"


async def test_a_long_range_is_shared_out_to_the_nodes() -> None:
    ranges = {"divide_from": 50}
    async with harmony_nodes(3) as nodes, proxying(nodes, net={"ranges": ranges}) as proxy:
        reply = await same(proxy, BLOCKS, 0, 149, {"fullTx": True})
        assert [node.counts.asked(BLOCKS) for node in nodes] == [1, 1, 1]
        assert reply.node == ", ".join(sorted(node.name for node in nodes))
        assert reply.headers["X-Rpcaccel-Attempts"] == "3"
        assert [last - first + 1 for first, last in asked(nodes)] == [50, 50, 50]


async def test_reversed_and_too_long_ranges_are_answered_as_a_node_does_without_asking_one() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        assert (await same(proxy, BLOCKS, 5, 3, {})).cache == "local"
        for _ in range(2):
            reply = await same(proxy, BLOCKS, 0, 1025, {})
            assert reply.error["message"] == "GetBlocks query must be smaller than size 1024"
            assert (await same(proxy, LOGS, window(0, 1025))).cache == "refused"
        assert asked(nodes) == []
        await same(proxy, BLOCKS, 0, 1024, {})


async def test_a_range_that_ends_above_the_head_stops_there_and_its_end_is_asked_for_again() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        assert len((await same(proxy, BLOCKS, head - 4, head + 5, {})).result) == 5
        assert (await same(proxy, BLOCKS, head - 4, head + 5, {})).cache == "partial; cached=5; of=10"
        nodes[0].chain.advance(2)
        proxy.see()
        assert len((await same(proxy, BLOCKS, head - 4, head + 5, {})).result) == 7
        assert asked(nodes) == [(head - 4, head + 5), (head + 1, head + 5), (head + 1, head + 5)]


async def test_a_range_wholly_above_the_head_is_asked_every_time() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        for _ in range(2):
            assert (await same(proxy, BLOCKS, head + 1, head + 9, {})).cache == "miss"
            assert (await same(proxy, LOGS, window(head + 1, head + 9))).cache == "miss"


async def test_signers_need_the_block_after_and_fail_at_the_head_as_at_a_node() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        signers = {"withSigners": True}
        assert "result" in (await same(proxy, BLOCKS, head - 5, head - 1, signers)).json
        assert "getSignerData" in (await same(proxy, BLOCKS, head - 5, head, signers)).error["message"]
        assert "mismatching bitmap" in (await same(proxy, BLOCKS, 0, 5, signers)).error["message"]
        nodes[0].chain.advance()
        proxy.see()
        assert (await same(proxy, BLOCKS, head - 5, head, signers)).cache == "partial; cached=5; of=6"


async def test_a_lagging_node_is_asked_for_no_piece_it_lacks() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net={"ranges": {"divide_from": 10}}) as proxy:
        head = nodes[0].head
        nodes[1].knobs.lag = 30
        proxy.see(nodes=[head, head - 30, head])
        reply = await same(proxy, BLOCKS, head - 59, head, {})
        assert len(reply.result) == 60
        assert all(last <= head - 30 for _, last in asked([nodes[1]]))


async def test_a_node_that_leaves_blocks_out_is_passed_over_and_nothing_short_is_kept() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        nodes[1].knobs.lag = 10  # and the proxy has not heard of it
        for first in range(head - 30, head - 20):
            await same(proxy, BLOCKS, first, head, {})
            proxy.worker.engine.memory.purge(Selection())


async def test_when_every_node_leaves_blocks_out_the_answer_is_what_a_node_says_and_is_not_kept() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        head = nodes[0].head
        nodes[0].knobs.lag = 10
        for _ in range(2):
            reply = await proxy.call(BLOCKS, head - 19, head, {})
            assert (len(reply.result), reply.cache) == (10, "miss")
        nodes[0].knobs.lag = 0
        await same(proxy, BLOCKS, head - 19, head, {})


async def test_a_failing_piece_is_tried_again_alone() -> None:
    async with harmony_nodes(3) as nodes, proxying(nodes, net={"ranges": {"divide_from": 50}}) as proxy:
        nodes[0].knobs.next_faults = ["unavailable"]
        await same(proxy, BLOCKS, 0, 149, {})
        assert len(asked(nodes)) == 4


async def test_the_error_of_a_piece_is_the_calls_and_the_others_stay_kept() -> None:
    net = {"ranges": {"divide_from": 50}, "attempts": 1}
    async with harmony_nodes(2) as nodes, proxying(nodes, net=net) as proxy:
        nodes[0].knobs.next_faults = ["html"]
        reply = await proxy.call(BLOCKS, 0, 99, {})
        assert (reply.status, reply.error["code"]) == (502, -32603)
        asked(nodes)
        assert (await same(proxy, BLOCKS, 0, 99, {})).cache == "partial; cached=50; of=100"
        assert [last - first + 1 for first, last in asked(nodes)] == [50]


async def test_a_run_under_way_is_detached_with_the_other_flights_of_its_network() -> None:
    gate = Gate()
    async with running(harmony_chain(200), 1, clock=gate, latency="1ms") as nodes, proxying(nodes) as proxy:
        asked = asyncio.ensure_future(proxy.call(BLOCKS, 10, 49, {}))
        await gate.reached.wait()
        flights = proxy.worker.engine.flights
        assert len(flights) == 2, "of the range, and of its run"
        flights.detach(Selection(network="harmony-s0").matches)
        assert len(flights) == 0
        gate.open.set()
        assert len((await asked).result) == 40


async def test_identical_and_overlapping_ranges_under_way_share_their_calls() -> None:
    async with harmony_nodes(1, latency="30ms") as nodes, proxying(nodes) as proxy:
        replies = await asyncio.gather(*(same(proxy, BLOCKS, 10, 40, {}) for _ in range(8)))
        assert sorted(reply.cache for reply in replies) == ["flight"] * 7 + ["miss"]
        assert asked(nodes) == [(10, 40)]


async def test_other_ranges_that_lack_the_same_blocks_wait_for_one_call() -> None:
    async with harmony_nodes(1, latency="30ms") as nodes, proxying(nodes) as proxy:
        await same(proxy, BLOCKS, 0, 9, {})
        await asyncio.gather(*(same(proxy, BLOCKS, first, 40, {}) for first in range(11)))
        assert asked(nodes) == [(0, 9), (10, 40)]


async def test_of_several_errors_the_client_gets_the_one_a_node_would_have_met_first() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net={"ranges": {"divide_from": 50}}) as proxy:
        reply = await same(proxy, BLOCKS, 0, nodes[0].head, {"withSigners": True})
        assert "mismatching bitmap" in reply.error["message"]
        # Both parts failed: one at both nodes, the other at one, for it needs a block that no node has yet.
        assert sum(node.counts.errors for node in nodes) == 3


async def test_what_a_node_says_is_told_before_what_happened_on_the_way() -> None:
    net = {"ranges": {"divide_from": 50}, "attempts": 1}
    async with harmony_nodes(2) as nodes, proxying(nodes, net=net) as proxy:
        nodes[0].knobs.faults = {"html": 1.0}
        nodes[1].knobs.faults = {"error": 1.0}
        assert (await proxy.call(BLOCKS, 10, 109, {})).error["message"] == "simulated failure"


async def test_pieces_kept_count_as_no_skipped_answer() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await same(proxy, BLOCKS, 10, 40, {})
        (cell,) = (cell for cell in proxy.worker.report().tally.cells if cell.method == BLOCKS)
        assert cell.skips == {}


async def test_switched_off_a_range_is_one_call_kept_as_a_whole() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"ranges": {"enabled": False}}) as proxy:
        for _ in range(2):
            await same(proxy, BLOCKS, 0, 1025, {})
            await same(proxy, BLOCKS, 10, 20, {})
        await same(proxy, BLOCKS, 10, 21, {})
        assert asked(nodes) == [(0, 1025), (0, 1025), (10, 20), (10, 21)]


# ------------------------------------------------------------------------------------------------------------- logs


async def test_windows_of_logs_that_shift_share_their_segments() -> None:
    net = {"ranges": {"segment": 32}}
    async with harmony_nodes(1) as nodes, proxying(nodes, net=net) as proxy:
        assert (await same(proxy, LOGS, window(32, 127))).cache == "miss"
        assert (await same(proxy, LOGS, window(64, 159))).cache == "partial; cached=64; of=96"
        assert (await same(proxy, LOGS, window(40, 150))).cache == "memory"
        assert (await same(proxy, LOGS, window(70, 75))).cache == "memory"
        assert asked(nodes) == [(32, 127), (128, 159)]


async def test_an_edge_costs_a_node_no_more_than_was_asked() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"ranges": {"segment": 32}}) as proxy:
        await same(proxy, LOGS, window(40, 100))
        assert (await same(proxy, LOGS, window(40, 100))).cache == "memory"
        assert (await same(proxy, LOGS, window(50, 100))).cache == "partial; cached=37; of=51"
        assert asked(nodes) == [(40, 100), (50, 63)]


async def test_the_edges_of_a_long_range_are_fetched_whole_and_shared_by_the_next() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"ranges": {"segment": 16}}) as proxy:
        await same(proxy, LOGS, window(40, 121))
        assert (await same(proxy, LOGS, window(34, 125))).cache == "memory"
        assert asked(nodes) == [(32, 127)]


async def test_where_more_than_was_asked_is_refused_it_is_what_was_asked() -> None:
    net = {"chain": "ethereum", "ranges": {"segment": 16, "max_pieces": 1}}
    async with ethereum_nodes(1, logs_range=81) as nodes, proxying(nodes, net=net) as proxy:
        await same(proxy, LOGS, window(40, 121))
        assert asked(nodes) == [(32, 127), (40, 121)]


async def test_a_window_that_slides_with_the_head_asks_for_its_new_end_only() -> None:
    async with harmony_nodes(1, head=200) as nodes, proxying(nodes, net={"ranges": {"segment": 16}}) as proxy:
        for _ in range(60):
            nodes[0].chain.advance()
            proxy.see()
            await same(proxy, LOGS, window(nodes[0].head - 40, "latest"))
        assert all(last - first < 16 for first, last in asked(nodes)[-30:])


async def test_an_indexer_whose_windows_overlap_has_every_block_searched_once() -> None:
    async with harmony_nodes(1, head=9000) as nodes, proxying(nodes) as proxy:
        for shift in (0, 333):
            for first in range(shift, 8000, 900):
                await same(proxy, LOGS, window(first, first + 999))
        ranges = asked(nodes)
        assert sum(last - first + 1 for first, last in ranges) < 10_000
        assert len(ranges) < 12


async def test_logs_of_another_filter_are_other_pieces() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"ranges": {"segment": 32}}) as proxy:
        contract = (await same(proxy, LOGS, window(0, 127))).result[0]["address"]
        assert (await same(proxy, LOGS, window(0, 127, address=contract))).cache == "miss"
        assert (await same(proxy, LOGS, window(0, 127, address="0x" + "00" * 20))).result == []
        assert (await same(proxy, LOGS, window(32, 63, address=contract))).cache == "memory"


# ----------------------------------------------------------------------------------------------------------- traces


TRACES = "trace_filter"


async def test_windows_of_traces_share_their_blocks_and_those_of_an_address_their_segments() -> None:
    net = {"chain": "ethereum", "ranges": {"segment": 16}}
    async with ethereum_nodes(1) as nodes, proxying(nodes, net=net) as proxy:
        sender = (await same(proxy, TRACES, window(10, 49))).result[0]["action"]["from"]
        assert (await same(proxy, TRACES, window(30, 69))).cache == "partial; cached=20; of=40"
        assert (await same(proxy, TRACES, window(20, 60))).cache == "memory"
        of_sender = window(32, 63, fromAddress=[sender])
        assert (await same(proxy, TRACES, of_sender)).cache == "miss"
        assert (await same(proxy, TRACES, {**of_sender, "toBlock": "0x2f"})).cache == "memory"
        assert asked(nodes) == [(10, 49), (32, 63), (50, 69)]


async def test_what_a_node_leaves_out_of_traces_without_a_word_is_missing_in_no_block() -> None:
    async with ethereum_nodes(1, head=400) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        witness = SimNode(nodes[0].chain, name="witness")
        cut = await witness.ask(TRACES, window(0, 250))
        assert len(cut) == TRACES_UNASKED
        whole = (await proxy.call(TRACES, window(0, 250))).result
        assert whole[: len(cut)] == cut
        for first, last in ((0, 250), (100, 180), (250, 250)):
            reply = await proxy.call(TRACES, window(first, last))
            assert reply.cache == "memory"
            assert reply.result == await witness.ask(TRACES, window(first, last, count=10_000))
        paged = (await same(proxy, TRACES, window(0, 250, after=190, count=20))).result
        assert paged == whole[190:210]


@pytest.mark.parametrize("code", [-32602, -32000])
async def test_a_node_that_refuses_to_be_told_how_many_traces_is_asked_as_the_client_asks(code: int) -> None:
    async with ethereum_nodes(1) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        nodes[0].knobs.turn({"error_code": code, "error_text": "unknown field `count`", "next_faults": ["error"]})
        reply = await proxy.call(TRACES, window(10, 20))
        assert reply.result == await SimNode(nodes[0].chain, name="witness").ask(TRACES, window(10, 20))


async def test_a_range_with_more_traces_than_are_asked_for_at_once_is_asked_for_in_parts() -> None:
    def said(_method: str, params: bytes) -> bytes:
        """Two thirds of the most traces in each of two blocks, as many of them as the call wants."""
        (asked,) = orjson.loads(params)
        first, last = int(asked["fromBlock"], 16), int(asked["toBlock"], 16)
        traces = [b'{"blockNumber":%d,"traceAddress":[]}' % block for block in range(first, last + 1)]
        all_of_them = [trace for trace in traces for _ in range(2 * MOST_TRACES // 3)]
        return b'"result":[%b]' % b",".join(all_of_them[: asked.get("count", TRACES_UNASKED)])

    async with saying(said) as node, proxying([node], net={"chain": "ethereum"}, memory={"size": "64MB"}) as proxy:
        for _ in range(2):
            found = (await proxy.call(TRACES, window(10, 11))).result
            assert [found[0]["blockNumber"], found[-1]["blockNumber"]] == [10, 11]
            assert len(found) == 2 * (2 * MOST_TRACES // 3)


@pytest.mark.parametrize("limit", [{"logs_range": 20}, {"logs_results": 5}])
async def test_what_a_node_finds_too_large_is_asked_for_in_smaller_pieces(limit: dict[str, int]) -> None:
    async with ethereum_nodes(2, head=300, **limit) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        reply = await same(proxy, LOGS, window(0, 150))
        assert len(reply.result) > 5
        asked(nodes)
        assert (await same(proxy, LOGS, window(0, 150))).cache == "memory"
        assert (await same(proxy, LOGS, window(0, 127))).cache == "memory"
        assert asked(nodes) == []


WORDS = [
    # code, text, is the length learnt?
    (-32602, "range {asked} exceeds limit of {most}", True),
    (-32600, "You can make eth_getLogs requests with up to a {most} block range. Based on your parameters, "
     "this block range should work: [0x0, 0x40]", True),
    (-32005, "Requested range exceeds maximum RPC range limit", True),
    (35, "ranges over {most} blocks are not supported on freetier", True),
    (-32000, "query block range exceeds server limit, narrow your filter: {most}", True),
    (1, "no more than {most} blocks at once", True),
    (-32005, "Too many logs requested. Max logs per response is 20000.", False),
]  # fmt: skip


@pytest.mark.parametrize("final", [None, 20])
@pytest.mark.parametrize(("code", "text", "learnt"), WORDS)
async def test_a_range_that_a_provider_finds_too_large_is_divided_in_whatever_words(
    code: int, text: str, *, learnt: bool, final: int | None
) -> None:
    limit = {"logs_range": 70, "logs_code": code, "logs_refusal": text}
    async with (
        ethereum_nodes(1, head=800, **limit) as nodes,
        proxying(nodes, net={"chain": "ethereum"}, final=final) as proxy,
    ):
        assert len((await same(proxy, LOGS, window(7, 398))).result) > 5
        refused = [last - first for first, last in asked(nodes) if last - first > 70]
        assert refused
        assert len((await same(proxy, LOGS, window(409, 790))).result) > 5
        again = [last - first for first, last in asked(nodes) if last - first > 70]
        assert again == [] if learnt else again
        assert "{most}" not in text or len(refused) <= 2, "the edge of a range, widened, may be refused as well"


async def test_a_node_that_takes_long_ranges_gets_them_whole_beside_one_that_does_not() -> None:
    async with ethereum_nodes(2, head=800) as nodes:
        nodes[0].knobs.logs_range = 50
        async with proxying(nodes, net={"chain": "ethereum"}) as proxy:
            for first in (0, 256, 512):
                await same(proxy, LOGS, window(first, first + 255))
            nodes[0].counts.reset()
            nodes[1].counts.reset()
            await same(proxy, LOGS, window(3, 250, address="0x" + "11" * 20))
            assert len(asked(nodes)) == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [WORDS[0][:2], (-32005, "Query returned more than 10000 results. Try with this block range [0x0, 0x4].")],
)
async def test_what_one_node_would_have_in_too_many_pieces_is_asked_of_another(code: int, text: str) -> None:
    net = {"chain": "ethereum", "ranges": {"max_pieces": 4}}
    async with ethereum_nodes(3, head=800) as nodes:
        for name, value in {"logs_range": 5, "logs_code": code, "logs_refusal": text}.items():
            setattr(nodes[0].knobs, name, value)
        async with proxying(nodes, net=net) as proxy:
            for first in (0, 128, 256, 384):
                assert (await same(proxy, LOGS, window(first, first + 127))).result
            assert len(asked(nodes)) <= 10


async def test_a_refusal_is_passed_on_when_pieces_would_be_too_many() -> None:
    net = {"chain": "ethereum", "ranges": {"max_pieces": 4}}
    async with ethereum_nodes(1, head=300, logs_range=2) as nodes, proxying(nodes, net=net) as proxy:
        reply = await proxy.call(LOGS, window(0, 255))
        assert reply.error == {"code": -32005, "message": "block range is too wide: at most 2 blocks"}
        assert len(asked(nodes)) <= 6


async def test_as_usual_two_thousand_blocks_are_answered_by_a_node_that_takes_ten_at_once() -> None:
    text = "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range."
    knobs = {"logs_range": 10, "logs_refusal": text}
    async with ethereum_nodes(1, head=2200, **knobs) as nodes, proxying(nodes, net={"chain": "ethereum"}) as proxy:
        assert (await same(proxy, LOGS, window(1, 2000))).result
        assert len(asked(nodes)) <= 256


async def test_logs_that_are_not_final_are_asked_of_one_node_and_go_with_the_fork() -> None:
    net = {"chain": "ethereum", "ranges": {"segment": 32, "divide_from": 10}}
    async with ethereum_nodes(2, head=300) as nodes, proxying(nodes, net=net, final=200) as proxy:
        await same(proxy, LOGS, window(100, 300))
        assert (await same(proxy, LOGS, window(100, 300))).cache == "memory"
        nodes[0].chain.reorg(50)
        proxy.see(final=200, fork_epoch=1)
        asked(nodes)
        assert (await same(proxy, LOGS, window(100, 300))).cache == "partial; cached=92; of=201"
        assert asked(nodes) == [(192, 300)]


async def test_a_refused_end_is_divided_where_what_is_final_ends() -> None:
    async with (
        ethereum_nodes(2, head=300, logs_range=110) as nodes,
        proxying(nodes, net={"chain": "ethereum"}, final=200) as proxy,
    ):
        assert (await same(proxy, LOGS, window(100, 300))).cache == "miss"
        assert (await same(proxy, LOGS, window(100, 300))).cache == "memory"


async def test_a_range_no_longer_than_what_is_not_final_goes_the_ordinary_way() -> None:
    async with ethereum_nodes(1, head=300) as nodes, proxying(nodes, net={"chain": "ethereum"}, final=200) as proxy:
        assert [(await same(proxy, LOGS, window(260, 300))).cache for _ in range(2)] == ["miss", "memory"]
        assert (await same(proxy, LOGS, window(300, 260))).error["message"] == "invalid block range params"
