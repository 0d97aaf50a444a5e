"""The model: defaults, bounds, and that nothing in it is said in vain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import rpcaccel
from rpcaccel.config.model import MOST_NODES, NodeSettings, Settings
from rpcaccel.config.secrets import NodeUrl
from rpcaccel.config.sections import Section

NETWORKS = {"harmony-s0": {"nodes": ["https://a"]}}
PACKAGE = Path(rpcaccel.__file__).parent

NOT_READ_YET: frozenset[str] = frozenset()
"""Fields whose readers are being written. This list only shrinks."""


def sections(model: type[BaseModel] = Section) -> Iterator[type[BaseModel]]:
    """The sections of the product: other tests of the same process may have made some of their own."""
    for section in model.__subclasses__():
        if section.__module__.startswith("rpcaccel."):
            yield section
        yield from sections(section)


def attributes_read(tree: ast.Module) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def read_by_the_package() -> set[str]:
    model = PACKAGE / "config" / "model.py"
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path != model:
            read |= attributes_read(tree)
            continue
        # In the model itself only what a property makes of a field counts, not how the field is checked.
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(mark) == "property" for mark in node.decorator_list
            ):
                read |= attributes_read(ast.Module(body=list(node.body), type_ignores=[]))
    return read


def test_no_key_is_there_that_no_code_reads() -> None:
    fields = {name for section in sections() for name in section.model_fields}
    assert fields - read_by_the_package() == NOT_READ_YET


def test_every_key_says_what_it_is_and_has_a_default_unless_it_must_be_given() -> None:
    required = set()
    for section in sections():
        for name, field in section.model_fields.items():
            assert (field.description or "").endswith("."), f"{section.__name__}.{name}"
            if field.is_required():
                required.add(f"{section.__name__}.{name}")
    assert required == {
        "AccountSettings.password",
        "WebhookSettings.url",
        "ErrorRuleSettings.kind",
        "KeySettings.hashes",
        "NodeSettings.url",
        "NetworkSettings.nodes",
        "RouteSettings.methods",
        "RouteSettings.tag",
        "Settings.networks",
    }


def test_defaults_need_no_more_than_a_node() -> None:
    settings = Settings.model_validate({"networks": NETWORKS})
    network = settings.networks["harmony-s0"]
    assert (settings.listen, settings.admin.listen, settings.workers) == ("127.0.0.1:8888", "127.0.0.1:8889", 1)
    assert (settings.memory.size, settings.memory.max_entry) == (256_000_000, 8_000_000)
    assert (settings.redis.url.reveal(), settings.redis.read_timeout) == ("", 0.03)
    assert (network.chain, network.balancer, network.nodes[0].weight) == ("harmony", "smooth_weighted", 1)


def test_settings_are_frozen() -> None:
    settings = Settings.model_validate({"networks": NETWORKS})
    with pytest.raises(ValidationError):
        settings.listen = "other"


def test_the_main_network_is_the_first_one_unless_another_is_named() -> None:
    networks = {"b": {"nodes": ["https://a"]}, "a": {"nodes": ["https://a"]}}
    assert Settings.model_validate({"networks": networks}).main_network == "b"
    assert Settings.model_validate({"networks": networks, "default_network": "a"}).main_network == "a"


def test_values_are_kept_in_one_form() -> None:
    settings = Settings.model_validate(
        {
            "listen": ":80",
            "memory": {"size": "5 MiB"},
            "http": {"deny": "debug_*, trace_*", "cors_origins": [], "read_timeout": "2m"},
            "networks": {"x": {"chain_id": "0x63564c40", "nodes": [{"url": "http://a", "roles": ["archive"]}]}},
        }
    )
    assert (settings.listen, settings.memory.size, settings.http.read_timeout) == ("0.0.0.0:80", 5 << 20, 120.0)
    assert (settings.http.deny, settings.http.cors_origins) == (("debug_*", "trace_*"), ())
    assert settings.networks["x"].chain_id == 1666600000
    assert settings.networks["x"].nodes[0].roles == frozenset({"archive"})


def test_a_node_made_in_code_has_its_default_name_too() -> None:
    assert NodeSettings(url=NodeUrl("http://a:1/key")).id == "a:1"


def test_a_validation_error_of_pydantic_holds_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        NodeSettings.model_validate({"url": "hunter2", "headers": {"X": 1}})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"listen": "x"},
        {"workers": 0},
        {"workers": True},
        {"workers": 1.5},
        {"networks": {}},
        {"networks": {"Upper": {"nodes": ["http://a"]}}},
        {"networks": {"x": {"nodes": []}}},
        {"networks": {"x": {"nodes": ["http://a"], "chain": "bitcoin"}}},
        {"networks": {"x": {"nodes": ["http://a"], "balancer": "coin"}}},
        {"networks": {"x": {"nodes": [{"url": "http://a", "weight": 1001}]}}},
        {"networks": {"x": {"nodes": [{"url": "http://a", "id": "No"}]}}},
        {"networks": {"x": {"nodes": [{"url": "http://a", "roles": ["king"]}]}}},
        {"http": {"deny": ["a b"]}},
        {"http": {"cors_origins": ["app.example"]}},
        {"http": {"max_header": 1}},
        {"log": {"level": "loud"}},
        {"redis": {"prefix": "a b"}},
        {"redis": {"read_timeout": 0}},
        {"networks": {"s0": {"nodes": [f"http://h:{port}" for port in range(1, MOST_NODES + 2)]}}},
        {"unknown": 1},
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"networks": NETWORKS, **change})
