"""What was sent lately: bounded in number and time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.core.heads.recent_writes import (
    MAX_WRITES,
    NONCE_REMEMBERED,
    WRITE_SECONDS,
    Recent,
    Sent,
    hash_named,
    hash_text,
)
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule

HASH = b'"0x' + b"ab" * 32 + b'"'


def sent(nodes: str = "a", *, name: bytes = HASH, client: bytes = b"") -> Sent:
    return Sent("net", name, tuple(nodes), client)


def lookup(asked: bytes, at: int | None = 0) -> Plan:
    rule = Rule(method="m", cache=CacheClass.FOREVER, names_transaction=at)
    return Plan(network="net", method="m", rule=rule, params=asked, asked=asked, cache=CacheClass.FOREVER)


def test_a_transaction_is_known_on_the_nodes_that_took_it_for_a_while() -> None:
    recent = Recent()
    recent.add(sent("a"), 0.0)
    recent.add(sent("b"), 1.0)
    assert recent.of_hash("net", HASH, 2.0) == ("a", "b")
    assert recent.of_hash("other", HASH, 2.0) == ()
    assert recent.of_hash("net", HASH, 1.0 + WRITE_SECONDS) == ()
    assert len(recent) == 0


def test_a_client_is_known_by_what_it_sent_last() -> None:
    recent = Recent()
    recent.add(sent("a", client=b"me"), 0.0)
    recent.add(sent("b", name=b"2", client=b"me"), 1.0)
    assert recent.of_client("net", b"me", 2.0) == ("b",)
    assert recent.of_client("net", b"", 2.0) == ()
    assert recent.of_client("net", b"me", 1.0 + NONCE_REMEMBERED) == ()


@settings(max_examples=10)
@given(st.lists(st.integers(0, 2 * MAX_WRITES), max_size=50))
def test_however_much_is_sent_the_newest_are_known_and_the_memory_is_bounded(numbers: list[int]) -> None:
    recent = Recent()
    for number in range(MAX_WRITES + 10):
        recent.add(sent(name=b"%d" % number, client=b"%d" % number), float(number) / MAX_WRITES)
    for number in numbers:
        recent.add(sent("z", name=b"%d" % number), 2.0)
    assert len(recent) <= MAX_WRITES
    assert all(recent.of_hash("net", b"%d" % number, 2.0) for number in numbers)
    assert repr(recent).startswith("<Recent")


@pytest.mark.parametrize("result", [b"null", b'"0x12"', b"[]", HASH[:-1], b'"' + b"a" * 66 + b'"', b" " + HASH])
def test_what_is_no_hash_names_no_transaction(result: bytes) -> None:
    assert hash_text(result) is None


def test_a_lookup_names_the_transaction_in_any_spelling() -> None:
    assert hash_named(lookup(b"[ " + HASH.upper().replace(b"0X", b"0x") + b" ]")) == HASH
    assert hash_named(lookup(b"[1," + HASH + b"]", at=1)) == HASH


@pytest.mark.parametrize("asked", [b"[]", b"{}", b"[1]", b"nonsense", b'["0x1"]'])
def test_a_lookup_without_a_hash_names_none(asked: bytes) -> None:
    assert hash_named(lookup(asked)) is None


def test_other_calls_name_none() -> None:
    assert hash_named(lookup(b"[" + HASH + b"]", at=None)) is None
