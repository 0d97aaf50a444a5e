"""The part of the admin API that changes things, over real HTTP."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from rpcaccel import chains
from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.config.load import load
from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.event_stream import LiveEvents
from rpcaccel.controlplane.admin.handling import MAX_BODY_BYTES
from rpcaccel.controlplane.admin.settings_api import ChangeRoutes
from rpcaccel.controlplane.settings.ledger import Origin, state_file
from rpcaccel.core import client_limits
from rpcaccel.core.heads.identity import NodesFound, NodeTrial
from tests.support.running_admin import FROM_PAGE, running_admin
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView
from tests.support.waiting import until

SETTINGS = "/api/v1/settings"
TRY = "/api/v1/nodes/test"
WEIGHT = {"networks": {"harmony-s0": {"nodes": {"b": {"weight": 4}}}}}


@pytest.fixture
def control(tmp_path: Path) -> SampleControl:
    def reread() -> Settings:
        return sample_settings(workers=3)

    return SampleControl(origin=Origin("file.toml", reread, state_file(tmp_path / "s.json")))


@pytest.fixture
async def client(control: SampleControl) -> AsyncIterator[aiohttp.ClientSession]:
    async with running_admin(control) as (_, session):
        yield session


async def sent(
    client: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, Any]:
    """Status, document and headers of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.request(method, path, json=body, headers=named) as reply:
        return reply.status, await reply.json(content_type=None), reply.headers


async def test_every_method_that_a_network_has_a_rule_for_is_known_before_it_is_called(
    client: aiohttp.ClientSession,
) -> None:
    status, told, _ = await sent(client, "GET", "/api/v1/methods/known")
    assert (status, list(told)) == (200, ["harmony-s0"])
    assert told["harmony-s0"] == sorted(rule.method for rule in chains.load("harmony").rules)


async def test_the_settings_are_shown_whole_and_without_secrets(client: aiohttp.ClientSession) -> None:
    status, told, headers = await sent(client, "GET", SETTINGS)
    assert (status, headers["ETag"], told["revision"]) == (200, '"1"', 1)
    assert list(told["document"]["networks"]["harmony-s0"]["nodes"]) == ["a", "b", "c"]
    assert told["document"]["networks"]["harmony-s0"]["nodes"]["a"]["url"] == "https://a.example"
    assert "listen" in told["restart"]
    assert (told["waiting"], told["undo"], told["shared"], told["adopted"]) == ([], None, None, 1)
    assert told["persisted"].endswith("s.json")


async def test_a_patch_makes_a_revision_and_says_what_it_did(
    client: aiohttp.ClientSession, control: SampleControl
) -> None:
    status, told, headers = await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match='"1"')
    assert (status, headers["ETag"], told["revision"], told["undo"]) == (200, '"2"', 2, 1)
    assert (told["change"]["text"], told["change"]["via"]) == ("networks.harmony-s0.nodes.b.weight: 1 -> 4", "page")
    assert told["change"]["difference"] == [{"path": "networks.harmony-s0.nodes.b.weight", "before": 1, "after": 4}]
    assert control.published[0][1].networks["harmony-s0"].nodes[1].weight == 4
    status, told, _ = await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match="*")
    assert (status, told["revision"], told["change"]) == (200, 2, None)


@pytest.mark.parametrize(("tag", "status"), [(None, 428), ('"7"', 412), ("7", 412), ('W/"7"', 412), ('"x"', 412)])
async def test_a_change_for_another_revision_is_refused(
    client: aiohttp.ClientSession, control: SampleControl, tag: str | None, status: int
) -> None:
    got, told, _ = await sent(client, "PATCH", SETTINGS, WEIGHT, **({"If_Match": tag} if tag else {}))
    assert (got, told["revision"]) == (status, 1)
    assert told["code"] in ("if-match-required", "changed-meanwhile")
    assert control.published == []


async def test_an_invalid_change_names_each_field(client: aiohttp.ClientSession, control: SampleControl) -> None:
    wrong = {"workers": 0, "networks": {"harmony-s0": {"nodes": {"d": {"url": "ftp://s3cret-token"}}}}}
    status, told, headers = await sent(client, "PATCH", SETTINGS, wrong, If_Match='"1"')
    assert (status, headers["Content-Type"]) == (422, "application/problem+json")
    assert {error["path"] for error in told["errors"]} == {"workers", "networks.harmony-s0.nodes.d.url"}
    assert control.published == []


async def test_a_refusal_by_a_worker_changes_nothing(client: aiohttp.ClientSession, control: SampleControl) -> None:
    control.refusal = "worker w2: did not adopt it"
    status, told, _ = await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match='"1"')
    assert (status, told["code"], told["detail"]) == (409, "refused", "worker w2: did not adopt it")
    assert (await sent(client, "GET", SETTINGS))[1]["revision"] == 1
    newest = (await sent(client, "GET", "/api/v1/changes"))[1]["changes"][0]
    assert (newest["outcome"], newest["undo"], newest["reason"]) == ("refused", False, "worker w2: did not adopt it")


async def test_a_dry_run_tells_and_does_nothing(client: aiohttp.ClientSession, control: SampleControl) -> None:
    status, told, _ = await sent(client, "PATCH", f"{SETTINGS}?dry_run=1", {**WEIGHT, "workers": 9})
    assert (status, told["restart"], len(told["difference"])) == (200, ["workers"], 2)
    assert (await sent(client, "PATCH", f"{SETTINGS}?dry_run=1", {"workers": 0}))[0] == 422
    assert control.published == []


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
    ],
)
async def test_a_body_that_is_no_object_is_refused(
    client: aiohttp.ClientSession, body: bytes, kind: str, status: int
) -> None:
    headers = {"If-Match": '"1"', "Content-Type": kind}
    async with client.patch(SETTINGS, data=io.BytesIO(body), headers=headers) as reply:
        assert reply.status == status
        assert (await reply.json(content_type=None))["code"] in ("not-json", "too-large")


@pytest.mark.parametrize("query", ["", "?dry_run=1"])
@pytest.mark.parametrize("depth", [20, 600, 1000])
async def test_a_change_nested_without_sense_is_refused(
    client: aiohttp.ClientSession, control: SampleControl, query: str, depth: int
) -> None:
    body = b'{"networks":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    headers = {"If-Match": "*", "Content-Type": "application/json"}
    async with client.patch(SETTINGS + query, data=body, headers=headers) as reply:
        assert reply.status in (400, 422)
        assert (await reply.json(content_type=None))["code"] in ("not-json", "invalid-settings")
    assert control.ledger.revision == 1


async def test_a_merge_patch_may_say_so(client: aiohttp.ClientSession) -> None:
    headers = {"If-Match": '"1"', "Content-Type": "application/merge-patch+json"}
    async with client.patch(SETTINGS, data=orjson.dumps(WEIGHT), headers=headers) as reply:
        assert reply.status == 200


async def test_undo_and_reload_answer_as_a_patch_does(client: aiohttp.ClientSession) -> None:
    await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match='"1"')
    assert (await sent(client, "POST", f"{SETTINGS}/undo", {}))[0] == 428
    assert (await sent(client, "POST", f"{SETTINGS}/undo", {"to": 99}, If_Match='"2"'))[0] == 404
    assert (await sent(client, "POST", f"{SETTINGS}/undo", {"to": True}, If_Match='"2"'))[0] == 400
    status, told, _ = await sent(client, "POST", f"{SETTINGS}/undo", None, If_Match='"2"')
    assert (status, told["revision"], told["change"]["action"]) == (200, 3, "undo")
    status, told, _ = await sent(client, "POST", "/api/v1/reload")
    assert (status, told["change"]["action"], told["waiting"]) == (200, "reload", ["workers"])


async def test_without_a_file_there_is_nothing_to_reload() -> None:
    async with running_admin() as (_, client):
        assert (await sent(client, "POST", "/api/v1/reload"))[:2][1]["code"] == "no-file"
        told = (await sent(client, "GET", SETTINGS))[1]
        assert told["persisted"] is None
        assert "until the restart" in told["note"]


async def test_the_difference_the_export_and_the_audit(client: aiohttp.ClientSession) -> None:
    await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match='"1"')
    assert (await sent(client, "GET", f"{SETTINGS}/difference"))[1] == {
        "revision": 2,
        "base": "file.toml",
        "difference": [{"path": "networks.harmony-s0.nodes.b.weight", "before": 1, "after": 4}],
    }
    async with client.get(f"{SETTINGS}/export") as reply:
        text = await reply.text()
        assert reply.content_type == "application/toml"
    assert "weight = 4" in text
    assert "s3cret" not in text
    assert len((await sent(client, "GET", "/api/v1/changes?limit=1"))[1]["changes"]) == 1
    assert len((await sent(client, "GET", "/api/v1/changes?limit=all"))[1]["changes"]) == 2


async def test_what_can_be_set_is_described(client: aiohttp.ClientSession) -> None:
    status, told, _ = await sent(client, "GET", f"{SETTINGS}/described")
    assert status == 200
    size = next(one for one in told["settings"] if one["path"] == "memory.size")
    assert (size["kind"], size["default"]) == ("size", 256_000_000)
    assert "workers" in told["restart"]


async def test_a_key_is_made_and_neither_kept_nor_made_twice(
    client: aiohttp.ClientSession, control: SampleControl
) -> None:
    made = [(await sent(client, "POST", "/api/v1/keys", {}))[1] for _ in range(2)]
    assert all(one["hash"] == client_limits.hashed(one["key"]) for one in made)
    assert made[0]["key"] != made[1]["key"]
    assert control.ledger.settings.clients.keys == {}


async def test_a_node_is_probed_now(client: aiohttp.ClientSession) -> None:
    status, told, _ = await sent(client, "POST", "/api/v1/nodes/harmony-s0/a/probe")
    assert (status, told["head"], told["answering"]) == (200, 7, True)
    assert (await sent(client, "POST", "/api/v1/nodes/harmony-s0/zz/probe"))[0] == 404


async def test_a_node_is_examined_by_hand(client: aiohttp.ClientSession) -> None:
    status, told, _ = await sent(client, "POST", "/api/v1/nodes/harmony-s0/a/examine")
    assert (status, told["id"], told["examining"]) == (200, "a", False)
    assert told["examination"]["at"] == "2027-01-15T08:00:00+00:00"
    assert (await sent(client, "POST", "/api/v1/nodes/harmony-s0/zz/examine"))[0] == 404


async def test_the_workers_are_shown(client: aiohttp.ClientSession) -> None:
    told = (await sent(client, "GET", "/api/v1/workers"))[1]
    assert (told["workers"][0]["state"], told["replaced"]) == ("serving", 0)


async def next_event(reply: aiohttp.ClientResponse, kind: str) -> dict[str, str]:
    """The next event of a kind, as its fields."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(20):
        while True:
            line = (await reply.content.readline()).decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields.get("event") == kind:
                return fields
            else:
                fields = {}


async def test_who_subscribes_first_misses_nothing_also_after_a_gap(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/events") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["X-Frame-Options"] == "DENY"
        assert orjson.loads((await next_event(stream, "hello"))["data"])["revision"] == 1
        await sent(client, "PATCH", SETTINGS, WEIGHT, If_Match='"1"')
        heard = await next_event(stream, "settings")
        assert orjson.loads(heard["data"])["change"]["text"] == "networks.harmony-s0.nodes.b.weight: 1 -> 4"
        assert orjson.loads((await next_event(stream, "stats"))["data"])["revision"] == 2
        _, overview, _ = await sent(client, "GET", "/api/v1/overview")
        assert overview["revision"] == 2, "the view and its stream name the same settings"
    await sent(client, "POST", f"{SETTINGS}/undo", {}, If_Match='"2"')
    async with client.get("/api/v1/events", headers={"Last-Event-ID": heard["id"]}) as stream:
        assert orjson.loads((await next_event(stream, "hello"))["data"])["complete"] is True
        assert orjson.loads((await next_event(stream, "settings"))["data"])["revision"] == 3
    async with client.get("/api/v1/events?last=other-1") as stream:
        assert orjson.loads((await next_event(stream, "hello"))["data"])["complete"] is False


async def test_a_reader_that_takes_nothing_is_let_go(control: SampleControl) -> None:
    admin = Admin(SampleView(), "127.0.0.1:0", control=control, files={})
    admin.live_events = LiveEvents(control, stalled=0.05)
    host, port = (await admin.start()).split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"event: hello")
    for _ in range(30):  # more than the buffers on the way hold, less than a reader may be behind
        control.events.tell("settings", {"much": "x" * 1_000_000})
    await until(lambda: not control.events.readers)
    writer.close()
    await admin.close()


async def test_a_node_is_tried_before_it_is_added(client: aiohttp.ClientSession, control: SampleControl) -> None:
    status, told, _ = await sent(client, "POST", TRY, {"network": "harmony-s0", "url": "http://127.0.0.1:1"})
    assert (status, told) == (
        200,
        {"answering": True, "chain_ok": True, "head": 7, "chain_id": 1666600000, "latency": None, "lag": 0, "note": ""},
    )
    assert control.ledger.revision == 1


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        ({"network": "harmony-s0", "url": "ftp://s3cret-token@a"}, 422, "url"),
        ({"network": "harmony-s0", "url": "http://a", "headers": {"X-Key": "s3cret-\ntoken"}}, 422, "headers.X-Key"),
        (
            {"network": "harmony-s0", "url": "http://a", "headers": {"Content-Length": "1"}},
            422,
            "headers.Content-Length",
        ),
        ({"network": "nowhere", "url": "http://s3cret-token@a"}, 404, None),
        ({"network": "harmony-s0"}, 400, None),
        ({"network": "harmony-s0", "url": "http://a", "weight": 2}, 400, None),
    ],
)
async def test_a_node_that_cannot_be_tried_is_refused_by_the_field_and_without_its_secrets(
    client: aiohttp.ClientSession, body: Any, status: int, path: str | None
) -> None:
    got, told, _ = await sent(client, "POST", TRY, body)
    assert (got, [fault["path"] for fault in told.get("errors", ())]) == (status, [path] if path else [])
    assert "s3cret" not in str(told)


async def test_a_node_that_hangs_is_not_waited_for_for_ever(control: SampleControl) -> None:
    class Hanging(SampleControl):
        async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
            return await asyncio.Event().wait() and None

    routes = ChangeRoutes(Hanging(), probe_within=0.01)
    admin = Admin(SampleView(), "127.0.0.1:0", control=control, files={})
    admin.change_routes = routes
    await admin.start()
    async with aiohttp.ClientSession(f"http://{admin.address}", headers=FROM_PAGE) as client:
        status, told, _ = await sent(client, "POST", TRY, {"network": "harmony-s0", "url": "http://a"})
    await admin.close()
    assert (status, told["answering"], told["note"]) == (200, False, "it did not answer within 0.01 s")


FIND, FILE = "/api/v1/nodes/find", "/api/v1/nodes/file"
KEYED = "http://a/s3cret-token"
FIRST = {"networks": {"harmony-s0": {"shard": 0, "nodes": [{"id": "a", "url": KEYED, "weight": 3}]}}}


@pytest.fixture
def empty() -> SampleControl:
    """A proxy that has no network yet, and a Redis with a password."""
    return SampleControl(sample_settings(redis={"url": "redis://u:p4ssword@r"}).model_copy(update={"networks": {}}))


async def test_the_first_nodes_are_found_written_and_served(empty: SampleControl, tmp_path: Path) -> None:
    async with running_admin(empty) as (_, client):
        status, found, _ = await sent(client, "POST", FIND, {"nodes": [KEYED, "http://b/down"]})
        assert (status, [one["trouble"] for one in found["nodes"]]) == (200, ["", "connection refused"])
        assert [one["url"] for one in found["nodes"]] == ["http://a", "http://b"]

        status, told, _ = await sent(client, "POST", FILE, FIRST)
        assert status == 200
        assert "p4ssword" not in told["toml"]
        file = tmp_path / "rpcaccel.toml"
        file.write_text(told["toml"].replace("***", "p4ssword"), "utf-8")
        assert load(file, environ={}).networks == Settings.model_validate(FIRST).networks

        status, told, _ = await sent(client, "PATCH", SETTINGS, FIRST, If_Match='"1"')
        assert (status, list(empty.ledger.settings.networks)) == (200, ["harmony-s0"])
        assert "s3cret-token" not in str(told)
        status, told, _ = await sent(client, "POST", FILE, FIRST)
        assert (status, told["code"]) == (409, "nodes-known")


async def test_no_file_names_a_certificate_that_was_made_for_this_start_alone(empty: SampleControl) -> None:
    made = {"tls_cert": "/made/for/it/cert.pem", "tls_key": "/made/for/it/key.pem"}
    control = SampleControl(empty.ledger.settings.model_copy(update=made), Origin(of_this_start=made))
    async with running_admin(control) as (_, client):
        _, told, _ = await sent(client, "POST", FILE, FIRST)
        await sent(client, "PATCH", SETTINGS, FIRST, If_Match='"1"')
        async with client.get(f"{SETTINGS}/export") as reply:
            exported = await reply.text()
    assert ("s3cret-token" in told["toml"], "harmony-s0" in exported) == (True, True)
    assert "/made/for/it" not in told["toml"] + exported


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        (FIND, {"nodes": []}, 400, "nodes"),
        (FIND, {"nodes": ["http://a"] * 51}, 400, "nodes"),
        (FIND, {"nodes": ["x" * 4201]}, 400, "nodes"),
        (FIND, {"nodes": "http://a"}, 400, "nodes"),
        (FILE, {}, 422, "at least one network"),
        (FILE, {"networks": {"x": {"nodes": [{"id": "a", "url": "ftp://s3cret-token@a"}]}}}, 422, "nodes[0].url"),
    ],
)
async def test_first_nodes_that_cannot_be_are_refused_by_the_field_and_without_their_secrets(
    empty: SampleControl, path: str, body: Any, status: int, says: str
) -> None:
    async with running_admin(empty) as (_, client):
        got, told, _ = await sent(client, "POST", path, body)
    assert (got, says in str(told)) == (status, True), told
    assert "s3cret-token" not in str(told)


async def test_nodes_that_are_badly_written_or_too_slow_are_told() -> None:
    class Odd(SampleControl):
        async def find_nodes(self, texts: Sequence[str]) -> NodesFound:
            if texts == ["slow"]:
                raise TimeoutError
            raise ConfigError([Fault("networks.x.nodes[0].url", "ftp://", "an address")])

    async with running_admin(Odd()) as (_, client):
        status, told, _ = await sent(client, "POST", FIND, {"nodes": ["ftp://"]})
        assert (status, [fault["path"] for fault in told["errors"]]) == (422, ["networks.x.nodes[0].url"])
        status, told, _ = await sent(client, "POST", FIND, {"nodes": ["slow"]})
        assert (status, told["code"]) == (504, "nodes-too-slow")
