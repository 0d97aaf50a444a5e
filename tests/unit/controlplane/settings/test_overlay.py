"""Changes made at run time over a config file that has moved on."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.config.errors import ConfigError
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.overlay import Told, lay, newest, told_of

BASE = Settings.model_validate({"networks": {"x": {"nodes": ["http://a", "http://b"]}}})


def over(networks: Any) -> Any:
    return {"networks": networks}


def test_changes_lie_over_the_file() -> None:
    laid = lay(BASE, {**over({"x": {"nodes": {"a": {"weight": 9}, "c": {"url": "http://c"}}}}), "workers": 3})
    assert [(node.id, node.weight) for node in laid.settings.networks["x"].nodes] == [("a", 9), ("b", 1), ("c", 1)]
    assert (laid.settings.workers, laid.left_out) == (3, ())


def test_a_change_of_a_node_that_left_the_file_is_left_out_and_said() -> None:
    laid = lay(BASE, over({"x": {"nodes": {"gone": {"weight": 9}, "a": {"weight": 2}}}}))
    assert [(node.id, node.weight) for node in laid.settings.networks["x"].nodes] == [("a", 2), ("b", 1)]
    assert laid.left_out == ("what was changed of node gone of x is left out: it is no longer there",)


def test_a_change_of_a_network_that_left_the_file_is_left_out_and_one_that_stands_alone_is_not() -> None:
    laid = lay(BASE, over({"gone": {"attempts": 2}, "y": {"nodes": {"n": {"url": "http://n"}}}, "none": None}))
    assert list(laid.settings.networks) == ["x", "y"]
    assert laid.left_out == ("what was changed of network gone is left out: it is no longer there",)


@pytest.mark.parametrize("change", [{"x": None}, {"x": {"attempts": 2}}, {}])
def test_over_no_network_other_changes_hold_and_none_may_be_left(change: Any) -> None:
    base = BASE.model_copy(update={"networks": {}})
    settings = lay(base, {**over(change), "workers": 3}).settings
    assert (settings.networks, settings.workers) == ({}, 3)
    with pytest.raises(ConfigError, match="at least one network"):
        lay(BASE, over({"x": None}))


@pytest.mark.parametrize("value", ["auto", "manual"])
def test_a_setting_of_an_older_version_is_left_out_and_said(value: str) -> None:
    laid = lay(BASE, over({"x": {"weights": value, "attempts": 2}}))
    assert laid.settings.networks["x"].attempts == 2
    assert laid.left_out == ("networks.x.weights is left out: it is no longer a setting",)


@pytest.mark.parametrize("value", [True, False])
def test_a_switch_that_an_older_version_called_prove_is_read_as_examine(value: bool) -> None:
    settings = lay(BASE, over({"x": {"prove": value}})).settings
    assert settings.networks["x"].examine is value
    both = lay(settings, over({"x": {"prove": value, "examine": not value}})).settings
    assert both.networks["x"].examine is not value
    flag = Told(("networks", "x", "examine"), value, "RPCACCEL_NETWORKS__X__EXAMINE")
    assert newest(over({"x": {"prove": not value}}), [flag], {})[0] == {}


def test_what_makes_no_settings_is_an_error() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        lay(BASE, {"workers": 0})
    with pytest.raises(ConfigError, match="networks"):
        lay(BASE, over(5))


FLAGS = {
    ("memory", "size"): "--memory",
    ("networks", "*", "balancer"): "--balancer",
    ("networks", "x", "nodes"): "the command line",
    ("networks", "x", "nodes", 1, "weight"): "RPCACCEL_NETWORKS__X__NODES__B__WEIGHT",
}


def test_what_flags_say_is_found_setting_by_setting() -> None:
    told = told_of(BASE, FLAGS)
    assert [(one.key, one.value, one.by) for one in told] == [
        ("memory.size", 256_000_000, "--memory"),
        ("networks.x.balancer", "smooth_weighted", "--balancer"),
        ("networks.x.nodes.b.weight", 1, "RPCACCEL_NETWORKS__X__NODES__B__WEIGHT"),
    ]


def test_whoever_spoke_last_holds() -> None:
    overlay = {"memory": {"size": 1}, **over({"x": {"nodes": {"b": {"weight": 9}}, "attempts": 2}})}
    memory, balancer, weight = told_of(BASE, FLAGS)
    assert newest(overlay, [balancer], {}) == (overlay, ())
    same, said = newest(overlay, [memory, weight], {memory.key: memory.value, weight.key: weight.value})
    assert same == overlay
    assert said[0] == "--memory is overruled by a later change at run time: memory.size"
    kept, said = newest(overlay, [memory, weight], {memory.key: 5})
    assert kept == over({"x": {"attempts": 2}})
    assert said[0] == "--memory was given after the change of memory.size at run time, and holds"
    assert len(said) == 2
    assert newest({"memory": None}, [Told(("memory", "size"), 1, "--memory")], {}) == ({"memory": None}, ())
