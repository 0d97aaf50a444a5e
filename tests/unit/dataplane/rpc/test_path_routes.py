"""Paths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from rpcaccel.core.memo import Memos
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.admission import routes


def network(name: str) -> Network:
    return cast(Any, SimpleNamespace(name=name, memos=Memos(), chain=SimpleNamespace(paths={"/api/v1/eth": "eth_"})))


def test_the_main_network_is_served_on_the_root_as_well() -> None:
    table = routes([network("a"), network("b")], "b")
    assert {path: route.network.name for path, route in table.items() if not route.prefix} == {
        "/": "b",
        "/a": "a",
        "/a/": "a",
        "/b": "b",
        "/b/": "b",
    }
    assert {path for path, route in table.items() if route.prefix} == {
        "/api/v1/eth",
        "/a/api/v1/eth",
        "/b/api/v1/eth",
    }
