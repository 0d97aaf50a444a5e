"""What subscribers are sent of a block and of its logs, against frames that nodes sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpcaccel import chains
from rpcaccel.core.live import notification
from rpcaccel.core.live.block_logs import NotLogs, read_logs, removed
from rpcaccel.core.live.header import NotABlock, read_block
from tests.support.services import SUPPORT

RECORDED: dict[str, dict[str, Any]] = json.loads((SUPPORT / "facts" / "heads.json").read_text("utf-8"))
"""By chain: a block as it is fetched, what newHeads told of the same block, and logs."""


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_a_head_of_harmony_has_its_members_in_order_and_miner_and_uncles_of_the_block() -> None:
    block, head = RECORDED["harmony"]["block"], RECORDED["harmony"]["newHeads"]
    table = chains.load("harmony").live
    extra = text({"viewID": head["viewID"], "epoch": head["epoch"], "hash": "0xother"})
    found = read_block(text(block), table.header, extra=extra, shard_member=table.shard_member, shard=0)
    wanted = {**head, "miner": block["miner"], "sha3Uncles": block["sha3Uncles"]}
    assert found.header == text(wanted)
    assert (found.number, found.hash, found.parent) == (int(head["number"], 16), head["hash"], head["parentHash"])


def test_a_head_of_geth_lacks_only_what_the_block_lacks() -> None:
    head = RECORDED["ethereum"]["newHeads"]
    found = read_block(text(RECORDED["ethereum"]["block"]), chains.load("ethereum").live.header)
    assert found.header == text({name: value for name, value in head.items() if value is not None})


def test_without_an_order_the_whole_block_is_sent_as_it_came() -> None:
    said = b'{ "number":"0x1F", "hash":"0xAB","parentHash":"0xCd", "odd": 1.50 }'
    found = read_block(said, ())
    assert found.header == said
    assert (found.number, found.hash, found.parent) == (31, "0xab", "0xcd")


@pytest.mark.parametrize(
    "said",
    [
        b"null",
        b"[]",
        b'{"number":"0x1"',
        b'{"number":null,"hash":"0x1","parentHash":"0x0"}',
        b'{"hash":"0x1","parentHash":"0x0"}',
        b'{"number":"0xg","hash":"0x1","parentHash":"0x0"}',
        b'{"number":"0x1","parentHash":"0x0"}',
        b'{"number":"0x1","hash":"0x1","parentHash":7}',
    ],
)
def test_what_is_no_block_is_said_to_be_none(said: bytes) -> None:
    with pytest.raises(NotABlock, match="the block: expected a"):
        read_block(said, ())


def test_further_members_that_cannot_be_read_are_no_block_either() -> None:
    with pytest.raises(NotABlock, match="the further members of the block"):
        read_block(b'{"number":"0x1","hash":"0x1","parentHash":"0x0"}', ("number",), extra=b"null")


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_logs_stay_as_the_node_sent_them(chain: str) -> None:
    sent = RECORDED[chain]["getLogs"]
    found = read_logs(text(sent))
    assert [one.text for one in found] == [text(one) for one in sent]
    assert [(one.address, list(one.topics)) for one in found] == [(one["address"], one["topics"]) for one in sent]


def test_a_removed_log_differs_in_one_member() -> None:
    sent = RECORDED["ethereum"]["getLogs"][0]
    assert removed(text(sent)) == text({**sent, "removed": True})
    del sent["removed"]
    assert removed(text(sent)) == text({**sent, "removed": True})


def test_a_false_block_hash_gives_way_to_the_true_one_and_nothing_else_does() -> None:
    sent, true = RECORDED["harmony"]["getLogs"], "0x" + "12" * 32
    found = read_logs(text(sent), true)
    assert [one.text for one in found] == [text({**one, "blockHash": true}) for one in sent]
    same = read_logs(text(sent), sent[0]["blockHash"])
    assert [one.text for one in same] == [text(one) for one in sent]


def test_logs_are_compared_in_lower_case() -> None:
    (found,) = read_logs(b'[{"address":"0xAB","topics":["0xCD"]}]')
    assert (found.address, found.topics) == ("0xab", ("0xcd",))


@pytest.mark.parametrize(
    "said", [b"null", b"{}", b"[1]", b'[{"topics":[]}]', b'[{"address":"0x1","topics":[1]}]', b"["]
)
def test_what_are_no_logs_is_said_to_be_none(said: bytes) -> None:
    with pytest.raises(NotLogs, match="expected an array of logs"):
        read_logs(said)


def test_a_notification_is_the_bytes_that_nodes_send() -> None:
    sent = notification.opening("eth", "0x9b8f28a81bfeefbec6a35e76555d95f6") + notification.rest(b'"0x12"')
    assert sent == (
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":'
        b'{"subscription":"0x9b8f28a81bfeefbec6a35e76555d95f6","result":"0x12"}}'
    )
