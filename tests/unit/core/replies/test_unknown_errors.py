"""Errors that no rule knew are collected, folded and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.replies.unknown_errors import LONGEST_MESSAGE, MAX_METHOD_CHARACTERS, UnclassedLog, together


def noted(*notes: tuple[str, float], node: str = "a", most: int = 200) -> UnclassedLog:
    found = UnclassedLog(most)
    for message, at in notes:
        found.note("s0", node, "eth_call", -32000, message, 200, at=at)
    return found


def test_errors_of_one_cause_are_one_line_with_the_latest_of_them() -> None:
    found = noted(("slot 17 is broken", 10.0), ("slot 18 is broken", 20.0), ("else", 15.0))
    slot, other = together([found.all()])
    assert (slot.text, slot.count, slot.first_seen, slot.last_seen) == ("slot # is broken", 2, 10.0, 20.0)
    assert (slot.nodes, slot.method, slot.message, slot.code) == ({"a": 2}, "eth_call", "slot 18 is broken", -32000)
    assert other.count == 1


def test_neither_a_node_nor_a_client_writes_a_line_or_a_command_of_its_own() -> None:
    found = UnclassedLog()
    found.note("s0", "a", "x\n\x1b[31m", -32000, "lost\r\n[error] forged \x1b[2J \u202etac", 200, at=1.0)
    (error,) = found.all()
    assert (error.text + error.method + error.message).isprintable()
    assert (error.method, error.message) == (r"x\n\x1b[31m", r"lost\r\n[error] forged \x1b[2J \u202etac")


def test_the_one_not_seen_for_longest_is_forgotten() -> None:
    found = noted(("a", 1.0), ("b", 2.0), ("a", 3.0), ("c", 4.0), most=2)
    assert {error.text for error in found.all()} == {"a", "c"}
    assert (len(found), found.forgotten) == (2, 1)
    assert repr(found) == "<unclassed 2 errors, 1 forgotten>"


def test_several_workers_are_added_up() -> None:
    one, other = noted(("x 1", 1.0), ("x 2", 5.0), node="a"), noted(("x 3", 3.0), node="b")
    (both,) = together([one.all(), other.all()])
    assert (both.count, both.first_seen, both.last_seen, both.message) == (3, 1.0, 5.0, "x 2")
    assert both.nodes == {"a": 2, "b": 1}


def test_what_a_new_rule_knows_goes() -> None:
    found = noted(("a", 1.0), ("b", 2.0))
    found.keep(lambda error: error.text != "a")
    assert [error.text for error in found.all()] == ["b"]


def test_networks_and_codes_are_told_apart() -> None:
    found = UnclassedLog()
    for network, code in (("s0", 1), ("s1", 1), ("s0", 2)):
        found.note(network, "n", "m", code, "text", 200, at=1.0)
    assert len(together([found.all()])) == 3


@given(st.text(), st.text())
def test_what_is_kept_of_one_error_is_bounded(method: str, message: str) -> None:
    found = UnclassedLog()
    found.note("s0", "n", method * 50, 1, message * 50, 200, at=1.0)
    (error,) = found.all()
    assert len(error.method) <= MAX_METHOD_CHARACTERS
    assert len(error.message) <= LONGEST_MESSAGE
    assert error.text == fold(message * 50)
