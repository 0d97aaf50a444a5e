"""What the running program answers is what its description says."""

from __future__ import annotations

from typing import Any

import aiohttp

from tests.support.described_answers import named, problems
from tests.support.fleet import Fleet
from tests.support.running import until

CALL = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": ["latest", {}]}
PROBE = "/api/v1/nodes/{network}/{id}/probe"
ASKED: dict[tuple[str, str], Any] = {
    ("POST", "/api/v1/run"): {"call": CALL},
    ("POST", "/api/v1/explain"): {"call": CALL},
    ("POST", "/api/v1/purge"): {"all": True, "dry_run": True},
    ("POST", "/api/v1/record"): {"sample": 1.0},
    ("POST", "/api/v1/keys"): {},
    ("POST", "/api/v1/alerts/test"): {},
    ("POST", "/api/v1/alerts/mutes"): {"what": "nothing that is here", "seconds": 1},
    ("POST", "/api/v1/errors/try"): {"network": "harmony-s0", "message": "on holiday"},
    ("PATCH", "/api/v1/settings?dry_run=1"): {"workers": 3},
    ("PATCH", "/api/v1/settings"): {"networks": {"harmony-s0": {"nodes": {"node-0": {"quota": {"month": 1e6}}}}}},
    ("POST", "/api/v1/settings/undo"): {},
    ("POST", PROBE): {},
    ("POST", "/api/v1/nodes/{network}/{id}/examine"): {},
    ("POST", "/api/v1/nodes/find"): {"nodes": ["http://127.0.0.1:1"]},
    ("POST", "/api/v1/nodes/test"): {"network": "harmony-s0", "url": "http://127.0.0.1:1"},
    **{
        ("GET", f"/api/v1/{path}"): None
        for path in (
            *(
                "alerts",
                "hosts",
                "overview",
                "nodes",
                "nodes/report?over=day",
                "methods",
                "cache",
                "clients",
                "errors",
                "workers",
                "changes",
                "session",
            ),
            *("history?range=5m", "history?range=24h", "methods/history?network=harmony-s0&method=eth_call"),
            *(
                "methods/known",
                "settings",
                "settings/difference",
                "settings/described",
                "errors/{id}",
                "clients/{name}",
            ),
        )
    },
}
"""Every route that answers with JSON, but for the description itself, reload without a file, and logging in."""


async def test_every_answer_is_as_it_is_described(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    proxy = fleet.proxy
    groups: list[str] = []

    async def told(method: str, path: str, body: Any = None) -> Any:
        headers = {"If-Match": "*", "X-Rpcaccel-Request": "cli"}
        known = groups[0] if path.endswith("errors/{id}") else "node-0"
        url = proxy.admin + path.format(network="harmony-s0", id=known, name="anonymous")
        async with http.request(method, url, json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    async def seen() -> bool:
        methods = (await told("GET", "/api/v1/methods"))["methods"]
        return any(one["misses"] and one["miss"] for one in methods)

    async def noted() -> bool:
        listed = sorted((await proxy.api("errors"))["groups"], key=lambda group: -group["last_seen"])
        groups[:] = [group["id"] for group in listed]  # the newest first: an old one may have to make room for others
        return bool(groups)

    async def counted() -> bool:
        return any(client["name"] == "anonymous" for client in (await told("GET", "/api/v1/clients"))["clients"])

    description = await told("GET", "/api/v1/openapi.json")
    await told("POST", "/api/v1/record", {"sample": 1.0})
    await told("PATCH", "/api/v1/settings", {"clients": {"anonymous": {"rate": 1e6}}})  # so that clients are counted
    await proxy.call("hmyv2_getBlockByNumber", 1, {})
    await proxy.call("hmyv2_getBlockByNumber", 1, {})
    await proxy.call("hmyv2_getBlockByNumber", "not a block", {})
    await until("figures of the calls", seen)
    await until("the error noted", noted)
    await until("the client counted", counted)
    found = [
        problem
        for (method, path), body in ASKED.items()
        for problem in problems(description, method, path.partition("?")[0], await told(method, path, body))
    ]
    assert found == []
    await told("PATCH", "/api/v1/settings", {"clients": None})


async def test_no_answer_is_described_as_an_object_and_nothing_more(fleet: Fleet) -> None:
    description = await fleet.proxy.api("openapi.json")
    described = {
        (method.upper(), path)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        if "application/json" in operation["responses"].get("200", {}).get("content", {})
    }
    vague = {key for key in described if not named(description, *key)}
    assert vague == {("GET", "/api/v1/openapi.json")}
    apart = {
        ("GET", "/api/v1/openapi.json"),
        ("POST", "/api/v1/reload"),
        ("POST", "/api/v1/session"),
        ("POST", "/api/v1/nodes/file"),  # refused where there are nodes already
        ("POST", "/api/v1/networks/{network}/weights"),  # refused where no weights are suggested
    }
    assert {(method, path.partition("?")[0]) for method, path in ASKED} == described - apart
