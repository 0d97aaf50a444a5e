"""How many blocks a node would take at once, by its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.replies.range_limit import is_of_blocks, stated_limit, suggested_length

STATED = [
    (100, "range 399 exceeds limit of 100"),
    (
        500,
        "You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this "
        "block range should work: [0x1388, 0x13eb]",
    ),
    (
        10,
        "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range. Based "
        "on your parameters, this block range should work: [0x1388, 0x1391].",
    ),
    (
        2000,
        "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and "
        "no limit on the response size, or you can request any block range with a cap of 10K logs in "
        "the response.",
    ),
    (None, "Requested range exceeds maximum RPC range limit"),
    (None, "Too many logs requested. Max logs per response is 20000."),
    (None, "query returns too many logs, narrow your filter: 20000"),
    (1000, "query block range exceeds server limit, narrow your filter: 1000"),
    (100000, "query exceeds max block range 100000"),
    (None, "query exceeds max results 20000, retry with the range 100-200"),
    (10000, "ranges over 10000 blocks are not supported on freetier"),
    (10000, "eth_getLogs is limited to a 10,000 range"),
    (5, "eth_getLogs and eth_newFilter are limited to a 5 blocks range, upgrade from free trial"),
    (800, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800"),
    (50000, "limit exceeded: block range should not be larger than 50000"),
    (2000, "maximum [from, to] blocks distance: 2000"),
    (2000, "block range too large (3000), maximum allowed is 2000 blocks"),
    (500, "too wide blocks range, the limit is 500"),
    (2048, "requested too many blocks from 1 to 5000, maximum is set to 2048"),
    (100, "block count 5000 over limit 100 for a range"),
    (1024, "logs are limited to 1024 block range"),
    (500, "limit of 500 blocks per request exceeded"),
    (500, "your request of 5000 blocks exceeds 500 blocks limit"),
    (3000, "Only up to 3000 blocks can be queried at once"),
    (10000, "Your request spans more than 10000 blocks"),
    (2, "block range is too wide: at most 2 blocks"),
    (1000, "eth_getLogs with range > 1000 blocks is not supported"),
    (10000, "The scan range is capped at 10k blocks"),
    (10000, "the difference between fromBlock and toBlock exceeds 10000 in this range"),
    (None, "query returned more than 10000 results. Try with this block range [0x1388, 0x13EB]."),
    (None, "block range too large: response exceeds 150 MB"),
    (None, "range too large: took more than 10 seconds"),
    (5000, "5000 blocks max for a range"),
]


@pytest.mark.parametrize(("limit", "text"), STATED)
def test_the_limit_of_blocks_is_read_and_no_other_number(limit: int | None, text: str) -> None:
    assert stated_limit(text) == limit
    assert stated_limit(text.upper()) == limit


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (100, "up to a 500 block range. Based on your parameters, this block range should work: [0x1388, 0x13eb]"),
        (500, "up to a 500 block range. You asked for [0x0, 0xffffff]"),
        (500, "up to a 500 block range. This should work: [0x5, 0x1]"),
        (101, "query exceeds max results 20000, retry with the range 100-200"),
        (100, "query returned more than 10000 results. Try with this block range [0x1388, 0x13EB]."),
        (None, "query returned more than 10000 results"),
        (None, "block range must not exceed 5000 blocks"),
    ],
)
def test_a_range_that_would_work_comes_before_a_limit_and_both_must_be_shorter(length: int | None, text: str) -> None:
    assert suggested_length(text, 2000) == length


def test_a_refusal_of_so_many_blocks_is_told_from_one_of_what_they_hold() -> None:
    assert is_of_blocks("Requested range exceeds maximum RPC range limit")
    assert is_of_blocks("eth_getLogs: block span too wide")
    assert not is_of_blocks("Too many logs requested. Max logs per response is 20000.")
    assert not is_of_blocks("Log response size exceeded: narrow the range")
    assert not is_of_blocks("limit exceeded")


@given(st.text("range blocks limit max 0123456789,.[]-x", max_size=900), st.integers(1, 10**6))
def test_no_text_is_too_strange(text: str, refused: int) -> None:
    assert (stated_limit(text) or 1) > 0
    assert 0 < (suggested_length(text, refused) or 1) <= refused
