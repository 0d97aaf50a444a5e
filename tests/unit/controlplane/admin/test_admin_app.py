import asyncio
import io
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
import structlog

from rpcaccel.controlplane.admin.admin_app import Admin, Page
from rpcaccel.controlplane.admin.admin_routes import ANSWER_HEADERS, ROUTES
from rpcaccel.controlplane.admin.handling import MAX_BODY_BYTES, TITLES
from rpcaccel.controlplane.workers.link import LocalLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.messages import PurgeDone
from rpcaccel.core.stats.counters import TallySnapshot
from tests.support.running_admin import path_of, running_admin
from tests.support.sample_control import SampleControl
from tests.support.sample_errors import TIMEOUT
from tests.support.sample_view import NETWORK, SampleView

FILES = {
    "index.html": Page(b"<!doctype html>", "text/html; charset=utf-8"),
    "src/app.js": Page(b"export {}", "text/javascript; charset=utf-8"),
}


class FailingView(SampleView):
    """A view that can be told to fail."""

    failing = False

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()

    def snapshot(self) -> TallySnapshot:
        self.looked.set()
        if self.failing:
            raise RuntimeError("told to fail")
        return super().snapshot()

    def settings(self) -> Mapping[str, object]:
        if self.failing:
            raise RuntimeError("told to fail")
        return super().settings()


@pytest.fixture
def view() -> FailingView:
    return FailingView()


@pytest.fixture
async def admin(view: FailingView) -> AsyncIterator[Admin]:
    async with running_admin(view=view, files=FILES, interval=0.02) as (admin, _):
        yield admin


@pytest.fixture
async def client(admin: Admin) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://{admin.address}") as session:
        yield session


async def next_look(view: FailingView) -> None:
    view.looked.clear()
    async with asyncio.timeout(20):
        await view.looked.wait()


async def test_every_route_answers_with_the_strict_headers(client: aiohttp.ClientSession) -> None:
    for route in ROUTES:
        path = path_of(route)
        async with client.request(route.method, path) as reply:
            expected = 403 if route.guard in ("change", "login") else 200 if route.method == "GET" else 400
            assert reply.status == expected, path
            assert {name: reply.headers[name] for name in ANSWER_HEADERS} == ANSWER_HEADERS
    assert "unsafe" not in ANSWER_HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8889", "127.0.0.1.evil.example", "[2001:db8::1]", "10.0.0.1"]
)
async def test_no_route_answers_under_a_name_that_is_not_ours(client: aiohttp.ClientSession, host: str) -> None:
    for route in ROUTES:
        path = path_of(route)
        async with client.request(route.method, path, headers={"Host": host}) as reply:
            assert reply.status == 421, path
            assert (await reply.json(content_type="application/problem+json"))["status"] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8889", "127.0.0.1", "[::1]", "[::1]:8889"])
async def test_names_of_this_machine_are_ours(client: aiohttp.ClientSession, host: str) -> None:
    async with client.get("/healthz", headers={"Host": host}) as reply:
        assert (reply.status, await reply.text()) == (200, "ok\n")


async def test_prometheus_reads_what_was_counted(client: aiohttp.ClientSession, view: FailingView) -> None:
    view.advance(0.5)
    async with client.get("/metrics") as reply:
        text = await reply.text()
        assert reply.headers["Content-Type"].startswith("text/plain")
    assert f"rpcaccel_requests_total {float(view.tally.requests)}" in text


async def test_the_api_tells_the_sampled_traffic(
    admin: Admin, client: aiohttp.ClientSession, view: FailingView
) -> None:
    view.advance(0.5)
    admin.sample()
    async with client.get("/api/v1/overview") as reply:
        overview = await reply.json()
    async with client.get("/api/v1/methods") as reply:
        methods = await reply.json()
    async with client.get("/api/v1/nodes") as reply:
        nodes = await reply.json()
    async with client.get("/api/v1/cache") as reply:
        cache = await reply.json()
    assert overview["readings"]["calls"] > 100
    assert {node["id"] for node in nodes["nodes"]} == {"a", "b", "c"}
    assert {method["method"] for method in methods["methods"]} >= {"hmyv2_getBlocks", "hmyv2_call"}
    assert [tier["name"] for tier in cache["tiers"]] == ["memory", "redis"]
    assert view.secret not in str((overview, methods, nodes, cache))


async def test_errors_that_no_rule_knew_are_told_and_rules_can_be_tried(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/errors") as reply:
        (error,) = (await reply.json())["unclassed"]
    assert (error["text"], error["count"], error["nodes"]) == ("shard # is on holiday", 1, {"c": 1})
    question = {"network": error["network"], "message": error["message"], "code": error["code"]}
    async with client.post("/api/v1/errors/try", json=question) as reply:
        said = await reply.json()
    assert (said["kind"], said["by"]) == ("unknown", "nobody")
    rules = [{"kind": "rate-limited", "contains": ["on holiday"]}]
    async with client.post("/api/v1/errors/try", json={**question, "rules": rules}) as reply:
        said = await reply.json()
    assert (said["kind"], said["by"], said["client_code"]) == ("rate-limited", "tried", -32005)
    async with client.post("/api/v1/errors/try", json={**question, "network": "mars"}) as reply:
        assert reply.status == 400
        assert "no network is called 'mars'" in (await reply.json(content_type=None))["detail"]


async def test_errors_that_clients_got_are_told_and_opened_to_their_samples(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/errors?minutes=1&network=harmony-s0") as reply:
        told = await reply.json()
    groups = {(group["fault"], group["method"]): group for group in told["groups"]}
    assert groups["service", "hmyv2_getBlockByNumber"]["lately"] == 40
    assert told["codes"] == {"-32000": 40, "-32601": 7, "-32005": 3}
    assert [one["method"] for one in told["unknown_methods"]] == ["hmyv2_nope"]
    async with client.get(f"/api/v1/errors/{TIMEOUT.id}") as reply:
        (sample,) = (await reply.json())["samples"]
    assert (sample["client"], sample["request"], sample["attempts"][0]["said"]) == (
        "shop",
        "abc-1",
        "no answer within 10 s",
    )


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("?minutes=0", 422, "minutes: found '0', expected a whole number from 1 to 60"),
        ("?minutes=61", 422, "expected a whole number from 1 to 60"),
        ("?minutes=%D9%A3", 422, "expected a whole number from 1 to 60"),
        ("?network=mars", 404, "no network is called 'mars'"),
        ("/nothing", 404, "no such group of errors is known"),
    ],
)
async def test_what_is_asked_wrongly_about_errors_is_said(
    client: aiohttp.ClientSession, path: str, status: int, said: str
) -> None:
    async with client.get(f"/api/v1/errors{path}") as reply:
        assert reply.status == status
        assert said in (await reply.json(content_type=None))["detail"]


async def test_the_page_and_its_files_are_served_by_name(client: aiohttp.ClientSession) -> None:
    for path, body in (("/", b"<!doctype html>"), ("/index.html", b"<!doctype html>"), ("/src/app.js", b"export {}")):
        async with client.get(path) as reply:
            assert (reply.status, await reply.read()) == (200, body)


@pytest.mark.parametrize("path", ["/nothing", "/src/", "/..%2f..%2fetc/passwd", "/src//etc/passwd", "/api/v1/unknown"])
async def test_what_is_not_there_is_a_problem_with_a_status(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as reply:
        assert reply.status == 404
        assert reply.headers["Content-Type"] == "application/problem+json"


async def test_a_method_that_is_not_served_is_named_with_those_that_are(client: aiohttp.ClientSession) -> None:
    async with client.post("/api/v1/nodes", json={}) as reply:
        assert reply.status == 405
        assert reply.headers["Allow"] == "GET"
        assert reply.headers["X-Frame-Options"] == "DENY"


async def test_a_view_that_fails_is_a_plain_500_and_sampling_goes_on(
    admin: Admin, client: aiohttp.ClientSession, view: FailingView
) -> None:
    view.failing = True
    async with client.get("/api/v1/overview") as reply:
        assert reply.status == 500
        assert "told to fail" not in await reply.text()
        assert reply.headers["Content-Security-Policy"] == ANSWER_HEADERS["Content-Security-Policy"]
    await next_look(view)
    view.failing = False
    view.advance(0.1)
    # Two looks: the first may have been under way when the traffic came.
    await next_look(view)
    await next_look(view)
    assert any(point.calls for point in admin.history.buckets())


async def test_it_can_be_closed_twice_and_says_where_it_is(view: FailingView) -> None:
    admin = Admin(view, "[::1]:0", control=SampleControl(), files={})
    assert repr(admin) == "<Admin [::1]:0 down>"
    address = await admin.start()
    assert repr(admin) == f"<Admin {address} up>"
    await admin.close()
    await admin.close()
    assert repr(admin).endswith("down>")


BODIES = [
    b'{"key": "\xff"}',
    b"\xff",
    b"[" * 200_000,
    b'{"call": ' + b"[" * 200_000,
    b'{"a":' * 100_000,
    b"null",
    b"1e999",
]
ASKED = ["purge", "record", "explain", "run", "errors/try", "keys", "settings/undo", "reload", "session"]


@pytest.mark.parametrize("path", ASKED)
async def test_a_body_that_cannot_be_read_is_a_problem_with_code_title_and_detail(
    client: aiohttp.ClientSession, path: str
) -> None:
    headers = {"X-Rpcaccel-Request": "page", "Content-Type": "application/json", "If-Match": "*"}
    for body in BODIES:
        async with client.post(f"/api/v1/{path}", data=body, headers=headers) as reply:
            found = await reply.json(content_type=None)
            assert reply.status in (400, 404, 422), (body[:20], found)
            assert found["code"] in TITLES, body[:20]
            assert found["title"] == TITLES[found["code"]], body[:20]
    async with client.post(f"/api/v1/{path}", data=io.BytesIO(b" " * (MAX_BODY_BYTES + 1)), headers=headers) as reply:
        assert (reply.status, (await reply.json(content_type=None))["code"]) == (413, "too-large")


async def test_who_purges_or_begins_to_record_is_written_into_the_log(client: aiohttp.ClientSession) -> None:
    async def ask(path: str, body: dict[str, object]) -> None:
        async with client.post(f"/api/v1/{path}", json=body, headers={"X-Rpcaccel-Request": "page"}) as reply:
            assert reply.status == 200

    with structlog.testing.capture_logs() as lines:
        await ask("purge", {"method": "eth_call", "dry_run": True})
        await ask("purge", {"method": "eth_call"})
        for body in ({}, {}, {"stop": True}, {}):  # begun, taken away, ended, begun again
            await ask("record", body)
    told = [(line["event"], line["by"]) for line in lines]
    recorded = ("calls are being recorded", "local")
    assert told == [("kept answers are purged", "local"), recorded, recorded]


class Purging(LocalLink):
    """A worker that carries a purge out so far."""

    def __init__(self, done: PurgeDone) -> None:
        super().__init__("w1", bind("127.0.0.1:0", "listen"), lambda _hint: None)
        self._done = done

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        return self._done


async def test_a_purge_is_told_to_others_with_whether_it_is_complete_here(view: FailingView) -> None:
    for done in (PurgeDone(1, 2), PurgeDone(1, 2, disk_complete=False)):
        control, link = SampleControl(), Purging(done)
        async with (
            running_admin(control, view, links=[link]) as (_, http),
            http.post("/api/v1/purge", json={"all": True}) as reply,
        ):
            assert (await reply.json())["complete"] is done.complete
        assert control.purges == [(b'{"all": true}', done.complete)]
        await link.drain(0.0)


async def test_a_client_that_leaves_in_the_middle_of_its_request_is_no_failure_of_ours(admin: Admin) -> None:
    port = int(admin.address.rpartition(":")[2])
    head = "POST /api/v1/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n"
    with structlog.testing.capture_logs() as lines:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{")
        writer.close()
        await admin.close()
    assert lines == []


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/api/v1/nodes", 405), ("PUT", "/nowhere", 405), ("GET", "//nowhere", 404)]
)
async def test_an_expectation_that_cannot_be_met_is_refused_wherever_it_is_asked(
    admin: Admin, method: str, path: str, status: int
) -> None:
    for expected, told in ((b"", status), (b"Expect: \xff\r\n", 417), (b"Expect: tea\r\n", 417)):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(admin.address.rpartition(":")[2]))
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n".encode()
        writer.write(head + expected + b"\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(f"HTTP/1.1 {told} ".encode()), answer
        assert (b"Allow: GET\r\n" in answer) == (told == 405)


async def test_a_node_that_fails_what_others_answer_needs_attention(
    view: FailingView, client: aiohttp.ClientSession
) -> None:
    await next_look(view)
    await next_look(view)
    for _ in range(30):
        view.tally.node(NETWORK, "a").contradict("hmyv2_call")

    async def said() -> list[str]:
        await next_look(view)
        async with client.get("/api/v1/overview") as reply:
            return [one["text"] for one in (await reply.json())["attention"] if one["subject"] == f"{NETWORK}/a"]

    async with asyncio.timeout(20):
        while not (texts := await said()):
            pass
    assert texts[0].startswith(f"node {NETWORK}/a fails hmyv2_call where others answer it: 30 of 30 in the last")
