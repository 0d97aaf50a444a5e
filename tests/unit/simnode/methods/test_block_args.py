from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from rpcaccel.simnode.methods.block_args import (
    FINALIZED,
    LATEST,
    BlockHash,
    UnreadableArgument,
    block_hash,
    geth_number,
    geth_number_or_hash,
    hex_or_tag,
    number,
    number_or_hash,
    optional_number_or_hash,
)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


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
        (geth_number, 26, "hex string without 0x prefix"),
        (geth_number, "final", "hex string without 0x prefix"),
        (geth_number_or_hash, 26, "cannot unmarshal number"),
        (geth_number_or_hash, True, "cannot unmarshal bool"),
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
    assert geth_number_or_hash(raw({"blockNumber": "finalized"})) == FINALIZED
    assert geth_number_or_hash(raw("latest")) == LATEST
    assert geth_number_or_hash(raw(None)) == optional_number_or_hash(raw(None)) == LATEST


def test_members_are_read_in_any_case_and_the_last_one_counts() -> None:
    assert number_or_hash(Raw(b'{"BLOCKNUMBER":"0x2","blockNumber":"0x1"}')) == 1
    assert number_or_hash(Raw(b'{"blockNumber":"0x1","BlockNumber":"0x2"}')) == 2
