"""Sizes and durations: what people write is read exactly, and nothing else is."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.value_types import format_duration, format_size, parse_duration, parse_size

ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("256MB", 256_000_000),
        ("5 MiB", 5 << 20),
        ("1.5kB", 1500),
        ("8mb", 8_000_000),
        ("64Ki", 65536),
        (" 7 ", 7),
        (9, 9),
    ],
)
def test_a_size_is_bytes_with_decimal_and_binary_units(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1XB", "1e3", "1,5MB", True, 1.5, None, -1, 1 << 63, "9" * 41])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30ms", 0.03),
        ("10s", 10.0),
        ("2 m", 120.0),
        ("1h", 3600.0),
        ("500us", 0.0005),
        ("2.5", 2.5),
        (3, 3.0),
        (0.25, 0.25),
    ],
)
def test_a_duration_is_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1y", math.nan, math.inf, True, None, -0.1, 10**400, "1s1s"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=1 << 62))
def test_a_size_survives_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_written_forms_are_the_ones_people_use() -> None:
    assert [format_size(size) for size in (0, 1025, 256_000_000, 5 << 20)] == ["0B", "1025B", "256MB", "5MiB"]


@given(ANYTHING)
def test_anything_is_read_or_refused_and_nothing_else(value: object) -> None:
    for parse in (parse_size, parse_duration):
        with suppress(ValueError):
            assert parse(value) >= 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.03, "30ms"), (1.5, "1500ms"), (75, "75s"), (120, "2m"), (43_200, "12h"), (2_592_000, "30d")],
)
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**15))
def test_a_written_duration_is_read_as_it_was(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert parse_duration(format_duration(seconds)) == seconds
