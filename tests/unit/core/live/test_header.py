"""What subscribers are sent of a block and of its logs, against frames that nodes sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.live.block import (
    LONGEST_HEADER,
    NotLogs,
    notification_opening,
    notification_rest,
    read_logs,
    removed,
)
from rpcaccel.core.live.header import HeaderForm, NotABlock, read_block, read_pushed
from tests.support.services import SUPPORT

RECORDED: dict[str, dict[str, Any]] = json.loads((SUPPORT / "facts" / "heads.json").read_text("utf-8"))
"""By chain: a block as it is fetched, what newHeads told of the same block, and logs."""


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


HARMONY, ETHEREUM = chains.load("harmony").header, chains.load("ethereum").header


def test_a_head_of_harmony_that_was_made_of_a_block_is_what_its_nodes_push() -> None:
    block, head = RECORDED["harmony"]["block"], RECORDED["harmony"]["newHeads"]
    full = {name: head[name] for name in ("miner", "viewID", "epoch", "shardID")} | {"hash": "0xother", "vdf": "0x"}
    found = read_block(text(block), HARMONY, extra=text(full))
    assert json.loads(found.header) == head == json.loads(read_pushed(text(head), HARMONY)[0].header)
    assert (found.number, found.hash, found.parent) == (int(head["number"], 16), head["hash"], head["parentHash"])


def test_a_head_of_geth_is_the_same_whether_it_was_pushed_or_made_of_a_block() -> None:
    head = RECORDED["ethereum"]["newHeads"]
    made = json.loads(read_block(text(RECORDED["ethereum"]["block"]), ETHEREUM).header)
    assert made == json.loads(read_pushed(text(head), ETHEREUM)[0].header)
    assert made == {name: value for name, value in head.items() if value is not None}


CONTENTS = {
    "transactions": ["0x1"],
    "uncles": [],
    "withdrawals": [],
    "size": "0x1",
    "totalDifficulty": "0x0",
    "l1BatchNumber": None,
    "l1BatchTimestamp": "0x7",
}
"""Members of a block that are no part of its header."""


@given(
    header=st.dictionaries(st.from_regex(r"[a-k][A-Za-z0-9]{0,12}", fullmatch=True), st.text() | st.integers()),
    nulls=st.sets(st.sampled_from(["requestsHash", "slotNumber", "blockGasCost"])),
    contents=st.sets(st.sampled_from(list(CONTENTS))),
    whole=st.booleans(),
)
def test_a_pushed_head_and_a_block_that_was_filled_in_have_the_same_members_whatever_the_chain_has(
    header: dict[str, Any], nulls: set[str], contents: set[str], whole: bool
) -> None:
    header |= {"number": "0x1", "hash": "0x1", "parentHash": "0x0", "extDataHash": "0x2", "sendRoot": "0x3"}
    more = {name: CONTENTS[name] for name in contents}
    pushed, names = read_pushed(text(header | dict.fromkeys(nulls) | (more if whole else {})), ETHEREUM)
    made = read_block(text(more | header | {"onlyInBlocks": "0x1"}), ETHEREUM, pushed=names)
    assert json.loads(pushed.header) == json.loads(made.header) == header
    assert json.loads(read_block(text(more | header), ETHEREUM).header) == header


@pytest.mark.parametrize(
    ("chain", "members"),
    [
        ("Avalanche", ("extDataHash", "extDataGasUsed", "blockGasCost", "timestampMilliseconds")),
        ("Arbitrum", ("l1BlockNumber", "sendRoot", "sendCount")),
        ("Polygon and BNB Chain", ("milliTimestamp", "mixHash", "validators")),
    ],
)
def test_members_that_only_one_chain_has_are_sent(chain: str, members: tuple[str, ...]) -> None:
    block = {"number": "0x1", "hash": "0x1", "parentHash": "0x0", **dict.fromkeys(members, "0x5"), "transactions": []}
    made = json.loads(read_block(text(block), ETHEREUM).header)
    assert made == {name: value for name, value in block.items() if name != "transactions"}, chain


def test_numbers_are_sent_as_the_node_wrote_them() -> None:
    said = b'{ "number":"0x1F", "hash":"0xAB","parentHash":"0xCd", "odd": 1.50 }'
    found = read_block(said, HeaderForm())
    assert found.header == b'{"number":"0x1F","hash":"0xAB","parentHash":"0xCd","odd":1.50}'
    assert (found.number, found.hash, found.parent) == (31, "0xab", "0xcd")


def test_a_pushed_header_that_has_what_a_header_has_is_sent_as_it_came() -> None:
    said = b'{ "number":"0x1F", "hash":"0xAB","parentHash":"0xCd", "odd": 1.50 }'
    assert read_pushed(said, ETHEREUM)[0].header == said


def test_a_pushed_header_that_is_too_long_is_none() -> None:
    with pytest.raises(NotABlock, match="more than 262144 bytes"):
        read_pushed(b'{"number":"0x1","hash":"0x1","parentHash":"0x0","x":"%b"}' % (b"0" * LONGEST_HEADER), ETHEREUM)


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
        read_block(said, HeaderForm())


def test_further_members_that_cannot_be_read_are_no_block_either() -> None:
    with pytest.raises(NotABlock, match="the further members of the block"):
        read_block(b'{"number":"0x1","hash":"0x1","parentHash":"0x0"}', HARMONY, extra=b"null")


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
    sent = notification_opening("eth", "0x9b8f28a81bfeefbec6a35e76555d95f6") + notification_rest(b'"0x12"')
    assert sent == (
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":'
        b'{"subscription":"0x9b8f28a81bfeefbec6a35e76555d95f6","result":"0x12"}}'
    )
