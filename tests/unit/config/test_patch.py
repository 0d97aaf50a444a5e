"""A change of settings: a merge patch with nodes by id."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.model import Settings
from rpcaccel.config.patch import apply, merge, to_document
from rpcaccel.config.validate import validate

SETTINGS = Settings.model_validate(
    {
        "workers": 2,
        "networks": {
            "harmony-s0": {"attempts": 5, "nodes": ["https://u:pw@a/key", "https://b,weight=2", "https://c.d"]}
        },
    }
)


SECRETS = {
    "redis": {"url": "redis://:hunter2@cache/1", "replicas": ["redis://:hunter2@replica"]},
    "networks": {
        "x": {"nodes": [{"url": "https://u:hunter2@a/hunter2", "headers": {"X-Key": "hunter2"}}, "https://b,weight=2"]}
    },
}


def test_a_revealed_document_makes_the_same_settings_again_and_one_to_show_holds_no_secret() -> None:
    settings = Settings.model_validate(SECRETS)
    assert validate(json.loads(json.dumps(to_document(settings, reveal=True)))) == settings
    shown = to_document(settings)
    assert shown["networks"]["x"]["nodes"][0]["url"] == "https://a"
    for text in (
        json.dumps(shown),
        str(settings),
        repr(settings),
        settings.model_dump_json(),
        str(settings.model_dump()),
    ):
        assert "hunter2" not in text


def changed(nodes: object) -> Settings | list[Any]:
    return apply(SETTINGS, {"networks": {"harmony-s0": {"nodes": nodes}}})


def weights(settings: Settings | list[Any]) -> dict[str, int]:
    assert isinstance(settings, Settings)
    return {node.id: node.weight for node in settings.networks["harmony-s0"].nodes}


def test_one_weight_is_changed_and_nothing_else() -> None:
    made = changed({"b": {"weight": 7}})
    assert weights(made) == {"a": 1, "b": 7, "c.d": 1}
    assert isinstance(made, Settings)
    assert apply(made, {"networks": {"harmony-s0": {"nodes": {"b": {"weight": 2}}}}}) == SETTINGS


def test_a_node_is_removed_and_another_added_behind_the_others() -> None:
    assert weights(changed({"b": None, "e": {"url": "https://e", "weight": 3}})) == {"a": 1, "c.d": 1, "e": 3}


def test_a_list_replaces_all_nodes() -> None:
    assert weights(changed(["https://z,weight=4"])) == {"z": 4}


def test_null_puts_a_key_back_to_its_default() -> None:
    made = apply(SETTINGS, {"workers": None, "networks": {"harmony-s0": {"attempts": None}}})
    assert isinstance(made, Settings)
    assert (made.workers, made.networks["harmony-s0"].attempts) == (1, 3)


def test_less_memory_needs_no_word_about_the_longest_answer_kept_and_a_word_is_judged() -> None:
    assert isinstance(apply(SETTINGS, {"memory": {"size": "1MB"}}), Settings)
    assert isinstance(apply(SETTINGS, {"memory": {"size": "1MB", "max_entry": "8MB"}}), list)
    smaller = apply(SETTINGS, {"memory": {"max_entry": "2MB"}})
    assert isinstance(smaller, Settings)
    assert isinstance(apply(smaller, {"memory": {"size": "1MB"}}), list)


@pytest.mark.parametrize(
    ("nodes", "path"),
    [
        ({"b": {"weight": -1}}, "networks.harmony-s0.nodes.b.weight"),
        ({"new": {"weight": 1}}, "networks.harmony-s0.nodes.new.url"),
        ({"b": {"id": "z"}}, "networks.harmony-s0.nodes.b.id"),
        ({"a": None, "b": None, "c.d": None}, "networks.harmony-s0.nodes"),
        ({"b": 3}, "networks.harmony-s0.nodes.b"),
        (3, "networks.harmony-s0.nodes"),
    ],
)
def test_a_change_that_makes_no_sense_is_faults(nodes: object, path: str) -> None:
    faults = changed(nodes)
    assert isinstance(faults, list)
    assert path in [fault.path for fault in faults]


@pytest.mark.parametrize("change", [{"networks": None}, {"networks": 3}, {"networks": {"harmony-s0": 3}}, {"nope": 1}])
def test_a_change_of_the_wrong_shape_is_faults(change: dict[str, object]) -> None:
    assert isinstance(apply(SETTINGS, change), list)


def test_nothing_is_written_to() -> None:
    before = to_document(SETTINGS, reveal=True)
    change: dict[str, Any] = {"networks": {"harmony-s0": {"nodes": {"b": {"weight": 7}, "a": None}}}}
    kept = copy.deepcopy(change)
    apply(SETTINGS, change)
    assert (to_document(SETTINGS, reveal=True), change) == (before, kept)


# RFC 7396, appendix A
@pytest.mark.parametrize(
    ("target", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_follows_the_examples_of_the_rfc(target: object, change: object, result: object) -> None:
    assert merge(target, change) == result


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
)


@given(JSON)
def test_any_change_is_settings_or_faults(value: object) -> None:
    for change in (
        {"networks": value},
        {"networks": {"harmony-s0": value}},
        {"networks": {"harmony-s0": {"nodes": value}}},
    ):
        assert apply(SETTINGS, change)
