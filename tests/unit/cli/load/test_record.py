"""Addresses that stand for others."""

from __future__ import annotations

import json

import pytest

from rpcaccel.cli.load.record import Pseudonyms
from rpcaccel.simnode.chain.addresses import parse, to_hex, to_one

ADDRESS = bytes.fromhex("7c41e0668b551f4f902cfaec05b5bdca68b124ce")
HIDDEN = Pseudonyms(b"salt")


def test_one_address_always_becomes_the_same_other_one_in_each_of_its_spellings() -> None:
    text = json.dumps([to_hex(ADDRESS), to_one(ADDRESS), to_hex(ADDRESS).upper().replace("0X", "0x"), "latest", 26])
    hexed, one, upper, *rest = json.loads(HIDDEN.params(text))
    assert hexed == upper == to_hex(parse(one))
    assert parse(one) != ADDRESS
    assert one.startswith("one1")
    assert rest == ["latest", 26]
    assert HIDDEN.params(text) == HIDDEN.params(text)
    assert Pseudonyms(b"other").params(text) != HIDDEN.params(text)


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
        f'["0X{ADDRESS.hex()}"]',
        f'["{ADDRESS.hex()}"]',
        f'["\\u0030x{ADDRESS.hex()}"]',
        f'["{to_one(ADDRESS).upper()}"]',
        f'["0X70a08231{"0" * 24}{ADDRESS.hex()}"]',
        f'["\\u0030x70a08231{"0" * 24}{ADDRESS.hex()}"]',
    ],
)
def test_an_address_is_hidden_however_some_reader_would_take_it(text: str) -> None:
    hidden = HIDDEN.params(text).lower()
    assert ADDRESS.hex() not in hidden
    assert to_one(ADDRESS) not in hidden
    assert len(json.loads(hidden)) == 1


def test_other_texts_keep_their_escapes() -> None:
    text = f'["a \\"word\\" \\u00e4 \\\\", "{to_hex(ADDRESS)}"]'
    assert HIDDEN.params(text).startswith('["a \\"word\\" \\u00e4 \\\\", "0x')


def test_addresses_in_calls_within_calldata_are_hidden_too() -> None:
    word = "0" * 24 + ADDRESS.hex()
    inner = f"70a08231{word}"  # balanceOf
    aggregate = f"252dba42{0x20:064x}{1:064x}{0x20:064x}{word}{0x40:064x}{len(inner) // 2:064x}{inner:0<128}"
    tagged = f"70a08231{word}c0ffee"
    twice = f"ac9650d8{0x20:064x}{1:064x}{0x20:064x}{len(aggregate) // 2:064x}{aggregate}{'0' * 56}"
    for data, times in ((aggregate, 2), (tagged, 1), (twice, 2)):
        hidden = HIDDEN.params(json.dumps([{"data": f"0x{data}"}]))
        other = json.loads(HIDDEN.params(json.dumps([to_hex(ADDRESS)])))[0][2:]
        assert hidden == json.dumps([{"data": f"0x{data.replace(ADDRESS.hex(), other)}"}])
        assert hidden.count(other) == times


def test_a_number_that_could_be_the_length_of_a_call_hides_no_address_behind_it() -> None:
    word = "0" * 24 + ADDRESS.hex()
    for first in (100, 36, 4):
        assert ADDRESS.hex() not in HIDDEN.params(f'["0x70a08231{first:064x}{word}{word}{"ab" * 32}{word}"]')
        assert ADDRESS.hex() not in HIDDEN.params(f'["0x70a08231{first:064x}{"ab" * 32}{word}{word}{word}"]')


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
    assert repr(HIDDEN) == "<Pseudonyms>"
