"""What nodes say they serve, and the networks that makes, over scripted nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rpcaccel import chains
from rpcaccel.config.errors import ConfigError
from rpcaccel.config.load import UrlNetwork
from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.discovery import assumed, discover, is_open, try_nodes
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes

DOWN = Failure(FailureKind.CONNECT, "connection refused")
MAINNET, TESTNET = 1_666_600_000, 1_666_700_000


def harmony(shard: int = 0, base: int = MAINNET) -> dict[str, Any]:
    """What a Harmony node answers."""
    head = {"hmyv2_blockNumber": 7, "eth_blockNumber": "0x7"}
    return {**head, "hmyv2_getShardID": shard, "eth_chainId": hex(base + shard)}


def ethereum(chain_id: int = 1) -> dict[str, Any]:
    """What another EVM node answers."""
    return {"eth_blockNumber": "0x7", "eth_chainId": hex(chain_id)}


class Node:
    """Answers from a table; refuses what is not in it, and so many first calls altogether."""

    def __init__(self, results: dict[str, Any], refused: int = 0) -> None:
        self.results = results
        self.refused = refused
        self.asked: list[str] = []
        self.closed = 0

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        assert timeout > 0
        self.asked.append(method)
        if not self.results or len(self.asked) <= self.refused:
            return DOWN
        if method in self.results:
            return Answer(result=msgspec.json.encode(self.results[method]))
        return Answer(error=b'{"code":-32601,"message":"the method does not exist"}')

    async def close(self) -> None:
        self.closed += 1


async def found(
    *nodes: Node, chain: str | None = None, shard: int | None = None, wait: float = 0.0
) -> tuple[list[UrlNetwork], list[str]]:
    """What is found of nodes a, b, c …"""
    texts = [f"http://{name}" for name, _ in zip("abcdef", nodes, strict=False)]
    by_url = dict(zip(texts, nodes, strict=True))

    def connect(settings: NodeSettings) -> Node:
        return by_url[settings.url.shown.rstrip("/")]

    networks, notes = await discover(texts, chain, shard, wait=wait, connect=connect)
    assert [node.closed for node in nodes] == [1] * len(nodes)
    return networks, notes


async def test_nodes_that_say_alike_make_one_network_and_the_first_ones_comes_first() -> None:
    networks, notes = await found(
        Node(harmony(1)), Node(ethereum()), Node(harmony(0)), Node(harmony(1)), Node(ethereum())
    )
    assert networks == [
        UrlNetwork("harmony-s1", "harmony", 1, ("http://a", "http://d")),
        UrlNetwork("ethereum", "ethereum", 0, ("http://b", "http://e")),
        UrlNetwork("harmony-s0", "harmony", 0, ("http://c",)),
    ]
    assert notes == []


async def test_where_two_chains_would_be_called_alike_their_ids_name_them() -> None:
    networks, _ = await found(Node(ethereum(1337)), Node(ethereum(1)), Node(harmony(1)), Node(harmony(1, TESTNET)))
    assert [(network.name, network.chain_id) for network in networks] == [
        ("ethereum-1337", 1337),
        ("ethereum-1", 1),
        ("harmony-s1-1666600001", MAINNET + 1),
        ("harmony-s1-1666700001", TESTNET + 1),
    ]


@pytest.mark.parametrize("name", [name for name in chains.names() if chains.load(name).base])
async def test_nodes_of_a_chain_with_a_table_are_known_by_their_chain_id_and_the_new_name_is_said(name: str) -> None:
    (chain_id,) = chains.load(name).chain_ids
    networks, notes = await found(Node(ethereum(chain_id)))
    assert networks == [UrlNetwork(name, name, 0, ("http://a",))]
    (note,) = notes
    assert f"/{name} " in note
    assert "--chain ethereum" in note
    networks, notes = await found(Node(ethereum(chain_id)), chain="ethereum")
    assert ([network.name for network in networks], notes) == (["ethereum"], [])


async def test_a_node_that_tells_no_chain_id_is_one_of_its_shard() -> None:
    silent = harmony(1)
    del silent["eth_chainId"]
    networks, _ = await found(Node(silent), Node(harmony(1)), Node(harmony(0)))
    assert [(network.name, len(network.nodes)) for network in networks] == [("harmony-s1", 2), ("harmony-s0", 1)]
    networks, _ = await found(Node(silent))
    assert [network.name for network in networks] == ["harmony-s1"]


async def test_a_node_that_does_not_answer_is_taken_for_one_like_the_others_and_it_is_said() -> None:
    networks, notes = await found(Node({}), Node(harmony(1)))
    assert networks == [UrlNetwork("harmony-s1", "harmony", 1, ("http://a", "http://b"))]
    assert notes == [
        "http://a has not said what it serves (connection refused): taken for a node of harmony-s1",
    ]


async def test_a_node_of_a_shard_that_no_chain_has_is_left_out_by_name() -> None:
    networks, notes = await found(Node(harmony(99_999)), Node(harmony(1)))
    assert [one.name for one in networks] == ["harmony-s1"]
    assert any("http://a" in note and "shard 99999, which no chain has" in note for note in notes), notes


async def test_where_none_answers_the_default_is_served_and_it_is_said() -> None:
    networks, notes = await found(Node({}), Node({}))
    assert networks == [UrlNetwork("harmony-s0", "harmony", 0, ("http://a", "http://b"))]
    (note,) = notes
    assert note.startswith("no node has said within 0 s what it serves (connection refused): taken for nodes of harm")
    assert "--chain and --shard" in note
    networks, _ = await found(Node({}), shard=1)
    assert [(network.name, network.shard) for network in networks] == [("harmony-s1", 1)]


async def test_a_node_that_comes_up_is_asked_again_until_the_time_is_over() -> None:
    node = Node(ethereum(), refused=2)
    networks, notes = await found(node, wait=60.0)
    assert ([network.name for network in networks], notes) == (["ethereum"], [])


async def test_once_a_node_has_answered_one_that_is_away_is_asked_once_more_and_no_further() -> None:
    away = Node({})
    async with asyncio.timeout(30):
        networks, notes = await found(away, Node(ethereum()), wait=3600.0)
    assert ([network.name for network in networks], len(notes)) == (["ethereum"], 1)


async def test_what_the_operator_says_is_not_asked() -> None:
    node = Node(harmony(1))
    networks, _ = await found(node, chain="harmony")
    assert ([network.name for network in networks], "hmyv2_blockNumber" in node.asked) == (["harmony-s1"], False)
    node = Node(harmony(1))
    networks, _ = await found(node, shard=0)
    assert ([network.name for network in networks], "hmyv2_getShardID" in node.asked) == (["harmony-s0"], False)


@pytest.mark.parametrize(
    ("chain", "shard", "is_asked"),
    [
        (None, None, True),
        (None, 1, True),
        ("harmony", None, True),
        ("harmony", 1, False),
        ("ethereum", None, False),
        ("bitcoin", None, False),
    ],
)
def test_nodes_are_asked_where_the_operator_has_left_something_open(
    chain: str | None, shard: int | None, is_asked: bool
) -> None:
    assert is_open(chain, shard) is is_asked


async def test_what_answers_as_no_chain_does_is_said_in_its_words() -> None:
    _, (note,) = await found(Node({"some_method": 1}), Node(ethereum()))
    assert note.startswith("http://a has not said what it serves (")
    assert "the method does not exist" in note


def test_without_asking_all_nodes_are_of_one_network() -> None:
    networks, notes = assumed(["http://a", "http://b"], None, None)
    assert (networks, notes) == ([UrlNetwork("harmony-s0", "harmony", 0, ("http://a", "http://b"))], [])
    assert assumed(["http://a"], "ethereum", None).networks[0].name == "ethereum"


async def test_nodes_are_tried_in_the_networks_that_they_make_and_their_urls_are_told_as_they_were_given() -> None:
    async with harmony_nodes(2) as (a, b), ethereum_nodes(1) as (geth,):
        texts = [f"{a.url}/s3cret,weight=3,id=mine", geth.url, b.url, "http://127.0.0.1:1,id=mine-2"]
        told = await try_nodes(texts)
    assert told.networks == {
        "harmony-s0": {
            "chain": "harmony",
            "shard": 0,
            "nodes": [
                {"id": "mine", "url": f"{a.url}/s3cret", "weight": 3},
                {"id": b.url.removeprefix("http://"), "url": b.url},
                {"id": "mine-2", "url": "http://127.0.0.1:1"},
            ],
        },
        "ethereum": {
            "chain": "ethereum",
            "shard": 0,
            "nodes": [{"id": geth.url.removeprefix("http://"), "url": geth.url}],
        },
    }
    verdicts = {(one.network, one.node): bool(one.trouble) for one in told.nodes}
    assert verdicts["harmony-s0", "mine"] is False
    assert verdicts["harmony-s0", "mine-2"] is True
    assert "s3cret" not in str(told.nodes)
    assert "taken for a node of harmony-s0" in told.notes[0]


@pytest.mark.parametrize("text", ["ftp://a", "http://a,wieght=3", "harmny"])
async def test_what_is_badly_written_is_refused_before_a_node_is_asked(text: str) -> None:
    async with harmony_nodes(1) as (a,):
        with pytest.raises(ConfigError):
            await try_nodes([a.url, text])
        assert a.counts.calls == 0


async def test_nodes_of_a_named_chain_are_not_asked_for_it() -> None:
    told = await try_nodes(["http://127.0.0.1:1"], "ethereum")
    assert (list(told.networks), told.notes) == (["ethereum"], [])
