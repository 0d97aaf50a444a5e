"""How many blocks a node would take at once, by its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.replies.range_limit import is_of_blocks, stated_limit, suggested_length
from tests.support.provider_errors import rows_of

STATED = [(int(blocks) if blocks else None, text) for blocks, text in rows_of("range_limits.tsv")]
"""Refusals of ranges, and the blocks that the node would take at once."""


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
