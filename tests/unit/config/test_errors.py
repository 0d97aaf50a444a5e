"""How faults are written."""

from __future__ import annotations

import pytest

from rpcaccel.config.errors import NOT_SHOWN, ConfigError, Fault, annotation_at, dotted, known_keys, shown, source_of
from rpcaccel.config.model import NetworkSettings, Settings
from rpcaccel.config.secrets import HeaderText, NodeUrl
from rpcaccel.config.toml_file import Expanded


def test_a_path_is_written_as_in_the_file() -> None:
    assert dotted(("networks", "harmony-s0", "nodes", 1, "weight")) == "networks.harmony-s0.nodes[1].weight"
    assert dotted(("networks", "a.b")) == 'networks."a.b"'
    assert dotted(()) == ""


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        (True, (), "true"),
        (None, (), "nothing"),
        (3, (), "3"),
        ({}, (), "a table"),
        ([], (), "an empty list"),
        (("x",), (), "a list"),
        ("x" * 99, (), f'"{"x" * 60}…"'),
        ("ftp://u:p@host/key", (), "ftp://host"),
        ("://", (), NOT_SHOWN),
        ("pw", ("redis", "url"), NOT_SHOWN),
        (7, ("nodes", 0, "headers", "X"), NOT_SHOWN),
        ("", ("redis", "url"), '""'),
        (NodeUrl("http://u:p@a/k"), (), "http://a"),
        (HeaderText(""), (), NOT_SHOWN),
        (Expanded("hunter2", "${KEY}"), (), '"${KEY}"'),
    ],
)
def test_a_value_is_shown_as_far_as_it_may_be(value: object, path: tuple[str | int, ...], text: str) -> None:
    assert shown(value, path) == text


def test_a_fault_reads_as_a_sentence() -> None:
    assert str(Fault("a", "1", "2", "from --a")) == "a: found 1, expected 2 (from --a)"
    assert str(Fault("a", "", "unknown key")) == "a: unknown key"
    assert str(Fault("", "", "this")) == "this"
    assert str(ConfigError([Fault("a", "", "x"), Fault("b", "", "y")])) == "a: x\nb: y"


def test_keys_and_types_are_found_by_path() -> None:
    assert "balancer" in known_keys(Settings, ("networks", "any"))
    assert "weight" in known_keys(Settings, ("networks", "any", "nodes", 3))
    assert known_keys(Settings, ("listen",)) == known_keys(Settings, ("no", "such", "path")) == []
    assert annotation_at(Settings, ("networks", "any")) is NetworkSettings


def test_the_nearest_one_who_set_it_is_named() -> None:
    sources = {("a",): "all", ("a", "b", 0): "one"}
    assert source_of(("a", "b", 0, "c"), sources) == "one"
    assert source_of(("a", "b", 1), sources) == "all"
    assert source_of(("x",), sources) == ""
