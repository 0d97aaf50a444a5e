"""References inside the texts of a file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.toml_file import Expanded, expand

ENVIRON = {"KEY": "k3y", "EMPTY": "", "TRICKY": "${KEY}"}


def expanded(value: Any) -> tuple[Any, list[tuple[tuple[str | int, ...], str]]]:
    faults: list[tuple[tuple[str | int, ...], str]] = []
    return expand(value, ENVIRON, lambda path, expected: faults.append((path, expected))), faults


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("https://a/${KEY}", "https://a/k3y"),
        ("${KEY}${KEY}", "k3yk3y"),
        ("${MISSING:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("$${KEY}", "${KEY}"),
        ("pa$word", "pa$word"),
        ("100$", "100$"),
        ("${TRICKY}", "${KEY}"),
    ],
)
def test_references_become_values(text: str, made: str) -> None:
    assert expanded(text) == (made, [])


def test_a_missing_variable_is_named_with_its_place() -> None:
    _, faults = expanded({"nodes": [{"url": "${MISSING}"}, "${GONE}"]})
    assert faults == [
        (("nodes", 0, "url"), "the environment variable MISSING, which is not set"),
        (("nodes", 1), "the environment variable GONE, which is not set"),
    ]


@pytest.mark.parametrize("text", ["${", "${1X}", "${KEY", "${KEY-x}", "${}"])
def test_a_broken_reference_is_said_to_be_one(text: str) -> None:
    _, faults = expanded(text)
    assert faults == [((), "${NAME} or ${NAME:-default}; write $$ for a dollar")]


def test_what_was_expanded_remembers_how_it_was_written() -> None:
    made, _ = expanded("x${KEY}")
    assert isinstance(made, Expanded)
    assert made.written == "x${KEY}"


def test_keys_numbers_and_plain_texts_are_left_alone() -> None:
    value = {"${KEY}": [1, True, 2.5, "plain"]}
    assert expanded(value) == (value, [])


@given(
    st.recursive(st.text("${}:-AK") | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_any_document_is_expanded_or_its_faults_are_told(value: Any) -> None:
    expanded(value)
