"""Documents that are too large are refused for their size, and no document has a list of faults without an end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.config import validate
from rpcaccel.config.errors import (
    MOST_CHANGED,
    MOST_FAULTS,
    MOST_MEMBERS,
    ConfigError,
    Fault,
    excess,
    listed,
)
from rpcaccel.config.load import load
from rpcaccel.config.model import MOST_NETWORKS, MOST_NODES, Settings
from rpcaccel.config.patch import apply
from rpcaccel.controlplane.settings.ledger import Author, InvalidSettingsError, Ledger

BASE = Settings.model_validate({"networks": {"x": {"nodes": ["http://a"]}}})
TOO_MANY = MOST_MEMBERS + 1


def network(**settings: Any) -> dict[str, Any]:
    return {"networks": {"x": settings}}


def nested(depth: int, member: Callable[[Any], Any]) -> Any:
    document: Any = 1
    for _ in range(depth):
        document = member(document)
    return document


TOO_LARGE: dict[str, tuple[Any, str]] = {
    "rules": (network(rules={f"eth_{n}": {"agree": 1} for n in range(TOO_MANY)}), "networks.x.rules"),
    "unknown keys": ({f"k{n}": 1 for n in range(TOO_MANY)}, ""),
    "unknown keys of a network": (network(**{f"k{n}": 1 for n in range(TOO_MANY)}), "networks.x"),
    "nodes as a list": (network(nodes=[f"http://h{n}" for n in range(TOO_MANY)]), "networks.x.nodes"),
    "nodes as a table": (network(nodes={f"n{n}": None for n in range(TOO_MANY)}), "networks.x.nodes"),
    "routes": (network(routes=[{"tag": "x"}] * TOO_MANY), "networks.x.routes"),
    "networks": ({"networks": {f"n{n}": {} for n in range(TOO_MANY)}}, "networks"),
    "a name of 1 MB": ({"k" * 1_000_000: 1}, '"' + "k" * 60),
    "a name of 1 MB below": (network(rules={"\u2028" * 1_000_000: {}}), "networks.x.rules"),
    "a text of 1 MB": (network(balancer="b" * 1_000_000), "networks.x.balancer"),
    "a text that is a list": ({"clients": {"trusted_proxies": "a," * 400_000}}, "clients.trusted_proxies"),
    "deep tables": (nested(20_000, lambda inner: {"a": inner}), "a.a.a"),
    "deep lists": (network(rules=nested(20_000, lambda inner: [inner])), "networks.x.rules[0]"),
    "many small tables": (
        {"networks": {f"n{n}": {f"k{m}": 1 for m in range(100)} for n in range(300)}},
        "",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_a_change_that_is_too_large_is_refused_by_its_size_and_the_place_is_named(name: str) -> None:
    change, place = TOO_LARGE[name]
    ledger = Ledger(BASE)
    with pytest.raises(InvalidSettingsError) as refused:
        await ledger.change(change, Author("me", "page"))
    (fault,) = refused.value.faults
    assert fault.path.startswith(place) or not place
    assert "at most" in fault.expected
    assert len(str(fault)) < 1000
    assert ledger.settings == BASE


@pytest.mark.parametrize("name", [name for name in TOO_LARGE if name != "many small tables"])
def test_a_file_is_held_to_the_same_bounds(name: str) -> None:
    faults = validate.validate(TOO_LARGE[name][0])
    assert isinstance(faults, list)
    assert len(faults) == 1


FAULTY: dict[str, Any] = {
    "rules": network(rules={f"eth_{n}": {"agree": 1} for n in range(MOST_MEMBERS)}),
    "unknown keys": {f"k{n}": 1 for n in range(MOST_MEMBERS // 2)},
    "nodes": network(nodes=[{"url": 1, "a": 2}] * MOST_NODES),
    "node texts": network(nodes=["http://a,weigth=1"] * MOST_NODES),
    "routes": network(routes=[{"methods": ["eth_*"], "tag": "x"}] * MOST_MEMBERS),
    "networks": {"networks": {f"n{n}": {"nodes": []} for n in range(MOST_NETWORKS)}},
    "keys": {"clients": {"keys": {f"k{n}": {"hashes": ["x"]} for n in range(MOST_MEMBERS)}}},
}


@pytest.mark.parametrize("name", FAULTY)
def test_of_very_many_faults_the_first_are_listed(name: str) -> None:
    faults = apply(BASE, FAULTY[name])
    assert isinstance(faults, list)
    assert len(faults) <= MOST_FAULTS + 1
    assert "not listed" in str(faults[-1])
    assert len("; ".join(map(str, faults))) < 20_000


def test_faults_beyond_those_that_are_listed_are_not_made() -> None:
    made = []

    def endless() -> Iterator[Fault]:
        while True:
            made.append(1)
            yield Fault("x", "", "another value")

    assert len(listed(endless())) == len(made) == MOST_FAULTS + 1


def test_the_most_nodes_of_one_host_each_have_a_name_of_their_own() -> None:
    made = apply(BASE, network(nodes=[f"http://a/{n}" for n in range(MOST_NODES)]))
    assert isinstance(made, Settings)
    names = [node.id for node in made.networks["x"].nodes]
    assert (len(set(names)), names[:3]) == (MOST_NODES, ["a", "a-2", "a-3"])


def test_all_networks_together_have_a_bound_of_nodes() -> None:
    networks = {f"n{n}": {"nodes": [f"http://a/{n}/{m}" for m in range(400)]} for n in range(3)}
    faults = apply(BASE, {"networks": networks})
    assert isinstance(faults, list)
    assert [(fault.path, "at most 1000 nodes" in fault.expected) for fault in faults] == [("networks", True)]


def wide(rng: random.Random, width: int) -> Any:
    """A document of tables and lists of any width."""
    if width < 2 or rng.random() < 0.2:
        return rng.choice([1, None, "x", True])
    parts = [wide(rng, width // 4) for _ in range(rng.randrange(width))]
    return parts if rng.random() < 0.5 else {str(number): part for number, part in enumerate(parts)}


def members(document: Any) -> int:
    if isinstance(document, dict):
        return len(document) + sum(map(members, document.values()))
    return len(document) + sum(map(members, document)) if isinstance(document, list) else 0


@given(st.integers(), st.integers(0, 200), st.integers(1, 2000))
@settings(max_examples=100)
def test_a_document_is_too_large_when_it_has_more_members_than_the_bound(seed: int, width: int, most: int) -> None:
    document = wide(random.Random(seed), width)
    found = excess(document, most)
    assert (found is not None) == (members(document) > most)
    assert found is None or isinstance(found, Fault)


def test_a_change_of_every_node_fits() -> None:
    change = network(nodes={f"n{n}": {"url": "http://a", "weight": 2, "id": f"n{n}"} for n in range(MOST_NODES)})
    assert excess(change, MOST_CHANGED) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("".join(f"[networks.x.rules.eth_{n}]\n" for n in range(TOO_MANY)), "networks.x.rules"),
        (f"{'.'.join('a' * 5000)} = 1", "a.a.a"),
    ],
)
def test_a_file_that_is_too_large_in_one_place_is_named_with_it(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(file, environ={})
    (fault,) = refused.value.faults
    assert fault.path.startswith(place)
    assert str(file) in str(fault)
    assert "at most" in str(fault)


def test_a_file_of_too_many_bytes_is_not_parsed(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text("# comment\n" * 300_000)
    with pytest.raises(ConfigError, match="larger than 2 MiB"):
        load(file, environ={})
