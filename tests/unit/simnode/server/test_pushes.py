"""Subscribes and unsubscribes, accepted and refused as Harmony and geth do it."""

from __future__ import annotations

import json

import pytest

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.pushes import read_token, read_topic

BOTH = ("harmony", "ethereum")
TOPIC = "0x" + "33" * 32
UNREADABLE = "invalid argument 1: "
SHORT = "hex has invalid length 1 after decoding; expected"
TOPICS_FIELD = "Go struct field input.topics of type []interface {}"


def refused(kind: str, params: str, space: str = "eth") -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        read_topic(kind, space, params.encode())
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("", "non-array args"),
        ("null", "non-array args"),
        ('{"name":"newHeads"}', "non-array args"),
        ("[]", "expected subscription name as first argument"),
        ("[1]", "expected subscription name as first argument"),
        ('["foo"]', 'no "foo" subscription in eth namespace'),
        ('["NewHeads"]', 'no "NewHeads" subscription in eth namespace'),
        ('["newHeads",null]', "too many arguments, want at most 1"),
        ('["logs"]', "missing value for required argument 1"),
        ('["logs",{},{}]', "too many arguments, want at most 2"),
        ('["logs","x"]', f"{UNREADABLE}json: cannot unmarshal string into Go value of type filters.input"),
        ('["logs",{"address":"0x12"}]', f"{UNREADABLE}invalid address: {SHORT} 20 for address"),
        ('["logs",{"topics":[null,["0x12"]]}]', f"{UNREADABLE}invalid topic: {SHORT} 32 for topic"),
        ('["logs",{"address":["one155"]}]', f"{UNREADABLE}invalid address: hex string without 0x prefix"),
        ('["logs",{"address":"0xzz"}]', f"{UNREADABLE}invalid address: invalid hex string"),
        ('["logs",{"address":[7]}]', f"{UNREADABLE}invalid address"),
        ('["logs",{"address":7}]', f"{UNREADABLE}invalid address"),
        ('["logs",{"topics":7}]', f"{UNREADABLE}json: cannot unmarshal number into {TOPICS_FIELD}"),
    ],
)
def test_a_subscribe_is_refused_in_the_nodes_words(kind: str, params: str, message: str) -> None:
    assert refused(kind, params) == (-32601 if message.startswith("no ") else -32602, message)


def test_harmony_and_geth_differ() -> None:
    backwards, five = '["logs",{"fromBlock":"0x5","toBlock":"0x1"}]', json.dumps(["logs", {"topics": [TOPIC] * 5}])
    assert refused("harmony", backwards) == (-32000, "invalid from and to block combination: from > to")
    assert refused("ethereum", backwards) == (-32602, "invalid block range params")
    assert read_topic("harmony", "eth", five.encode()).kind == "logs"
    assert refused("ethereum", five) == (-32602, "invalid argument 1: exceed max topics")
    assert refused("harmony", '["syncing"]') == (-32601, 'no "syncing" subscription in eth namespace')
    assert read_topic("ethereum", "eth", b'["syncing"]').kind == "syncing"
    assert refused("harmony", '["newPendingTransactions",true]') == (-32602, "too many arguments, want at most 1")
    assert read_topic("ethereum", "eth", b'["newPendingTransactions",true]').full
    assert (
        "cannot unmarshal object into Go value of type bool" in refused("ethereum", '["newPendingTransactions",{}]')[1]
    )
    assert refused("ethereum", '["newHeads"]', "hmy") == (-32601, 'no "newHeads" subscription in hmy namespace')
    assert refused("harmony", '["newHeads"]', "hmyv2") == (-32601, 'no "newHeads" subscription in hmyv2 namespace')
    assert read_topic("harmony", "hmy", b'["newHeads"]').space == "hmy"


@pytest.mark.parametrize(
    "criteria",
    [
        "null",
        "{}",
        '{"address":null,"topics":null}',
        '{"address":[],"topics":[null,[]]}',
        json.dumps({"topics": [[TOPIC, TOPIC], None]}),
        '{"fromBlock":"0x1","toBlock":"latest"}',
        '{"foo":1}',
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_a_filter_is_read_leniently(kind: str, criteria: str) -> None:
    assert read_topic(kind, "eth", f'["logs",{criteria}]'.encode()).kind == "logs"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("[]", "missing value for required argument 0"),
        ("", "missing value for required argument 0"),
        ('["0x1","0x1"]', "too many arguments, want at most 1"),
        ("[1]", "invalid argument 0: json: cannot unmarshal number into Go value of type rpc.ID"),
        ("{}", "non-array args"),
    ],
)
def test_an_unsubscribe_is_refused_in_the_nodes_words(params: str, message: str) -> None:
    with pytest.raises(RpcError) as caught:
        read_token(params.encode())
    assert (caught.value.code, caught.value.message) == (-32602, message)
    assert read_token(b"[null]") == ""
