"""Rules over several settings."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.config.model import AdminSettings, Settings
from rpcaccel.config.secrets import hash_password
from rpcaccel.config.validate import is_open, misfits, validate

NODES = {"nodes": ["http://a", "http://b,weight=0"]}
ACCOUNT = {"ops": {"password": hash_password("x", log_n=4)}}


def settings(network: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Settings.model_validate({"networks": {"x": {**NODES, **(network or {})}}, **more})


def broken(network: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """The paths of the rules that are broken; validate says the same."""
    document = {"networks": {"x": {**NODES, **(network or {})}}, **more}
    found = [".".join(map(str, one.path)) for one in misfits(settings(network, **more))]
    judged = validate(document)
    assert len(found) == (len(judged) if isinstance(judged, list) else 0)
    return found


ONE_NODE = {"nodes": ["http://a,weight=0", "http://b,weight=0"]}
DRAINED = {"nodes": [{"url": "http://a", "weight": 0, "drain": True}, "http://b"]}


@pytest.mark.parametrize(
    ("part", "paths"),
    [
        ({}, []),
        ({"tls_cert": "c"}, ["tls_key"]),
        ({"tls_key": "k"}, ["tls_cert"]),
        ({"tls_cert": "c", "tls_key": "k"}, []),
        ({"admin": {"tls_cert": "c"}}, ["admin.tls_key"]),
        ({"admin": {"tls_key": "k"}}, ["admin.tls_cert"]),
        ({"admin": {"tls_cert": "c", "tls_key": "k"}}, []),
        ({"memory": {"size": 1000, "max_entry": 1001}}, ["memory.max_entry"]),
        ({"memory": {"size": 1000, "max_entry": 1000}}, []),
        ({"memory": {"size": 0, "max_entry": 1000}}, []),  # no memory at all: answers may be kept in Redis
        ({"memory": {"size": 1000, "max_entry": "8MB"}}, ["memory.max_entry"]),  # as large as the default
        ({"memory": {"size": 1000}}, []),  # the default gives way
        ({"network": ONE_NODE}, ["networks.x.nodes"]),
        ({"network": DRAINED}, []),
        ({"network": {"chain": "ethereum", "rules": {"hmyv2_getBalance": {}}}}, ["networks.x.rules.hmyv2_getBalance"]),
        ({"redis": {"url": "redis://a", "replicas": ["redis://b", "unix:///c"]}}, []),
        ({"redis": {"url": "redis://a", "replicas": ["redis+cluster://b"]}}, ["redis.replicas.0"]),
        ({"redis": {"url": "redis+cluster://a", "replicas": ["redis://b"]}}, ["redis.replicas"]),
        ({"redis": {"url": "redis+sentinel://a/s", "replicas": ["redis://b"]}}, ["redis.replicas"]),
        ({"redis": {"replicas": ["redis://b"]}}, ["redis.replicas"]),
    ],
)
def test_a_rule_over_several_settings_names_the_one_to_change(part: dict[str, Any], paths: list[str]) -> None:
    assert broken(**part) == paths


@pytest.mark.parametrize("listen", ["127.0.0.1:9", "localhost:9", "[::1]:9", "127.9.9.9:0"])
def test_the_admin_side_listens_on_this_machine_without_an_account(listen: str) -> None:
    assert broken(admin={"listen": listen}) == []


@pytest.mark.parametrize("listen", ["0.0.0.0:9", ":9", "[::]:9", "10.0.0.1:0", "admin.example:9"])
def test_beyond_this_machine_the_admin_side_needs_an_account(listen: str) -> None:
    assert broken(admin={"listen": listen}) == ["admin.listen"]
    assert broken(admin={"listen": listen, "accounts": ACCOUNT}) == []
    assert is_open(listen, AdminSettings())


@pytest.mark.parametrize(
    ("listen", "admin"),
    [
        ("127.0.0.1:9", "127.0.0.1:9"),
        ("127.0.0.1:9", "localhost:9"),
        ("LOCALHOST:9", "[::1]:9"),
        ("0.0.0.0:9", "127.0.0.1:9"),
        ("*:9", "localhost:9"),
        ("[::]:9", "127.0.0.1:9"),
        ("[::]:9", "[::1]:9"),
        ("[0:0:0:0:0:0:0:1]:9", "[::1]:9"),
        ("[::ffff:127.0.0.1]:9", "127.0.0.1:9"),
    ],
)
def test_calls_and_the_admin_side_do_not_share_a_port(listen: str, admin: str) -> None:
    assert broken(listen=listen, admin={"listen": admin}) == ["admin.listen"]
    assert "admin.listen" in broken(listen=admin, admin={"listen": listen, "accounts": ACCOUNT})


@pytest.mark.parametrize(
    ("listen", "admin"),
    [
        ("127.0.0.1:9", "127.0.0.1:10"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:9", "127.0.0.2:9"),
        ("0.0.0.0:9", "[::1]:9"),
        ("a.example:9", "127.0.0.1:9"),
    ],
)
def test_another_port_or_another_address_is_no_clash(listen: str, admin: str) -> None:
    assert broken(listen=listen, admin={"listen": admin}) == []


def test_a_rule_is_for_a_method_that_some_table_knows() -> None:
    rules = {"eth_getBlance": {}, "net_*": {}, "no_such_*": {}, "eth_call": {}, "zzz": {}}
    (close, pattern, nothing) = misfits(settings({"rules": rules}))
    assert [one.path[-1] for one in (close, pattern, nothing)] == ["eth_getBlance", "no_such_*", "zzz"]
    assert close.expected.endswith("did you mean eth_getBalance?")
    assert nothing.expected.endswith("needs no rule")
