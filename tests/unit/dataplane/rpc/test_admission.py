"""Who came: by key in a header or path, else by address; and what calls and batches see of limits."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from multidict import CIMultiDict

from rpcaccel.config.sections import ClientsSettings
from rpcaccel.core import client_limits
from rpcaccel.core.client_limits import NO_KEY, UNKNOWN_KEY
from rpcaccel.core.memo import Memos
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.admission import MAX_ADDRESSES, Admission, routes
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import Proxy, proxying

KEY = client_limits.make(bytes(32))
OTHER = client_limits.make(bytes(range(32)))


def keys(**limits: Any) -> dict[str, Any]:
    return {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)], **limits}}}


def admission(settings: Mapping[str, Any], now: float = 0.0) -> Admission:
    made = Admission(Tally(), lambda: now)
    made.adopt(ClientsSettings.model_validate(settings))
    return made


def headers(**values: str) -> CIMultiDict[str]:
    return CIMultiDict((name.replace("_", "-"), value) for name, value in values.items())


def test_without_keys_and_limits_nobody_is_told_apart() -> None:
    assert not admission({}).on
    assert not admission({"heavy_cost": 3, "trusted_proxies": "10.0.0.1"}).on
    assert admission({"anonymous": {"rate": 1}}).on
    assert admission(keys()).on


@pytest.mark.parametrize(
    "sent",
    [
        headers(X_Api_Key=KEY),
        headers(x_api_key=f" {KEY} "),
        headers(Authorization=f"Bearer {KEY}"),
        headers(Authorization=f"bearer {KEY}"),
    ],
)
def test_a_key_comes_in_a_header(sent: CIMultiDict[str]) -> None:
    found = admission(keys()).look("/x", sent)
    assert found.path == "/x"
    assert found.client is not None
    assert found.client.name == "dapp"


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        (f"/key/{KEY}", "/"),
        (f"/key/{KEY}/", "/"),
        (f"/key/{KEY}/harmony-s0", "/harmony-s0"),
        (f"/key/{KEY}/harmony-s0/api/v1/eth", "/harmony-s0/api/v1/eth"),
    ],
)
def test_a_key_may_stand_in_front_of_any_path(path: str, rest: str) -> None:
    found = admission(keys()).look(path, headers())
    assert found.path == rest
    assert found.client is not None
    assert found.client.name == "dapp"


@pytest.mark.parametrize("wrong", [OTHER, "x", client_limits.hashed(KEY), KEY + "A", KEY[:-1], "\udcff", "x" * 10_000])
def test_a_wrong_key_is_refused_even_where_none_is_needed(wrong: str) -> None:
    door = admission(keys())
    assert door.look("/", headers(X_Api_Key=wrong)).refusal is UNKNOWN_KEY
    assert door.look(f"/key/{wrong}", headers(X_Api_Key=KEY)).refusal is UNKNOWN_KEY


def test_no_key_is_refused_only_where_one_is_required() -> None:
    assert admission(keys()).look("/", headers(Authorization="Basic eDp5")).refusal is None
    door = admission({**keys(), "require_key": True})
    assert door.look("/", headers(Authorization="Basic eDp5")).refusal is NO_KEY
    assert door.look("/", headers(X_Api_Key=KEY)).refusal is None


def test_a_look_counts_nothing_and_remembers_no_address() -> None:
    tally = Tally()
    door = Admission(tally, lambda: 0.0)
    door.adopt(ClientsSettings.model_validate({**keys(), "require_key": True}))
    for path, sent, refusal in (("/", headers(X_Api_Key=KEY), None), (f"/key/{KEY}/x", headers(), None),
                                ("/", headers(X_Api_Key=OTHER), UNKNOWN_KEY), ("/", headers(), NO_KEY)):  # fmt: skip
        assert door.look(path, sent).refusal is refusal
        assert tally.refusals == {}
    door.adopt(ClientsSettings.model_validate(keys()))
    assert door.look("/", headers()) == ("/", None, None)
    assert "0 addresses" in repr(door)


def test_where_there_are_no_keys_their_headers_mean_nothing() -> None:
    found = admission({"anonymous": {"rate": 1}}).look("/key/x", headers(X_Api_Key="x"))
    assert (found.path, found.refusal) == ("/key/x", None)


def test_addresses_are_clients_of_their_own_and_the_oldest_are_forgotten() -> None:
    door = admission({"anonymous": {"rate": 1}})
    first = door.anonymous("1.1.1.1")
    assert door.anonymous("1.1.1.1") is first
    assert door.anonymous("1.1.1.2") is not first
    assert door.anonymous("2001:db8::1") is door.anonymous("2001:db8::2")
    for number in range(MAX_ADDRESSES):
        door.anonymous(f"a{number}")
    assert door.anonymous("1.1.1.1") is not first
    assert repr(door) == f"<admission 0 keys, {MAX_ADDRESSES} addresses>"
    assert len(list(door.clients())) == MAX_ADDRESSES


def test_a_change_of_settings_keeps_what_was_used_and_takes_keys_away() -> None:
    door = admission(keys(rate=1))
    used = door.look("/", headers(X_Api_Key=KEY)).client
    assert used is not None
    assert used.call("eth_call", False, 0.0) is None
    door.adopt(ClientsSettings.model_validate({"keys": {"dapp": {"hashes": [client_limits.hashed(OTHER)], "rate": 2}}}))
    assert door.look("/", headers(X_Api_Key=KEY)).refusal is UNKNOWN_KEY
    again = door.look("/", headers(X_Api_Key=OTHER)).client
    assert again is used
    assert used.limits.rate == 2
    assert used.call("eth_call", False, 0.0) is not None


def test_a_key_that_is_switched_off_is_refused_and_comes_back_with_what_it_used() -> None:
    door = admission(keys(rate=1))
    used = door.look("/", headers(X_Api_Key=KEY)).client
    door.adopt(ClientsSettings.model_validate(keys(rate=1, enabled=False)))
    assert door.look("/", headers(X_Api_Key=KEY)).refusal is UNKNOWN_KEY
    door.adopt(ClientsSettings.model_validate(keys(rate=1)))
    assert door.look("/", headers(X_Api_Key=KEY)).client is used


def test_only_the_named_header_of_trusted_proxies_is_believed() -> None:
    sent = headers(X_Forwarded_For="1.1.1.1", Forwarded="for=2.2.2.2")
    assert admission({}).address("10.0.0.1", sent) == "10.0.0.1"
    assert admission({"trusted_proxies": "10.0.0.1"}).address("10.0.0.1", sent) == "1.1.1.1"
    named = {"trusted_proxies": "10.0.0.1", "forwarded_header": "forwarded"}
    assert admission(named).address("10.0.0.1", sent) == "2.2.2.2"
    assert admission({}).address(None, sent) == ""


# ---- over the wire --------------------------------------------------------------------------------------------------

CALL = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [26, {}]}


async def test_keys_are_asked_for_and_their_limits_hold() -> None:
    clients = {**keys(rate=0.01, burst=2), "require_key": True}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=clients) as proxy:
        body = orjson.dumps(CALL)
        for reply in (await proxy.post(body), await proxy.post(body, X_Api_Key=OTHER)):
            assert reply.status == 401
            assert reply.error["code"] == -32600
            assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert proxy.asked("hmyv2_getBlockByNumber") == 0
        assert (await proxy.post(body, X_Api_Key=KEY)).status == 200
        assert (await proxy.post(body, f"/key/{KEY}/harmony-s0")).cache == "memory"
        limited = await proxy.post(body, Authorization=f"Bearer {KEY}")
        assert (limited.status, limited.error["code"], limited.json["id"]) == (429, -32005, 1)
        assert 99 <= int(limited.headers["Retry-After"]) <= 100
        tally = proxy.worker.report().tally
        (cell,) = tally.clients
        assert (cell.client, cell.calls, cell.limited, cell.in_flight) == ("dapp", 3, {"rate": 1}, 0)
        assert tally.refusals == {"no-key": 1, "unknown-key": 1}


async def test_each_call_of_a_batch_is_paid_for_and_the_rest_of_it_is_refused() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, clients={"anonymous": {"rate": 0.01, "burst": 2}}) as proxy:
        reply = await proxy.post(orjson.dumps([{**CALL, "id": number} for number in range(4)]))
        assert ["result" in item for item in reply.json] == [True, True, False, False]
        assert {item["error"]["code"] for item in reply.json[2:]} == {-32005}


async def test_methods_batches_and_requests_at_once_are_refused_by_key() -> None:
    limits = {"deny": ["debug_*"], "batch": 2, "concurrency": 1}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=keys(**limits)) as proxy:
        denied = await proxy.post(orjson.dumps({**CALL, "method": "debug_x"}), X_Api_Key=KEY)
        assert (denied.status, denied.error["code"]) == (200, -32601)
        long = await proxy.post(orjson.dumps([CALL] * 3), X_Api_Key=KEY)
        assert long.error["message"] == "batch too long: 3 calls, at most 2 are taken from you"
        assert (await proxy.post(orjson.dumps([CALL] * 3))).status == 200
        await _one_at_a_time(proxy)


async def _one_at_a_time(proxy: Proxy) -> None:
    somebody = proxy.worker.admission.look("/", headers(X_Api_Key=KEY)).client
    assert somebody is not None
    assert somebody.enter(0.0) is None
    busy = await proxy.post(orjson.dumps(CALL), X_Api_Key=KEY)
    assert (busy.status, busy.error["code"], busy.headers["Retry-After"]) == (429, -32005, "1")


async def test_heavy_methods_cost_more() -> None:
    clients = {"anonymous": {"rate": 0.01, "burst": 11}, "heavy_cost": 10}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=clients) as proxy:
        assert proxy.worker.state.networks["harmony-s0"].planner.rule("eth_getLogs").heavy
        assert (await proxy.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})).status == 200
        assert (await proxy.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x3"})).status == 429
        assert (await proxy.call("hmyv2_getBlockByNumber", 26, {})).status == 200


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
