import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rpcaccel import chains
from rpcaccel.chains import Identity, Probe
from rpcaccel.controlplane.nodes.probes import Look, Questions, Unseen
from rpcaccel.core.heads.chain_view import Sighting
from rpcaccel.core.heads.identity import Claims
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.json_params import MAX_TEXT

HARMONY = chains.load("harmony").identity
ETHEREUM = chains.load("ethereum").identity


@dataclass(frozen=True)
class Failing:
    """What a node answers with this error object."""

    error: bytes


class Node:
    """Answers by method (or method and first param) from a table; what it has no answer for is an error."""

    def __init__(self, **results: Any) -> None:
        self.results = results
        self.asked: list[tuple[str, Any]] = []

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        assert timeout > 0
        given = json.loads(params)
        self.asked.append((method, given))
        result = self.results.get(f"{method} {given[0]}" if given else method, self.results.get(method))
        if isinstance(result, Failure):
            return result
        if isinstance(result, Failing):
            return Answer(error=result.error)
        if result is None:
            return Answer(error=b'{"code":-32601,"message":"the method does not exist"}')
        return Answer(result=msgspec.json.encode(result), elapsed=0.5)

    async def close(self) -> None:
        return None


def block(number: int, branch: str = "a") -> dict[str, Any]:
    return {"number": hex(number), "hash": f"{branch}{number}", "parentHash": f"{branch}{number - 1}", "size": "0x1"}


async def look(identity: Identity, node: Node, *, again: int | None = None, deep: bool = False) -> Look | Unseen:
    return await Questions(identity, 1.0).look(node, again=again, hashes=deep, tags=deep)


async def test_where_blocks_are_final_the_head_is_one_question() -> None:
    node = Node(hmyv2_blockNumber=123)
    assert await look(HARMONY, node) == Look(Sighting(123), 0.5)
    assert node.asked == [("hmyv2_blockNumber", [])]


async def test_where_blocks_can_be_replaced_hash_parent_old_hash_and_tagged_blocks_are_asked_too() -> None:
    node = Node(
        **{
            "eth_getBlockByNumber latest": block(100),
            "eth_getBlockByNumber 0x62": block(98, "b"),
            "eth_getBlockByNumber finalized": block(36),
            "eth_getBlockByNumber safe": block(68),
        }
    )
    got = await look(ETHEREUM, node, again=98, deep=True)
    assert got == Look(Sighting(100, "a100", "a99", 36, "a36", 68), 0.5, "b98")


class Closing(Node):
    """Closes a connection it kept open, as we write on it, so many times."""

    def __init__(self, times: int, **results: Any) -> None:
        super().__init__(**results)
        self.times = times

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        self.times -= 1
        if self.times >= 0:
            return Failure(FailureKind.RESET_BEFORE_REPLY, "the node had closed a connection")
        return await super().send(method, params, timeout=timeout)


async def test_an_idle_connection_that_the_node_closed_is_no_word_about_the_node() -> None:
    assert await look(HARMONY, Closing(1, hmyv2_blockNumber=123)) == Look(Sighting(123), 0.5)
    down = Failure(FailureKind.CONNECT, "connection refused")
    assert await look(HARMONY, Closing(1, hmyv2_blockNumber=down)) == Unseen("connection refused")
    assert await look(HARMONY, Closing(9, hmyv2_blockNumber=123)) == Unseen("the node had closed a connection")


async def test_a_node_without_the_tag_or_the_old_block_still_tells_its_head() -> None:
    node = Node(**{"eth_getBlockByNumber latest": block(100)})
    assert await look(ETHEREUM, node, again=98, deep=True) == Look(Sighting(100, "a100", "a99"), 0.5)
    assert await look(ETHEREUM, node, deep=True) == Look(Sighting(100, "a100", "a99"), 0.5)


@pytest.mark.parametrize(
    "result",
    ["latest", "", True, -5, {"number": 5}, "0xzz", "0x-5", "1_000", " 5", "+5", 2**64, hex(2**64), str(2**53)],
)
async def test_what_is_no_block_number_is_no_head(result: object) -> None:
    assert await look(HARMONY, Node(hmyv2_blockNumber=result)) == Unseen("what it tells as its head is no block number")


@pytest.mark.parametrize(
    "result",
    [
        "0x5",
        {"number": "0x5"},
        {"number": "-1", "hash": "a", "parentHash": "b"},
        {"number": hex(2**64), "hash": "a", "parentHash": "b"},
    ],
)
async def test_what_is_no_block_is_no_head(result: object) -> None:
    node = Node(**{"eth_getBlockByNumber latest": result})
    assert await look(ETHEREUM, node, deep=True) == Unseen("what it tells as its head is no block number")


async def test_an_error_and_a_failure_are_told_in_words() -> None:
    assert await look(HARMONY, Node()) == Unseen("it answers its head with an error: the method does not exist")
    forging = Node(hmyv2_blockNumber=Failing(b'{"code":1,"message":"\\u001b[2J a\\nb"}'))
    assert await look(HARMONY, forging) == Unseen(r"it answers its head with an error: \x1b[2J a\nb")
    down = Node(hmyv2_blockNumber=Failure(FailureKind.CONNECT, "no connection to http://h"))
    assert await look(HARMONY, down) == Unseen("no connection to http://h")


async def test_claims_are_read_in_every_spelling() -> None:
    node = Node(eth_chainId="0x6357d2e0", hmyv2_chainId=2, hmyv2_getShardID=0, hmyv2_getEpoch=12)
    assert await Questions(HARMONY, 1.0).claims(node) == Claims(1666700000, 2, 0, 12)
    assert await Questions(ETHEREUM, 1.0).claims(Node(eth_chainId="0x1", net_version="1")) == Claims(1, 1)


async def test_a_question_answered_with_an_error_leaves_that_claim_open() -> None:
    assert await Questions(HARMONY, 1.0).claims(Node(hmyv2_getShardID=1)) == Claims(shard=1)


async def test_blocks_0_and_1_are_told_by_their_hashes_alone_and_no_node_is_worse_for_keeping_one_to_itself() -> None:
    hashed, other = "0x" + "Ab" * 32, "0x" + "cd" * 32
    for identity, method, at in (
        (HARMONY, "hmyv2_getHeaderByNumber", "blockHash"),
        (ETHEREUM, "eth_getBlockByNumber", "hash"),
    ):
        for said, told in (
            ({at: hashed}, hashed.lower()),
            ({at: "0x1"}, None),
            ({}, None),
            (Failing(b'{"code":-32000,"message":"requested block number greater than current block number"}'), None),
            (Failure(FailureKind.UNAUTHORIZED, "archive data are for paying customers"), None),
        ):
            zero, one = ("0x0", "0x1") if identity is ETHEREUM else (0, 1)
            node = Node(eth_chainId="0x1", **{f"{method} {zero}": said, f"{method} {one}": {at: other}})
            assert await Questions(identity, 1.0).claims(node) == Claims(1, genesis=told, block_one=other)
            node = Node(eth_chainId="0x1", **{f"{method} {zero}": {at: other}, f"{method} {one}": said})
            assert await Questions(identity, 1.0).claims(node) == Claims(1, genesis=other, block_one=told)


async def test_a_question_without_an_answer_leaves_all_claims_open() -> None:
    node = Node(eth_chainId=Failure(FailureKind.TIMEOUT, "no answer"), hmyv2_getShardID=1)
    assert await Questions(HARMONY, 1.0).claims(node) is None


async def test_what_a_node_says_it_is_is_one_question_in_our_words() -> None:
    node = Node(hmyv2_getNodeMetadata={"role": "ExplorerNode", "is-archival": False})
    claims = await Questions(HARMONY, 1.0).claims(node)
    assert claims == Claims(says={"explorer": True, "archive": False})
    assert node.asked.count(("hmyv2_getNodeMetadata", [])) == 1
    validator = await Questions(HARMONY, 1.0).claims(Node(hmyv2_getNodeMetadata={"role": "Validator"}))
    assert validator == Claims(says={"explorer": False})


@pytest.mark.parametrize("said", [None, [], {"role": 7, "is-archival": "yes"}, Failure(FailureKind.TIMEOUT, "late")])
async def test_a_node_that_does_not_say_what_it_is_still_says_what_it_serves(said: Any) -> None:
    assert await Questions(HARMONY, 1.0).claims(Node(hmyv2_getShardID=1, hmyv2_getNodeMetadata=said)) == Claims(shard=1)


async def test_what_is_too_long_for_a_claim_is_none() -> None:
    said = {"eth_chainId": "0x1", "web3_clientVersion": "Geth" + "." * MAX_TEXT}
    claims = await Questions(ETHEREUM, 1.0).claims(Node(**said))
    assert claims is not None
    assert (claims.eth_chain_id, claims.version) == (1, "")


async def test_a_fact_deeper_in_the_answer_is_found_by_its_path() -> None:
    identity = Identity(head=Probe("status", at="sync.head"), eth_chain_id=Probe("id"))
    assert await look(identity, Node(status={"sync": {"head": "0x10"}})) == Look(Sighting(16), 0.5)


async def test_the_hash_of_a_block_in_question_is_asked_too() -> None:
    node = Node(**{"eth_getBlockByNumber latest": block(100), "eth_getBlockByNumber 0x61": block(97)})
    got = await Questions(ETHEREUM, 1.0).look(node, again=None, hashes=True, tags=False, question=97)
    assert isinstance(got, Look)
    assert (got.old_hash, got.other_hash) == (None, "a97")


async def test_a_closed_door_is_told_from_a_node_that_is_down() -> None:
    for kind, barred in (
        (FailureKind.UNAUTHORIZED, True),
        (FailureKind.MISCONFIGURED, True),
        (FailureKind.CONNECT, False),
    ):
        assert await look(HARMONY, Node(hmyv2_blockNumber=Failure(kind, "why"))) == Unseen("why", barred)
