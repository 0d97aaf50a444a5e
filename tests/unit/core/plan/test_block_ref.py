"""Block references, by the edges that a real Harmony node was seen to draw."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.plan import block_ref
from rpcaccel.core.plan.block_ref import EARLIEST, LATEST_BLOCK, OPAQUE, PENDING, BlockRef, RefKind
from rpcaccel.core.plan.rules import Spelling
from rpcaccel.core.wire.json_params import Number

HARMONY = frozenset({"latest", "earliest", "pending"})
ETHEREUM = HARMONY | {"finalized", "safe"}
HASH = "0x" + "aB" * 32
N26 = BlockRef(RefKind.NUMBER, 26)


@pytest.mark.parametrize(
    ("value", "spelling", "expected"),
    [
        (Number("26"), Spelling.HARMONY_NUMBER, N26),
        ("26", Spelling.HARMONY_NUMBER, N26),
        ("0x1a", Spelling.HARMONY_NUMBER, N26),
        ("0x1A", Spelling.HARMONY_NUMBER, N26),
        (Number("-1"), Spelling.HARMONY_NUMBER, LATEST_BLOCK),
        (Number("-2"), Spelling.HARMONY_NUMBER, PENDING),
        ("earliest", Spelling.HARMONY_NUMBER, EARLIEST),
        ("0x0", Spelling.HARMONY_NUMBER, EARLIEST),
        ("0x0026", Spelling.HARMONY_NUMBER, OPAQUE),
        ("0x01a", Spelling.HARMONY_NUMBER, OPAQUE),
        ("1a", Spelling.HARMONY_NUMBER, OPAQUE),
        ("", Spelling.HARMONY_NUMBER, OPAQUE),
        ("0x", Spelling.HARMONY_NUMBER, OPAQUE),
        ("LATEST_BLOCK", Spelling.HARMONY_NUMBER, OPAQUE),
        ("finalized", Spelling.HARMONY_NUMBER, OPAQUE),
        (Number("26.0"), Spelling.HARMONY_NUMBER, OPAQUE),
        (Number("-3"), Spelling.HARMONY_NUMBER, OPAQUE),
        (Number("9223372036854775808"), Spelling.HARMONY_NUMBER, OPAQUE),
        (None, Spelling.HARMONY_NUMBER, OPAQUE),
        (True, Spelling.HARMONY_NUMBER, OPAQUE),
        (HASH, Spelling.HARMONY_NUMBER, OPAQUE),
        (Number("26"), Spelling.HARMONY_NUMBER_OR_HASH, N26),
        ("26", Spelling.HARMONY_NUMBER_OR_HASH, OPAQUE),
        ("0x1a", Spelling.HARMONY_NUMBER_OR_HASH, N26),
        (HASH, Spelling.HARMONY_NUMBER_OR_HASH, BlockRef(RefKind.HASH, hash=HASH.lower())),
        ({"blockNumber": "0x1a"}, Spelling.HARMONY_NUMBER_OR_HASH, N26),
        ({"blockHash": HASH}, Spelling.HARMONY_NUMBER_OR_HASH, BlockRef(RefKind.HASH, hash=HASH.lower())),
        ({"blockNumber": "0x1a", "blockHash": HASH}, Spelling.HARMONY_NUMBER_OR_HASH, OPAQUE),
        ({"blockHash": "0x12"}, Spelling.HEX_TAG_OR_HASH, OPAQUE),
        ({"BlockNumber": "0x1a"}, Spelling.HEX_TAG_OR_HASH, OPAQUE),
        ({}, Spelling.HEX_TAG_OR_HASH, OPAQUE),
        ({"blockNumber": "0x1a"}, Spelling.HEX_OR_TAG, OPAQUE),
        (Number("26"), Spelling.HEX_OR_TAG, OPAQUE),
        ("26", Spelling.HEX_OR_TAG, OPAQUE),
        ("0x1a", Spelling.HEX_OR_TAG, N26),
        (HASH, Spelling.HEX_OR_TAG, OPAQUE),
    ],
)
def test_a_reference_is_read_as_the_node_reads_it(value: Any, spelling: Spelling, expected: BlockRef) -> None:
    assert block_ref.read(value, spelling, HARMONY) == expected


def test_tags_are_those_of_the_chain() -> None:
    assert block_ref.read("finalized", Spelling.HEX_OR_TAG, ETHEREUM).kind is RefKind.FINALIZED
    assert block_ref.read("safe", Spelling.HEX_OR_TAG, ETHEREUM).kind is RefKind.SAFE
    assert block_ref.read("finalized", Spelling.HEX_OR_TAG, HARMONY) == OPAQUE


def test_require_canonical_is_remembered_and_must_be_a_boolean() -> None:
    asked = {"blockHash": HASH, "requireCanonical": True}
    assert block_ref.read(asked, Spelling.HEX_TAG_OR_HASH, ETHEREUM).canonical_only
    assert block_ref.read(asked | {"requireCanonical": "yes"}, Spelling.HEX_TAG_OR_HASH, ETHEREUM) == OPAQUE


@given(st.integers(0, block_ref.MAX_BLOCK), st.sampled_from(Spelling))
def test_the_hex_spelling_of_a_number_is_read_back_everywhere(number: int, spelling: Spelling) -> None:
    assert block_ref.read(block_ref.as_hex(number), spelling, HARMONY) == BlockRef(RefKind.NUMBER, number)


@given(st.text(max_size=70), st.sampled_from(Spelling))
def test_no_text_makes_the_reader_raise(text: str, spelling: Spelling) -> None:
    assert isinstance(block_ref.read(text, spelling, ETHEREUM), BlockRef)
