"""Foreign texts on their way to a log or a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.wire.printable import printable


@pytest.mark.parametrize("text", ["", "a plain text", "größer € 日本 😀", "back\\slash"])
def test_what_is_printed_as_itself_stays(text: str) -> None:
    assert printable(text) is text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\r", "one\\ntwo\\r"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x9b2J\x85\x7f\0", "\\x9b2J\\x85\\x7f\\x00"),
        ("abc\u202edcba\u2066\u200f", "abc\\u202edcba\\u2066\\u200f"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\ud800\U000e0041\ufeff", "\\ud800\\U000e0041\\ufeff"),
    ],
)
def test_controls_separators_and_signs_of_direction_are_spelt_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_what_comes_out_is_one_printable_line_that_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown
    shown.encode()
