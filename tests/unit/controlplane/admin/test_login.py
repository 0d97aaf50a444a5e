"""Logging in, and that every route is guarded."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp.test_utils import TestClient, TestServer

from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_app import Admin, Page
from rpcaccel.controlplane.admin.admin_routes import ROUTES
from rpcaccel.controlplane.admin.login_throttle import MAX_LOGIN_LINES, FailedLogins
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.dataplane.certificate import ServedCertificate
from tests.support.running_admin import FROM_PAGE, path_of, running_admin
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView
from tests.support.services import SUPPORT
from tests.support.waiting import until

SESSION = "/api/v1/session"
ACCOUNTS: dict[str, Any] = {
    "ops": {"password": hash_password("ops-pw", log_n=4), "role": "admin"},
    "eye": {"password": hash_password("eye-pw", log_n=4)},
}
OPEN = {("GET", "/healthz"), ("GET", SESSION), ("GET", "/{file:[^/].*|}")}
"""What anyone may ask for. The page is open since it is what one logs in on; it holds nothing but itself."""
QUESTIONS = {("POST", "/api/v1/explain"), ("POST", "/api/v1/errors/try")}
"""What is asked with a body and changes nothing."""
CERTIFICATE = SUPPORT / "loopback.pem"


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    control = SampleControl(sample_settings(admin={"accounts": ACCOUNTS, "names": ["rpc.example"]}))
    files = {"index.html": Page(b"<!doctype html>", "text/html")}
    async with running_admin(control, settings=lambda: control.ledger.settings.admin, files=files) as (admin, _):
        yield admin


@pytest.fixture
async def client(admin: Admin) -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(f"http://{admin.address}", cookie_jar=jar) as session:
        yield session


async def log_in(client: aiohttp.ClientSession, user: str, password: str) -> aiohttp.ClientResponse:
    async with client.post(SESSION, json={"user": user, "password": password}, headers=FROM_PAGE) as reply:
        await reply.read()
        return reply


async def test_no_route_is_open_but_those_that_have_to_be(client: aiohttp.ClientSession) -> None:
    for route in ROUTES:
        async with client.request(route.method, path_of(route), headers=FROM_PAGE) as reply:
            if (route.method, route.path) in OPEN:
                assert reply.status == 200, route
            elif route.guard == "login":
                assert reply.status in (204, 400), route
            else:
                assert reply.status == 401, route
                assert (await reply.json(content_type=None))["code"] == "not-logged-in"


async def test_every_route_that_changes_something_needs_the_admin_role_and_our_own_page(
    client: aiohttp.ClientSession,
) -> None:
    assert (await log_in(client, "eye", "eye-pw")).status == 200
    for route in ROUTES:
        reads = route.method == "GET" or (route.method, route.path) in QUESTIONS
        assert reads == (route.guard in ("open", "read")), route
        async with client.request(route.method, path_of(route)) as reply:
            assert reply.status == (200 if route.method == "GET" else 400 if reads else 403), route
        if route.guard == "change":
            async with client.request(route.method, path_of(route), headers=FROM_PAGE) as reply:
                assert reply.status == 403, route
                assert (await reply.json(content_type=None))["code"] == "not-allowed"
    await log_in(client, "ops", "ops-pw")
    for route in ROUTES:
        if route.guard in ("change", "login"):
            for headers in (
                {},
                {**FROM_PAGE, "Origin": "http://evil.example"},
                {**FROM_PAGE, "Sec-Fetch-Site": "cross-site"},
            ):
                async with client.request(route.method, path_of(route), headers=headers) as reply:
                    assert reply.status == 403, route
                    assert (await reply.json(content_type=None))["code"] == "cross-site"
        if route.guard == "change":
            async with client.request(route.method, path_of(route), headers=FROM_PAGE) as reply:
                assert reply.status not in (401, 403), route


async def test_logging_in_and_out(client: aiohttp.ClientSession) -> None:
    async with client.get(SESSION) as reply:
        assert await reply.json() == {"required": True, "user": None, "role": None}
    reply = await log_in(client, "ops", "ops-pw")
    assert await reply.json() == {"required": True, "user": "ops", "role": "admin"}
    cookie = SimpleCookie(reply.headers["Set-Cookie"])["rpcaccel_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", "")
    async with client.get("/api/v1/nodes") as got:
        assert got.status == 200
    async with client.delete(SESSION, headers=FROM_PAGE) as gone:
        assert gone.status == 204
    async with client.get("/api/v1/nodes") as got:
        assert got.status == 401


async def test_a_password_is_not_compared_any_more_when_its_client_has_hung_up(admin: Admin) -> None:
    tries = admin.session._tries
    body = b'{"user": "ops", "password": "ops-pw"}'
    with structlog.testing.capture_logs() as lines:
        async with tries._comparing:
            _, writer = await asyncio.open_connection(*admin.address.split(":"))
            writer.write(b"POST %b HTTP/1.1\r\nHost: %b\r\n" % (SESSION.encode(), admin.address.encode()))
            writer.write(b"X-Rpcaccel-Request: page\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await until(lambda: "1 waiting" in repr(tries))
            writer.close()
            assert admin._runner.server is not None
            server = admin._runner.server
            await until(lambda: not any(connection.transport for connection in server.connections))
        await until(lambda: "0 waiting" in repr(tries) and any("why" in line for line in lines))
    assert [line["why"].partition(",")[0] for line in lines if "why" in line] == ["the client hung up"]
    assert repr(admin.session) == "<Gate <Sessions 0, None>>"


async def test_a_failed_login_is_in_the_log_and_in_the_stream_and_the_name_is_made_safe(admin: Admin) -> None:
    control = admin.change_routes.control
    place = control.events.subscribe()
    with structlog.testing.capture_logs() as lines:
        async with aiohttp.ClientSession(f"http://{admin.address}") as client:
            await log_in(client, "ops", "wrong-pw")
            await log_in(client, "\n\x1b[31mroot\u202e" + "x" * 100, "wrong-pw")
            await (await client.get("/metrics", headers={"Authorization": "Bearer eye:wrong-pw"})).read()
    failed = [line for line in lines if line["event"] == "a login failed"]
    safe = r"\n\x1b[31mroot\u202e" + "x" * 53
    assert [(line["user"], line["address"], line["why"]) for line in failed] == [
        ("ops", "127.0.0.1", "wrong password"),
        (safe, "127.0.0.1", "no such account"),
        ("eye", "127.0.0.1", "wrong password"),
    ]
    told = [place.queue.get_nowait() for _ in range(3)]
    assert [event.data["user"] for event in told if event and event.kind == "login"] == ["ops", safe, "eye"]
    assert "wrong-pw" not in str((lines, told))


def test_failed_logins_are_told_within_bounds_and_what_is_left_out_is_counted() -> None:
    now = 0.0
    failed = FailedLogins(Events(), lambda: now, lambda: 0.0)
    with structlog.testing.capture_logs() as lines:
        for _ in range(MAX_LOGIN_LINES + 30):
            failed.tell("ops", "1.1.1.1", "wrong password")
        assert len(lines) == MAX_LOGIN_LINES
        now += 60
        failed.tell("ops", "1.1.1.1", "wrong password")
        failed.tell("ops", "1.1.1.1", "wrong password")
    assert [line.get("left_out") for line in lines[MAX_LOGIN_LINES:]] == [30, None]


@pytest.mark.parametrize(("trusted", "counted"), [([], "127.0.0.1"), (["127.0.0.1"], "203.0.113.9")])
async def test_the_address_is_the_one_that_trusted_proxies_tell(trusted: list[str], counted: str) -> None:
    control = SampleControl(sample_settings(admin={"accounts": ACCOUNTS}, clients={"trusted_proxies": trusted}))
    settings = control.ledger.settings.admin
    admin = Admin(SampleView(), "127.0.0.1:0", control=control, settings=lambda: settings, files={})
    headers = {"Authorization": "Bearer ops:wrong", "X-Forwarded-For": "10.1.1.1, 203.0.113.9"}
    with structlog.testing.capture_logs() as lines:
        async with (
            TestClient(TestServer(admin.application())) as client,
            client.get("/metrics", headers=headers) as reply,
        ):
            assert reply.status == 401
    assert [line["address"] for line in lines if line["event"] == "a login failed"] == [counted]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"user": "ops"}', b'{"user": 1, "password": "x"}'])
async def test_a_login_without_name_and_password_is_no_login(client: aiohttp.ClientSession, body: bytes) -> None:
    async with client.post(SESSION, data=body, headers=FROM_PAGE) as reply:
        assert reply.status == 400


async def test_a_program_brings_a_token_and_is_named_in_the_audit(client: aiohttp.ClientSession) -> None:
    token = {"Authorization": "Bearer ops:ops-pw", "If-Match": "*"}
    async with client.patch("/api/v1/settings", json={"workers": 2}, headers=token) as reply:
        assert (reply.status, (await reply.json())["change"]["by"]) == (200, "ops")
    async with client.patch("/api/v1/settings", json={}, headers={"Authorization": "Bearer eye:eye-pw"}) as reply:
        assert reply.status == 403
    async with client.get(SESSION, headers={"Authorization": "Bearer eye:eye-pw"}) as reply:
        assert (await reply.json())["user"] == "eye"


async def test_it_answers_under_the_names_it_was_given(client: aiohttp.ClientSession) -> None:
    for host, status in (("rpc.example", 200), ("RPC.example:443", 200), ("other.example", 421)):
        async with client.get("/healthz", headers={"Host": host}) as reply:
            assert reply.status == status


@pytest.mark.parametrize(
    ("listen", "host", "status"),
    [
        ("[fd00::5]:8889", "[fd00::5]:8889", 200),
        ("[fd00::5]:8889", "[FD00::5]", 200),
        ("[fd00::5]:8889", "[fd00::6]:8889", 421),
        ("10.0.0.5:8889", "10.0.0.5:8889", 200),
        ("10.0.0.5:8889", "10.0.0.6", 421),
    ],
)
async def test_it_answers_under_the_address_it_listens_on(listen: str, host: str, status: int) -> None:
    settings = sample_settings(admin={"accounts": ACCOUNTS}).admin
    admin = Admin(SampleView(), listen, control=SampleControl(), settings=lambda: settings, files={})
    async with (
        TestClient(TestServer(admin.application())) as client,
        client.get("/healthz", headers={"Host": host}) as reply,
    ):
        assert reply.status == status


async def test_a_stream_ends_when_its_reader_may_read_no_more() -> None:
    control = SampleControl(sample_settings(admin={"accounts": ACCOUNTS}))
    token = {"Authorization": "Bearer eye:eye-pw"}
    async with (
        running_admin(control, settings=lambda: control.ledger.settings.admin, headers=token) as (_, client),
        client.get("/api/v1/events") as stream,
    ):
        assert (await stream.content.readline()).startswith(b"event: hello")
        control.ledger.settings = sample_settings(admin={"accounts": {"ops": ACCOUNTS["ops"]}})
        await stream.content.read()


async def test_with_a_certificate_it_speaks_tls_and_its_cookie_is_secure() -> None:
    certificate = ServedCertificate(str(CERTIFICATE), str(CERTIFICATE))
    settings = sample_settings(admin={"accounts": ACCOUNTS}).admin
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        running_admin(settings=lambda: settings, certificate=certificate) as (admin, _),
        aiohttp.ClientSession(f"https://{admin.address}", connector=connector) as client,
    ):
        reply = await log_in(client, "ops", "ops-pw")
        assert "Secure" in reply.headers["Set-Cookie"]


def test_with_an_account_it_may_be_reached_from_elsewhere() -> None:
    settings = sample_settings(admin={"accounts": ACCOUNTS}).admin
    Admin(SampleView(), "0.0.0.0:0", control=SampleControl(), settings=lambda: settings, files={})
