"""The model: defaults, bounds, and that nothing in it is said in vain."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import rpcaccel
from rpcaccel.config.model import MOST_NODES, NodeSettings, Settings
from rpcaccel.config.schema import schema
from rpcaccel.config.secrets import NodeUrl
from rpcaccel.config.sections import MAX_WEBHOOKS, ClientsSettings, Section
from rpcaccel.config.validate import validate
from rpcaccel.config.value_types import trace_receiver

NODES = {"nodes": ["https://a"]}
NETWORKS = {"harmony-s0": NODES}
URL = "https://hooks.example/hunter2"
HASH, OTHER = "sha256:" + "a1" * 32, "sha256:" + "b2" * 32
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


def test_every_key_says_what_it_is() -> None:
    made = schema()
    for table, fields in (("Settings", made), *made["$defs"].items()):
        for name, field in fields.get("properties", {}).items():
            assert field["description"].endswith("."), f"{table}.{name}"


def test_every_key_has_a_default_unless_it_must_be_given() -> None:
    assert {
        f"{section.__name__}.{name}"
        for section in sections()
        for name, field in section.model_fields.items()
        if field.is_required()
    } == {
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
    assert (settings.log.access, settings.log.slow, settings.tracing.endpoint) == (False, 0.0, "")
    assert network.nodes[0].quota.model_dump() == {
        **{"second": 0, "day": 0, "month": 0, "heavy": 1},
        **{"provider": "", "costs": {}},
    }


def test_settings_are_frozen() -> None:
    settings = Settings.model_validate({"networks": NETWORKS})
    with pytest.raises(ValidationError):
        settings.listen = "other"


def test_the_main_network_is_the_first_one_unless_another_is_named() -> None:
    networks = {"b": {"nodes": ["https://a"]}, "a": {"nodes": ["https://a"]}}
    assert Settings.model_validate({"networks": networks}).main_network == "b"
    assert Settings.model_validate({"networks": networks, "default_network": "a"}).main_network == "a"


@pytest.mark.parametrize(
    ("part", "path", "kept"),
    [
        ({"listen": ":80"}, "listen", "0.0.0.0:80"),
        ({"listen": "[::1]:80"}, "listen", "[::1]:80"),
        ({"workers": "3"}, "workers", 3),
        ({"workers": " Auto "}, "workers", len(os.sched_getaffinity(0))),
        ({"worker_timeout": "10s"}, "worker_timeout", 10.0),
        ({"worker_timeout": 0}, "worker_timeout", 0.0),
        ({"memory": {"size": "5 MiB"}}, "memory.size", 5 << 20),
        ({"redis": {"replicas": ""}}, "redis.replicas", ()),
        ({"http": {"deny": "debug_*, trace_*"}}, "http.deny", ("debug_*", "trace_*")),
        ({"http": {"deny": ["a_b", "c?"]}}, "http.deny", ("a_b", "c?")),
        ({"http": {"cors_origins": []}}, "http.cors_origins", ()),
        ({"http": {"cors_origins": "* https://a.example:8443"}}, "http.cors_origins", ("*", "https://a.example:8443")),
        ({"http": {"read_timeout": "2m"}}, "http.read_timeout", 120.0),
        ({"admin": {"names": "RPC.example"}}, "admin.names", ("rpc.example",)),
        ({"clients": {"trusted_proxies": "10.0.0.1 2001:db8::/32"}}, "clients.trusted_proxies",
         ("10.0.0.1/32", "2001:db8::/32")),
        ({"clients": {"keys": {"dapp": {"hashes": f"{HASH.replace('a', 'A')} {OTHER}"}}}}, "clients.keys.dapp.hashes",
         (HASH, OTHER)),
        ({"networks": {"x": {"chain_id": "0x10", **NODES}}}, "networks.x.chain_id", 16),
        ({"networks": {"x": {"nodes": [{"url": "http://a", "roles": "archive,explorer"}]}}}, "networks.x.nodes.0.roles",
         {"archive", "explorer"}),
        ({"networks": {"x": {"nodes": [{"url": "http://a", "tags": "own, paid"}]}}}, "networks.x.nodes.0.tags",
         {"own", "paid"}),
        ({"networks": {"x": {**NODES, "routes": [{"methods": "eth_getLogs, trace_*", "tag": "a"}]}}},
         "networks.x.routes.0.methods", ("eth_getLogs", "trace_*")),
    ],
)  # fmt: skip
def test_what_people_write_is_kept_in_one_form(part: dict[str, Any], path: str, kept: object) -> None:
    found: Any = Settings.model_validate({"networks": NETWORKS, **part})
    for name in path.split("."):
        found = getattr(found, name) if hasattr(found, name) else found[int(name) if name.isdigit() else name]
    assert found == kept


def test_equal_sets_are_written_down_alike_whatever_order_they_came_in() -> None:
    names = [f"tag-{number}" for number in range(40)]
    node = NodeSettings.model_validate({"url": "http://a", "tags": names[::-1]})
    assert node.model_dump(mode="json")["tags"] == sorted(names)


def test_the_core_reads_the_limits_of_a_caller() -> None:
    clients = ClientsSettings.model_validate({"keys": {"dapp": {"hashes": HASH, "rate": 2, "deny": "debug_*"}}})
    limits = clients.keys["dapp"].limits(7)
    assert (limits.rate, limits.heavy_cost, limits.deny) == (2.0, 7, ("debug_*",))
    assert not clients.anonymous.limits(clients.heavy_cost).any


def test_a_node_made_in_code_has_its_default_name_too() -> None:
    assert NodeSettings(url=NodeUrl("http://a:1/key")).id == "a:1"


def test_an_error_of_pydantic_itself_holds_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        NodeSettings.model_validate({"url": "hunter2", "headers": {"X": 1}})
    assert "hunter2" not in str(caught.value)


def of_network(**settings: Any) -> dict[str, Any]:
    return {"networks": {"x": {**NODES, **settings}}}


def of_node(**settings: Any) -> dict[str, Any]:
    return {"networks": {"x": {"nodes": [{"url": "http://a", **settings}]}}}


def of_keys(**keys: Any) -> dict[str, Any]:
    return {"clients": {"keys": keys}}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"listen": "x"}, "listen"),
        ({"unknown": 1}, "unknown"),
        *(({"workers": value}, "workers") for value in (0, True, 1.5, "most")),
        *(({"worker_timeout": value}, "worker_timeout") for value in ("500ms", 2.9, -1, "2h")),
        ({"networks": {}}, "networks"),
        ({"networks": {"Upper": NODES}}, "networks.Upper"),
        (of_network(nodes=[]), "networks.x.nodes"),
        (of_network(nodes=[f"http://h:{port}" for port in range(1, MOST_NODES + 2)]), "networks.x.nodes"),
        (of_network(shard="x"), "networks.x.shard"),
        (of_network(shard="0x"), "networks.x.shard"),
        *((of_network(transactions=value), "networks.x.transactions")
          for value in ({"share": 0}, {"share": 1.1}, {"at_least": 0})),
        *((of_network(routes=[value]), "networks.x.routes")
          for value in ({"methods": [], "tag": "a"}, {"methods": "a b!", "tag": "a"}, {"methods": "a", "tag": "A B"})),
        (of_node(weight=1001), "networks.x.nodes"),
        (of_node(id="No"), "networks.x.nodes"),
        (of_node(roles=["king"]), "networks.x.nodes"),
        ({"http": {"deny": ["a b"]}}, "http.deny"),
        ({"http": {"deny": ["a,b"]}}, "http.deny"),
        ({"http": {"cors_origins": ["app.example"]}}, "http.cors_origins"),
        ({"http": {"cors_origins": ["https://a/x"]}}, "http.cors_origins"),
        ({"http": {"max_header": 1}}, "http.max_header"),
        ({"admin": {"names": ["a b"]}}, "admin.names"),
        ({"log": {"level": "loud"}}, "log.level"),
        ({"redis": {"prefix": "a b"}}, "redis.prefix"),
        ({"redis": {"read_timeout": 0}}, "redis.read_timeout"),
        *(({"tracing": value}, "tracing")
          for value in ({"endpoint": "nonsense"}, {"sample": 1.5}, {"sample": -1}, {"service": ""})),
        *(({"errors": value}, "errors")
          for value in ({"warn": 0}, {"bad": 1.1}, {"params": "maybe"}, {"warn": 0.3}, {"bad": 0.01})),
        (of_keys(dapp={}), "clients.keys.dapp.hashes"),
        (of_keys(dapp={"hashes": []}), "clients.keys.dapp.hashes"),
        (of_keys(dapp={"hashes": ["rpcaccel_hunter2"]}), "clients.keys.dapp.hashes[0]: found a value that "
         'is not shown, expected the hash of a key, "sha256:" and 64 hex digits, as `rpcaccel key` prints it'),
        (of_keys(**{"Dapp!": {"hashes": [HASH]}}), 'clients.keys."Dapp!"'),
        (of_keys(dapp={"hashes": [HASH]}, other={"hashes": [HASH]}), "clients"),
        (of_keys(anonymous={"hashes": [HASH]}), "clients"),
        (of_keys(dapp={"hashes": [HASH], "rate": -1}), "clients.keys.dapp.rate"),
        (of_keys(dapp={"hashes": [HASH], "rate": float("inf")}), "clients.keys.dapp.rate"),
        ({"clients": {"require_key": True}}, "clients"),
        ({"clients": {"trusted_proxies": ["10.0.0"]}}, "clients.trusted_proxies"),
        ({"clients": {"forwarded_header": "x-real-ip"}}, "clients.forwarded_header"),
        ({"clients": {"anonymous": {"hashes": [HASH]}}}, "clients.anonymous.hashes"),
        *(({"alerts": {"webhooks": {"ops": value}}}, f"alerts.webhooks.ops.{field}") for value, field in (
            ({"url": "ftp://a/hunter2"}, "url: found ftp://a, expected an address"), ({}, "url: found nothing"),
            ({"url": URL, "format": "teams"}, "format: found"), ({"url": URL, "repeat": "5s"}, "repeat: found"),
            ({"url": URL, "timeout": 61}, "timeout: found 61.0"), ({"url": URL, "networks": ["s1"]}, "networks[0]: "),
            ({"url": URL, "headers": {"Content-Type": "x"}}, "headers.Content-"))),
        ({"alerts": {"webhooks": {"Ops!": {"url": URL}}}}, 'alerts.webhooks."Ops!": found this name'),
        ({"alerts": {"webhooks": {str(n): {"url": URL} for n in range(MAX_WEBHOOKS + 1)}}}, "alerts.webhooks: found a"),
        ({"alerts": {"after": "25h"}}, "alerts.after: found"),
        ({"alerts": {"page": "https://u:hunter2@h/"}}, "alerts.page: found https://h, expected the address of"),
        ({"alerts": {"page": "h"}}, "alerts.page: found"),
        ({"alerts": {"host": "a\nb"}}, "alerts.host: found"),
        (of_network(chain="bitcoin"), 'networks.x.chain: found "bitcoin", expected a chain: '),
        (of_network(balancer=""), 'networks.x.balancer: found "", expected a balancer: consistent_hash, '),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_place(change: dict[str, object], place: str) -> None:
    faults = validate({"networks": NETWORKS, **change})
    assert isinstance(faults, list)
    assert str(faults[0]).startswith(place)
    assert "hunter2" not in str(faults)


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("", ""),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example/", "https://otel.example/v1/traces"),
        ("https://otel.example/mine?a=1", "https://otel.example/mine?a=1"),
    ],
)
def test_a_receiver_of_traces_gets_the_path_that_is_usual(address: str, kept: str) -> None:
    assert trace_receiver(address) == kept


@pytest.mark.parametrize(
    "text", ["collector:4318", "ftp://a", "http://", "http://a:0", "http://a:b", "http://u:hunter2@a", "http://a b"]
)
def test_what_is_no_receiver_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="an address such as") as told:
        trace_receiver(text)
    assert "hunter2" not in str(told.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)  # as if it were not there
    with pytest.raises(ValueError, match=r'pip install "rpcaccel\[otel\]"'):
        trace_receiver("http://127.0.0.1:4318")
