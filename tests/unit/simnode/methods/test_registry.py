from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from rpcaccel.simnode.methods.arguments import (
    FINALIZED,
    LATEST,
    BlockHash,
    UnreadableArgument,
    anything,
    block_hash,
    call_object,
    hex_or_tag,
    number,
    number_or_hash,
    optional_number_or_hash,
    string,
    uint,
)
from rpcaccel.simnode.methods.registry import ETHEREUM, HARMONY, Method, Reader, RpcError, register, text
from rpcaccel.simnode.server.sim_server import SimNode

METHOD = Method(lambda asked: b"", "v1", (number, string), 1)  # noqa: ARG005


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (b"[]", "missing value for required argument 0"),
        (b"", "missing value for required argument 0"),
        (b"null", "missing value for required argument 0"),
        (b"{}", "non-array args"),
        (b'"x"', "non-array args"),
        (b'[1,"a",2]', "too many arguments, want at most 2"),
        (b"[1,2]", "invalid argument 1: json: cannot unmarshal number into Go value of type string"),
        (b'["zz","a","b"]', 'invalid argument 0: strconv.ParseInt: parsing "zz": invalid syntax'),
    ],
)
def test_arguments_are_refused_in_the_nodes_words(params: bytes, message: str) -> None:
    with pytest.raises(RpcError) as caught:
        METHOD.arguments(params)
    assert (caught.value.code, caught.value.message) == (-32602, message)


def test_arguments_are_read_by_their_readers() -> None:
    assert METHOD.arguments(b' ["0x1a", "b"] ') == [26, "b"]
    assert METHOD.arguments(b"[26]") == [26]
    readers = Method(lambda asked: b"", "v1", (anything, uint, call_object), 3)  # noqa: ARG005
    assert readers.arguments(b'[{"a":1},"0x5",null]') == [{"a": 1}, 5, {}]
    assert readers.arguments(b'[null,"5",{"to":1}]') == [None, 5, {"to": 1}]
    for params in (b"[1,1.5,{}]", b'[1,"x",{}]', b"[1,true,{}]", b"[1,1,[]]"):
        with pytest.raises(RpcError):
            readers.arguments(params)


def test_a_function_is_served_under_each_name_in_each_namespace() -> None:
    methods: dict[str, Method] = {}
    register(methods, "one two", spaces={"a": "v1", "b": "v2"})(lambda asked: b"1")  # noqa: ARG005
    assert sorted(methods) == ["a_one", "a_two", "b_one", "b_two"]
    assert methods["b_two"].version == "v2"


def test_an_error_has_data_only_when_there_is_some() -> None:
    assert RpcError("no", 3).encode() == b'{"code":3,"message":"no"}'
    assert RpcError("no", 3, "0x").encode() == b'{"code":3,"message":"no","data":"0x"}'
    assert text({"big": 10**28}) == b'{"big":10000000000000000000000000000}'


SEED = (
    "hmyv2_blockNumber hmyv2_getBlockSigners hmyv2_getBlocks hmyv2_getBalanceByBlockNumber "
    "hmyv2_getValidatorInformation hmyv2_call net_peerCount hmyv2_getNodeMetadata "
    "hmyv2_getCurrentTransactionErrorSink hmyv2_getCurrentUtilityMetrics"
)


def test_a_harmony_node_serves_what_the_real_one_registers() -> None:
    assert len(HARMONY) > 280
    assert set(SEED.split()) <= set(HARMONY)
    for absent in ("eth_feeHistory", "web3_sha3", "hmyv2_getLogs", "hmyv2_newFilter", "eth_maxPriorityFeePerGas"):
        assert absent not in HARMONY
    assert "eth_feeHistory" in ETHEREUM
    assert "eth_getBlockSigners" in HARMONY
    assert "eth_getBlockSigners" not in ETHEREUM


@pytest.mark.parametrize("space", ["hmy", "hmyv2", "eth"])
async def test_every_method_without_arguments_answers_in_every_namespace(space: str, node: SimNode) -> None:
    names = [
        name
        for name, method in HARMONY.items()
        if not method.readers and name.startswith(space + "_") and not name.endswith("_subscribe")
    ]
    answers: dict[str, Any] = {name: await node.ask(name) for name in names}
    assert len(answers) > 25


async def test_numbers_are_bare_in_hmyv2_and_hex_elsewhere(node: SimNode) -> None:
    assert await node.ask("hmyv2_gasPrice") == 100_000_000_178
    assert await node.ask("hmy_gasPrice") == await node.ask("eth_gasPrice") == hex(100_000_000_178)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def geth(reader: Reader) -> Callable[[Raw], Any]:
    return lambda argument: reader(argument, True)


@given(st.integers(0, 2**62))
def test_all_spellings_of_a_number_are_one_block(height: int) -> None:
    for spelling in (height, str(height), hex(height), hex(height).upper().replace("0X", "0x")):
        assert number(raw(spelling)) == height
    assert number_or_hash(raw(height)) == number_or_hash(raw(hex(height))) == height
    assert hex_or_tag(hex(height)) == height


def test_leading_zeros_make_harmony_read_decimal() -> None:
    assert (number(raw("0x0026")), number(raw("0x26")), number(raw("0x0"))) == (26, 38, 0)


@pytest.mark.parametrize(
    ("reader", "value", "text"),
    [
        (number, "0xfffffffffffffffff", "value out of range"),
        (number, "1_0", "invalid syntax"),
        (number_or_hash, [1], "cannot unmarshal array"),
        (number_or_hash, 2**70, "cannot unmarshal number"),
        (number_or_hash, "0xzz", "invalid hex string"),
        (number_or_hash, "0x" + "f" * 17, "hex number > 64 bits"),
        (number_or_hash, "0x" + "f" * 16, "larger than int64"),
        (number_or_hash, {"blockHash": "0x" + "11" * 32, "blockNumber": "0x1"}, "cannot specify both"),
        (number_or_hash, {"blockHash": "0x11"}, "hex string has length 2, want 64 for common.Hash"),
        (block_hash, "", "empty hex string"),
        (block_hash, 5, "non-string"),
        (block_hash, "0x1", "odd length"),
        (block_hash, "0x" + "zz" * 32, "invalid hex string"),
        (geth(number), 26, "hex string without 0x prefix"),
        (geth(number), "final", "hex string without 0x prefix"),
        (geth(number_or_hash), 26, "cannot unmarshal number"),
        (geth(number_or_hash), True, "cannot unmarshal bool"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_nodes_words(reader: Callable[[Raw], Any], value: Any, text: str) -> None:
    with pytest.raises(UnreadableArgument, match=text):
        reader(raw(value))


def test_references_by_hash_and_by_object() -> None:
    sealed = "0x" + "11" * 32
    assert number_or_hash(raw(sealed)) == number_or_hash(raw({"blockHash": sealed})) == BlockHash(b"\x11" * 32)
    assert number_or_hash(raw({"blockNumber": "latest", "requireCanonical": True})) == LATEST
    assert number_or_hash(raw({})) is None
    assert geth(number_or_hash)(raw({"blockNumber": "finalized"})) == FINALIZED
    assert geth(number_or_hash)(raw("latest")) == LATEST
    assert geth(number_or_hash)(raw(None)) == optional_number_or_hash(raw(None)) == LATEST


def test_members_are_read_in_any_case_and_the_last_one_counts() -> None:
    assert number_or_hash(Raw(b'{"BLOCKNUMBER":"0x2","blockNumber":"0x1"}')) == 1
    assert number_or_hash(Raw(b'{"blockNumber":"0x1","BlockNumber":"0x2"}')) == 2
