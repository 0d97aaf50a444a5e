"""What a node says of itself, and whether it is right."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rpcaccel import chains
from rpcaccel.cli.findings import hints
from rpcaccel.config.model import NetworkSettings
from rpcaccel.controlplane.nodes.discovery import FAR_BEHIND, find, judge, probe_network
from rpcaccel.core.heads.identity import Finding
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes


class Said:
    """A node that answers from a table by method, or method and params; what is not there is a failure."""

    def __init__(self, replies: dict[str, Any]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        self.asked.append(method)
        silent = Failure(FailureKind.TIMEOUT, "no answer within 1 s")
        reply = self.replies.get(f"{method} {params.decode()}", self.replies.get(method, silent))
        return reply if isinstance(reply, Answer | Failure) else Answer(result=msgspec.json.encode(reply))

    async def close(self) -> None:
        pass


def finding(**facts: Any) -> Finding:
    return Finding(network="net", node="a", url="http://a", **facts)


async def found(replies: dict[str, Any], chain: str = "harmony") -> Finding:
    return await find(finding(), Said(replies), chains.load(chain), 1.0)


METADATA = {"role": "ExplorerNode", "is-archival": True, "version": "v1"}
REFUSAL = Answer(error=b'{"code":-32601,"message":"no such method"}')
QUIET = dict.fromkeys(("hmyv2_chainId", "hmyv2_getShardID", "hmyv2_getEpoch", "net_version"))
"""Calls about the chain that are answered with nothing."""


async def test_a_harmony_node_says_chain_head_shard_and_role() -> None:
    said = {"eth_chainId": "0x63564c40", "hmyv2_blockNumber": 7, "hmyv2_getNodeMetadata": METADATA}
    made = await found({**QUIET, **said, "hmyv2_getShardID": 0})
    assert (made.chain_id, made.head, made.shard, made.role) == (1666600000, 7, 0, "explorer, archive")
    assert made.latency is not None


async def test_another_node_says_its_software() -> None:
    said = {"eth_chainId": "0x1", "eth_blockNumber": "0x10", "web3_clientVersion": "Geth/v1\x1b[2J"}
    made = await found({**QUIET, **said}, "ethereum")
    assert (made.chain_id, made.head, made.shard, made.role) == (1, 16, None, r"Geth/v1\x1b[2J")


@pytest.mark.parametrize("more", [QUIET, {"net_version": Failure(FailureKind.UNAUTHORIZED, "HTTP 403")}])
async def test_a_node_that_tells_only_chain_id_and_head_is_not_wrong(more: dict[str, Any]) -> None:
    made = await found({**more, "eth_chainId": "0x1", "hmyv2_blockNumber": 7})
    assert (made.trouble, made.role, made.chain_id, made.head) == ("", "", 1, 7)


@pytest.mark.parametrize(
    ("replies", "trouble"),
    [
        ({}, "no answer within 1 s"),
        ({"hmyv2_blockNumber": 7, "eth_chainId": REFUSAL}, "eth_chainId: no such method"),
        ({"hmyv2_blockNumber": 7, "eth_chainId": None}, "eth_chainId: answered with something that is not a number"),
        ({"hmyv2_blockNumber": 7, "eth_chainId": "0x" + "1" * 99}, "eth_chainId: answered with something that is not"),
        ({"hmyv2_blockNumber": "one"}, "what it tells as its head is no block number"),
        ({"hmyv2_blockNumber": Answer(result=b"[" * 9)}, "what it tells as its head is no block number"),
        ({"hmyv2_blockNumber": REFUSAL}, "it answers its head with an error: no such method"),
    ],
)
async def test_a_node_without_chain_or_head_is_trouble(replies: dict[str, Any], trouble: str) -> None:
    assert trouble in (await found({"eth_chainId": "0x1", **replies})).trouble


@pytest.mark.parametrize(
    ("replies", "trouble"),
    [
        ({"hmyv2_blockNumber": 7}, "answers hmyv2_blockNumber: a harmony node, not one of ethereum"),
        ({"hmyv2_blockNumber": REFUSAL}, ""),
        ({"hmyv2_blockNumber": "a page"}, ""),
        ({}, ""),
    ],
)
async def test_a_node_of_another_chain_is_known_by_what_it_answers(replies: dict[str, Any], trouble: str) -> None:
    made = await found({**QUIET, "eth_chainId": "0x63564c40", "eth_blockNumber": "0x10", **replies}, "ethereum")
    assert made.trouble == trouble


async def test_a_node_that_answers_as_another_chain_alone_is_told_by_its_name() -> None:
    made = await found({**QUIET, "eth_chainId": "0x1", "hmyv2_blockNumber": REFUSAL, "eth_blockNumber": "0x10"})
    wrong = "it answers its head with an error: no such method; it answers eth_blockNumber: a node of ethereum?"
    assert made.trouble == wrong


async def test_a_node_of_which_nothing_comes_is_not_asked_for_the_head_of_other_chains() -> None:
    said = Said({})
    made = await find(finding(), said, chains.load("harmony"), 1.0)
    assert (made.trouble, "eth_blockNumber" in said.asked) == ("no answer within 1 s", False)


async def test_nodes_are_asked_as_what_they_are_not_too() -> None:
    async with harmony_nodes(1) as (node,):
        network = NetworkSettings.model_validate({"chain": "ethereum", "nodes": [node.url]})
        (made,) = await probe_network("x", network)
        assert "a harmony node" in made.trouble


def network(**fields: Any) -> NetworkSettings:
    return NetworkSettings.model_validate({"nodes": ["http://a"], **fields})


def test_a_node_far_behind_the_best_is_wrong_and_one_a_little_behind_is_not() -> None:
    near, far = judge(
        [finding(chain_id=1, head=100), finding(chain_id=1, head=99), finding(chain_id=1, head=99 - FAR_BEHIND)],
        network(),
    )[1:]
    assert (near.behind, near.trouble) == (1, "")
    assert far.trouble == f"{FAR_BEHIND + 1} blocks behind"


def test_the_odd_chain_id_is_wrong_and_its_head_sets_no_measure() -> None:
    judged = judge([finding(chain_id=1, head=5), finding(chain_id=1, head=5), finding(chain_id=2, head=900)], network())
    assert [one.trouble for one in judged] == ["", "", "it serves chain id 2, not 1"]


def test_the_chain_id_of_the_settings_counts_more_than_the_most() -> None:
    assert judge([finding(chain_id=1, head=5)], network(chain_id=7))[0].trouble == "it serves chain id 1, not 7"


def test_a_node_that_is_wrong_anyway_is_no_measure_for_the_others() -> None:
    wrong = finding(chain_id=5, head=900, trouble="answers hmyv2_blockNumber")
    made = judge([wrong, wrong, finding(chain_id=1, head=7)], NetworkSettings.model_validate({"nodes": ["http://a"]}))
    assert [one.trouble for one in made] == [wrong.trouble, wrong.trouble, ""]


def test_another_shard_is_wrong() -> None:
    assert judge([finding(chain_id=1, head=5, shard=1)], network())[0].trouble == "it serves shard 1, not 0"


def test_block_0_is_that_of_the_network_by_the_weight_of_its_nodes_and_one_that_does_not_tell_it_is_right() -> None:
    ours, theirs = "0x" + "1a" * 32, "0x" + "2b" * 32
    judged = judge(
        [
            finding(chain_id=1, head=900, genesis=theirs),
            finding(chain_id=1, head=5, genesis=ours, weight=3),
            finding(chain_id=1, head=5),
        ],
        network(chain="ethereum"),
    )
    wrong = "its chain begins with block 0x2b2b2b2b…, that of the network with 0x1a1a1a1a…: another chain"
    assert [one.trouble for one in judged] == [wrong, "", ""]


def test_block_1_is_compared_where_it_is_final() -> None:
    ours, theirs = "0x" + "1a" * 32, "0x" + "2b" * 32
    for head, wrong in ((65, "its block 1 is 0x2b2b2b2b…, that of the network 0x1a1a1a1a…"), (64, "")):
        told = [
            finding(chain_id=1, head=head, block_one=hashed, weight=weight)
            for hashed, weight in ((theirs, 1), (ours, 3), (None, 9))
        ]
        found = judge(told, network(chain="ethereum"))
        assert [one.trouble.partition(": another chain")[0] for one in found] == [wrong, "", ""]


@pytest.mark.parametrize(
    ("told", "genesis"),
    [({"hash": "0x" + "AB" * 32}, "0x" + "ab" * 32), ({"hash": "0x1"}, None), ({"hash": 7}, None), (None, None)],
)
async def test_blocks_0_and_1_are_asked_for(told: Any, genesis: str | None) -> None:
    other = {"hash": "0x" + "cd" * 32}
    for zero, one in ((told, other), (other, told)):
        blocks = {'eth_getBlockByNumber ["0x0",false]': zero, 'eth_getBlockByNumber ["0x1",false]': one}
        made = await found({**QUIET, "eth_chainId": "0x1", "eth_blockNumber": "0x10", **blocks}, "ethereum")
        hashes = (genesis, other["hash"]) if zero is told else (other["hash"], genesis)
        assert (made.genesis, made.block_one, made.trouble) == (*hashes, "")


def test_trouble_stays() -> None:
    assert judge([finding(trouble="no answer")], network()) == [finding(trouble="no answer")]


async def test_real_sockets_give_findings_in_the_order_of_the_nodes() -> None:
    async with harmony_nodes(2) as (first, second):
        second.knobs.lag = 30
        made = await probe_network("net", network(nodes=[first.url, second.url, "http://127.0.0.1:1"]))
    assert [one.head for one in made] == [200, 170, None]
    assert [bool(one.trouble) for one in made] == [False, True, True]
    assert made[0].role == "explorer, archive, observer"


async def test_a_node_that_takes_too_long_for_all_it_is_asked_is_told_by_name_and_the_others_are_found() -> None:
    async with harmony_nodes(2) as (quick, slow):
        slow.knobs.turn({"latency": "10s"})
        found = await probe_network("net", network(nodes=[quick.url, slow.url]), within=1.0)
    assert [one.trouble for one in found] == ["", "took more than 1 s to say what it is"]


async def test_an_evm_node_is_asked_its_own_way() -> None:
    async with ethereum_nodes(1) as (node,):
        (made,) = await probe_network("net", network(chain="ethereum", nodes=[node.url]))
    assert (made.chain_id, made.head, made.trouble) == (1337, 200, "")


async def test_nodes_are_asked_at_the_same_time() -> None:
    asked, all_asked = set(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        asked.add(request.host)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()
        return web.Response(status=503)

    async with AsyncExitStack() as stack:
        app = web.Application()
        app.router.add_post("/", answer)
        urls = [str((await stack.enter_async_context(TestServer(app))).make_url("/")) for _ in range(3)]
        made = await probe_network("net", network(nodes=[f"{url},id=n{i}" for i, url in enumerate(urls)]))
    assert ["503" in found.trouble for found in made] == [True, True, True]


def test_a_chain_id_of_a_table_that_knows_more_is_a_hint_once_a_network() -> None:
    polygon = [finding(chain="ethereum", chain_id=137), finding(chain="ethereum", chain_id=137)]
    (hint,) = hints(polygon)
    assert 'chain = "polygon"' in hint
    assert hints([finding(chain="polygon", chain_id=137), finding(chain="ethereum", chain_id=1), finding()]) == []


async def test_a_node_of_no_chain_is_asked_once_by_the_call_that_chains_of_a_kind_share() -> None:
    node = Said({"eth_chainId": REFUSAL, "hmyv2_blockNumber": REFUSAL, "eth_blockNumber": REFUSAL})
    await find(finding(), node, chains.load("harmony"), 1.0)
    assert node.asked.count("eth_blockNumber") == 1
