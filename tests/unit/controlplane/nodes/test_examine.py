"""Nodes examined: simulated ones on loopback, with the client that reaches real ones, and scripted ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from rpcaccel import chains
from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.examine import TIME_LIMIT, examine
from rpcaccel.controlplane.nodes.shadow_calls import Examined, ProbeBudget, ShadowCall
from rpcaccel.core.heads.examination import LONGEST_FAULT, Examination
from rpcaccel.core.nodes.limits import MethodCosts
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.simnode.server.factories import ethereum_chain, ethereum_nodes, harmony_nodes, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock

HEAD = 3000
KINDS = {"harmony": harmony_nodes, "ethereum": ethereum_nodes}


async def examined(chain: str, nodes: list[SimNode], *budgets: ProbeBudget) -> Examination:
    """The examination of the first node, compared with the others."""
    budgets = budgets or tuple(ProbeBudget() for _ in nodes)
    async with AsyncExitStack() as closing:
        clients = []
        for node in nodes:
            client = HttpNodeClient(NodeSettings.model_validate({"id": node.name, "url": node.url}))
            closing.push_async_callback(client.close)
            clients.append(client)
        found = chains.load(chain)
        head = nodes[0].head
        one, *peers = (
            Examined(node.name, client, head, "sim/1", budget)
            for node, client, budget in zip(nodes, clients, budgets, strict=True)
        )
        return await examine(one, peers, found, found.errors, timeout=2.0)


@pytest.mark.parametrize("chain", KINDS)
async def test_a_whole_node_is_found_whole(chain: str) -> None:
    async with KINDS[chain](2, head=HEAD) as nodes:
        examination = await examined(chain, nodes)
    assert (examination.state_from, examination.logs_from) == (0, 0)
    assert examination.range_most is None
    assert examination.range_tried == {"harmony": 1024, "ethereum": HEAD - 4}[chain]
    assert (examination.batch_most, examination.batch_tried) == (None, 64)
    assert examination.agreement.compared >= 10
    assert examination.agreement.differing == 0
    assert examination.faults == ()
    assert examination.version == "sim/1"
    assert examination.latency[chains.load(chain).examination.reads[0].method] > 0
    assert examination.calls <= 150


@pytest.mark.parametrize("chain", KINDS)
@pytest.mark.parametrize("kept", [64, 128, 1000])
async def test_the_oldest_state_is_found_to_the_block(chain: str, kept: int) -> None:
    async with KINDS[chain](1, head=HEAD, archive=False, prune_depth=kept) as nodes:
        examination = await examined(chain, nodes)
    assert examination.state_from == HEAD - kept
    assert examination.logs_from == 0
    assert examination.archive is False


@pytest.mark.parametrize("chain", KINDS)
@pytest.mark.parametrize("most", [9, 10, 500, 1000])
async def test_the_longest_range_is_found_to_the_block(chain: str, most: int) -> None:
    async with KINDS[chain](1, head=HEAD, logs_range=most) as nodes:
        examination = await examined(chain, nodes)
    assert examination.range_most == most


async def test_roles_of_a_harmony_node_are_found_by_its_answers() -> None:
    async with harmony_nodes(1, head=HEAD, explorer=False) as nodes:
        assert (await examined("harmony", nodes)).roles == {"explorer": False, "auth": False}
    async with harmony_nodes(1, head=HEAD) as nodes:
        assert (await examined("harmony", nodes)).roles["explorer"] is True


@pytest.mark.parametrize("head", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("chain", KINDS)
async def test_a_chain_that_has_hardly_begun_has_no_bounds(chain: str, head: int) -> None:
    async with KINDS[chain](2, head=head) as nodes:
        examination = await examined(chain, nodes)
    assert (examination.state_from, examination.logs_from, examination.range_most) == (0, 0, None)
    assert examination.agreement.differing == 0
    assert examination.faults == ()


async def test_a_rate_limit_is_waited_for_and_is_no_bound() -> None:
    async with ethereum_nodes(1, head=HEAD, archive=False, faults={"too_many": 0.2}, retry_after=0.01) as nodes:
        examination = await examined("ethereum", nodes)
    assert examination.state_from == HEAD - 128
    assert examination.logs_from == 0
    assert examination.range_most is None


async def test_a_node_that_answers_nothing_is_found_to_have_nothing_and_nothing_is_believed() -> None:
    async with ethereum_nodes(1, head=HEAD, faults={"error": 1.0}) as nodes:
        examination = await examined("ethereum", nodes)
    assert (examination.state_from, examination.logs_from, examination.range_tried) == (None, None, None)
    assert examination.faults[0] == (
        "from which block on it has state was not found out: it gave no answer that says so"
        " (eth_getBalance: simulated failure)"
    )


async def test_no_more_calls_are_made_than_are_allowed() -> None:
    budget, other = ProbeBudget(calls=12), ProbeBudget()
    async with ethereum_nodes(2, head=HEAD) as nodes:
        examination = await examined("ethereum", nodes, budget, other)
        assert nodes[0].counts.calls == examination.calls == budget.spent == 12
        assert nodes[1].counts.calls == other.spent <= 60
    assert examination.batch_tried is None


async def test_heavy_calls_count_as_the_quota_has_it() -> None:
    budget = ProbeBudget(cost=300, costs=MethodCosts(heavy=75))
    async with ethereum_nodes(1, head=HEAD) as nodes:
        examination = await examined("ethereum", nodes, budget)
        logs = nodes[0].counts.asked("eth_getLogs") + nodes[0].counts.asked("debug_traceTransaction")
        assert 1 <= logs <= 4
        assert budget.spent == examination.calls - logs + 75 * logs <= 300
    assert (examination.state_from, examination.logs_from) == (0, None)


async def test_calls_a_second_are_kept_and_no_batch_is_longer() -> None:
    async with ethereum_nodes(1, head=10) as nodes:
        examination = await examined("ethereum", nodes, ProbeBudget(second=50))
        assert examination.seconds >= (nodes[0].counts.calls - 16) / 50
    assert examination.batch_tried == 16


async def test_another_branch_is_a_difference_in_words() -> None:
    chain = ethereum_chain(HEAD)
    chain.reorg(HEAD - 1)
    async with running(chain, 2, each=[{"branch": 0}, {"branch": 1}]) as nodes:
        examination = await examined("ethereum", nodes)
    assert examination.agreement.differing >= examination.agreement.compared // 2 > 0
    assert examination.agreement.first.startswith("eth_getBlockByNumber at block 2936: ")


class Scripted:
    """A node of whose answers a test says what they are; a session that takes no batches."""

    def __init__(self, clock: ManualClock, **said: Callable[[int], object]) -> None:
        """`said`: by method, what is answered about a block: a result, or an Answer or a Failure as it is."""
        self.clock = clock
        self.said = said
        self.asked: list[tuple[str, int]] = []
        self.takes = 0.0
        """Seconds until an answer comes."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        block = min((int(text, 16) for text in re.findall(r'"(0x[0-9a-f]{1,8})"', params.decode())), default=0)
        self.asked.append((method, block))
        self.clock.advance(self.takes)
        if method not in self.said:
            return Answer(error=b'{"code":-32601,"message":"Method not found"}')
        found = self.said[method](block)
        return found if isinstance(found, Answer | Failure) else Answer(result=json.dumps(found).encode(), elapsed=0.01)

    async def close(self) -> None:
        """Nothing to close."""


async def examined_script(node: Scripted, *peers: Scripted, head: int = HEAD) -> Examination:
    clock = node.clock

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    ethereum = chains.load("ethereum")
    one, *others = (Examined(f"node-{at}", each, head) for at, each in enumerate((node, *peers)))
    return await examine(one, others, ethereum, ethereum.errors, clock=clock.now, sleep=sleep, wall=lambda: 7.0)


def whole(_block: int) -> object:
    return []


def error(code: int, message: str) -> Answer:
    return Answer(error=json.dumps({"code": code, "message": message}).encode())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32602, "BlockOutOfRangeError: block height is 3000 but requested was 1"),
        (-32000, "missing trie node 0x12 (path )"),
        (-32601, "archive requests are not included in your current plan"),
        (4444, "pruned history unavailable"),
        (-32000, "header not found"),
    ],
)
async def test_every_way_of_saying_that_old_state_is_not_there_is_understood(code: int, message: str) -> None:
    node = Scripted(
        ManualClock(),
        eth_getBalance=lambda block: "0x0" if block >= 2500 else error(code, message),
        eth_getLogs=whole,
    )
    examination = await examined_script(node)
    assert (examination.state_from, examination.logs_from, examination.faults) == (2500, 0, ())
    assert (examination.traces, examination.batch_tried, examination.at) == (False, None, 7.0)


async def test_a_call_that_is_refused_for_every_block_bounds_nothing() -> None:
    node = Scripted(ManualClock(), eth_getBalance=lambda _block: error(-32602, "invalid argument"), eth_getLogs=whole)
    examination = await examined_script(node)
    assert examination.state_from is None
    assert examination.faults[0].endswith("it gave no answer that says so (eth_getBalance: invalid argument)")


async def test_the_state_of_block_0_alone_is_no_archive() -> None:
    """geth keeps it, whatever it prunes."""
    gone = error(-32000, "missing trie node")
    node = Scripted(
        ManualClock(),
        eth_getBalance=lambda block: "0x0" if block == 0 or block > HEAD - 100 else gone,
        eth_getLogs=whole,
    )
    assert (await examined_script(node)).state_from == HEAD - 99


async def test_logs_that_are_left_out_without_a_word_are_missed_where_another_node_has_them() -> None:
    clock = ManualClock()
    log = {"data": "0x"}
    node = Scripted(
        clock, eth_getBalance=lambda _block: "0x0", eth_getLogs=lambda block: [log] if block >= 2000 else []
    )
    peer = Scripted(clock, eth_getLogs=lambda _block: [log])
    assert (await examined_script(node)).logs_from == 0, "nobody else to ask"
    assert (await examined_script(node, peer)).logs_from == 2000


async def test_logs_that_no_node_has_are_not_missed() -> None:
    clock = ManualClock()
    node, peer = (Scripted(clock, eth_getBalance=lambda _block: "0x0", eth_getLogs=whole) for _ in range(2))
    assert (await examined_script(node, peer)).logs_from == 0
    assert len(peer.asked) <= 60


async def test_a_rate_limit_ends_no_search_and_its_wish_is_heard() -> None:
    clock = ManualClock()
    refused = Failure(FailureKind.RATE_LIMITED, "HTTP 429", retry_after=0.5)
    turns = iter(range(10_000))
    node = Scripted(clock, eth_getLogs=whole)
    node.said["eth_getBalance"] = lambda block: refused if next(turns) % 3 == 0 else ("0x0" if block > 900 else None)
    examination = await examined_script(node)
    assert examination.state_from == 901
    assert examination.seconds >= 0.5 * examination.calls / 20


async def test_an_examination_ends_after_its_time_and_keeps_what_it_found() -> None:
    clock = ManualClock()
    node = Scripted(clock, eth_getBalance=lambda _block: "0x0", eth_getLogs=lambda _block: error(-32005, "rate limit"))
    node.takes = 0.4
    examination = await examined_script(node)
    assert examination.state_from == 0
    assert examination.logs_from is None
    assert TIME_LIMIT - 5 <= examination.seconds <= TIME_LIMIT + 2
    assert any("logs was not found out" in fault for fault in examination.faults)


@pytest.mark.parametrize(
    "denial", [error(-32000, "missing trie node 0x1 (path )"), error(-32000, "header not found"), None]
)
async def test_a_node_that_denies_its_newest_blocks_is_bounded_by_nothing(denial: object) -> None:
    """It has just started, or another machine behind its address lags, or the head it told is false."""
    node = Scripted(
        ManualClock(),
        eth_getBalance=lambda _block: denial,
        eth_getLogs=lambda _block: denial or error(-32000, "header not found"),
    )
    examination = await examined_script(node)
    assert (examination.state_from, examination.logs_from) == (None, None)
    assert any(fault.startswith("from which block on it has state was not found out") for fault in examination.faults)


async def test_one_denial_of_the_newest_block_ends_no_search() -> None:
    turns = iter(range(10_000))
    lagging = error(-32000, "header not found")
    node = Scripted(ManualClock(), eth_getBalance=lambda _b: lagging if next(turns) < 2 else "0x0", eth_getLogs=whole)
    assert (await examined_script(node)).state_from == 0


async def test_a_longer_wait_than_the_examination_has_left_ends_it() -> None:
    refused = Failure(FailureKind.RATE_LIMITED, "HTTP 429", retry_after=3600.0)
    node = Scripted(ManualClock(), eth_getBalance=lambda _block: refused, eth_getLogs=whole)
    node.takes = 0.01
    examination = await examined_script(node)
    assert len(node.asked) <= 3, "calls that were under way when it said so"
    assert examination.seconds < 1.0
    assert any("eth_getBalance: HTTP 429" in fault for fault in examination.faults)


class Batching(Scripted):
    """A node that refuses batches of more than `most` calls, and says of shorter ones what `said_of_less` says."""

    def __init__(self, clock: ManualClock, most: int, said_of_less: Answer | Failure) -> None:
        super().__init__(clock)
        self.most, self.said_of_less = most, said_of_less

    def post(
        self,
        calls: Sequence[ShadowCall],
        timeout: float,
        told: Callable[[Sequence[ShadowCall], Sequence[Answer | Failure]], None],
    ) -> None:
        one = error(-32600, "batch too large") if len(calls) > self.most else self.said_of_less
        told(calls, [one] * len(calls))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (Failure(FailureKind.RATE_LIMITED, "HTTP 429", retry_after=9.0), (None, None)),
        (Answer(result=b'"0x1"'), (16, 64)),
        (error(-32600, "no batches"), (1, 64)),
    ],
)
async def test_a_batch_is_bounded_by_an_answer_alone(said: Answer | Failure, found: tuple[int, int]) -> None:
    examination = await examined_script(Batching(ManualClock(), 16, said))
    assert (examination.batch_most, examination.batch_tried) == found
    assert any("batches of 16 calls" in fault for fault in examination.faults) is (found[0] is None)


async def test_what_a_node_says_is_cut_and_made_printable() -> None:
    words = "\x1b[31m" + "long " * 200
    node = Scripted(ManualClock(), eth_getBalance=lambda _block: error(-32000, words), eth_getLogs=whole)
    (fault,) = (await examined_script(node)).faults
    assert fault.isprintable()
    assert len(fault) <= LONGEST_FAULT
