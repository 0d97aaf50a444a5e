"""Addresses that stand for others."""

from __future__ import annotations

import json

import pytest

from rpcaccel.commands.hiding import Hidden
from rpcaccel.testing.address import parse, to_hex, to_one

ADDRESS = bytes.fromhex("7c41e0668b551f4f902cfaec05b5bdca68b124ce")
HIDDEN = Hidden(b"salt")


def test_one_address_always_becomes_the_same_other_one_in_each_of_its_spellings() -> None:
    text = json.dumps([to_hex(ADDRESS), to_one(ADDRESS), to_hex(ADDRESS).upper().replace("0X", "0x"), "latest", 26])
    hexed, one, upper, *rest = json.loads(HIDDEN.params(text))
    assert hexed == upper == to_hex(parse(one))
    assert parse(one) != ADDRESS
    assert one.startswith("one1")
    assert rest == ["latest", 26]
    assert HIDDEN.params(text) == HIDDEN.params(text)
    assert Hidden(b"other").params(text) != HIDDEN.params(text)


def test_addresses_in_the_words_of_calldata_and_of_topics_are_hidden_too() -> None:
    word = "0" * 24 + ADDRESS.hex()
    amount = f"{10**18:064x}"
    call, topic = json.loads(HIDDEN.params(json.dumps([{"data": f"0xa9059cbb{word}{amount}"}, f"0x{word}"])))
    other = json.loads(HIDDEN.params(json.dumps([to_hex(ADDRESS)])))[0][2:]
    assert call["data"] == f"0xa9059cbb{'0' * 24}{other}{amount}"
    assert topic == f"0x{'0' * 24}{other}"


@pytest.mark.parametrize(
    "text",
    [
        '["0x0000000000000000000000000000000000000001"]',
        f'["0x{"ab" * 32}"]',
        '["one1notanaddressatallnotanaddressatallnota"]',
        "[]",
    ],
)
def test_what_is_no_address_of_anybody_is_left_alone(text: str) -> None:
    assert HIDDEN.params(text) == text
    assert repr(HIDDEN) == "<hidden addresses>"
