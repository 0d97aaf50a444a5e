"""One request to the admin side, and its refusals in a line."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rpcaccel.cli.admin_client import AdminClient, RemoteError, meanwhile


async def served(status: int, body: bytes) -> tuple[TestServer, list[dict[str, str]]]:
    seen: list[dict[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(dict(request.headers))
        return web.Response(status=status, body=body)

    server = TestServer(web.Application())
    server.app.router.add_route("*", "/{path:.*}", answer)  # type: ignore[arg-type]
    await server.start_server()
    return server, seen


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, b'{"title": "t", "detail": "say one of"}', "say one of"),
        (421, b'{"title": "wrong host"}', "wrong host"),
        (422, rb'{"title": "t", "detail": "it says \u001b[2J\nand more"}', r"it says \\x1b\[2J\nand more"),
        (500, b"<html>", "the admin side answered 500"),
        (200, b"<html>", "is not the admin side"),
        (404, b"no network is served on /x", r"is not the admin side of rpcaccel \(HTTP 404\)"),
    ],
)
async def test_a_refusal_is_told_in_its_own_words(status: int, body: bytes, said: str) -> None:
    server, _ = await served(status, body)
    with pytest.raises(RemoteError, match=said):
        await asyncio.to_thread(AdminClient(f"127.0.0.1:{server.port}").post, "x", {})
    await server.close()


async def test_a_password_may_have_any_letters_and_a_line_break_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server, seen = await served(200, b"{}")
    for password in ("pässwörd", "пароль"):
        monkeypatch.setenv("RPCACCEL_TOKEN", f"ops:{password}\n")
        await asyncio.to_thread(AdminClient(f"127.0.0.1:{server.port}").post, "x", {})
        assert seen[-1]["Authorization"] == f"Bearer ops:{password}"
    await server.close()


async def test_who_is_not_logged_in_is_told_how_a_command_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = await served(401, b'{"title": "Log in first"}')
    admin = f"127.0.0.1:{server.port}"
    monkeypatch.delenv("RPCACCEL_TOKEN", raising=False)
    with pytest.raises(RemoteError, match=r"^the admin side asks who it is: set RPCACCEL_TOKEN to NAME:PASSWORD$"):
        await asyncio.to_thread(AdminClient(admin).post, "x", {})
    monkeypatch.setenv("RPCACCEL_TOKEN", "ops:secret")
    with pytest.raises(RemoteError, match=r"^the name or the password in RPCACCEL_TOKEN is wrong$"):
        await asyncio.to_thread(AdminClient(admin).post, "x", {})
    await server.close()


def test_a_token_of_several_lines_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPCACCEL_TOKEN", "ops:secret\nX-Other: 1")
    with pytest.raises(RemoteError, match=r"^RPCACCEL_TOKEN: expected NAME:PASSWORD in one line$"):
        AdminClient("127.0.0.1:1").post("x", {})


@pytest.mark.parametrize("path", ["nodes", "settings", "record", "purge"])
async def test_another_program_that_speaks_json_is_not_the_admin_side(path: str) -> None:
    for body in (b'{"jsonrpc": "2.0", "id": null, "error": {}}', b"[]", b"5"):
        server, _ = await served(200, body)
        with pytest.raises(RemoteError, match="is not the admin side of rpcaccel"):
            await asyncio.to_thread(AdminClient(f"127.0.0.1:{server.port}").post, path, {})
        await server.close()


async def test_a_file_of_another_program_is_not_the_settings() -> None:
    server, _ = await served(200, b"")
    with pytest.raises(RemoteError, match="is not the admin side of rpcaccel"):
        await asyncio.to_thread(AdminClient(f"127.0.0.1:{server.port}").text, "/x", begins="# rpcaccel")
    await server.close()


async def test_a_token_is_told_to_nobody_that_the_admin_side_sends_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPCACCEL_TOKEN", "ops:secret")
    other, seen = await served(200, b'{"nodes": []}')
    where = f"http://127.0.0.1:{other.port}"

    async def elsewhere(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{where}/login?key=hidden"})

    server = TestServer(web.Application())
    server.app.router.add_route("*", "/{path:.*}", elsewhere)  # type: ignore[arg-type]
    await server.start_server()
    with pytest.raises(RemoteError, match=rf"^what answers at \S+ sends on to {where}: say --admin {where} if") as said:
        await asyncio.to_thread(AdminClient(f"127.0.0.1:{server.port}").get, "nodes")
    assert "hidden" not in str(said.value)
    assert not seen
    await server.close()
    await other.close()


async def test_who_asks_in_a_loop_does_not_hold_it_up() -> None:
    assert await meanwhile(lambda: 5) == 5
    with pytest.raises(RemoteError, match="--admin"):
        await meanwhile(lambda: AdminClient("").post("x", {}))
    never = threading.Event()
    asking = asyncio.create_task(meanwhile(never.wait))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    never.set()


async def test_a_token_is_sent_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPCACCEL_TOKEN", "ops:secret")
    server, seen = await served(200, b'{"a": 1}')
    assert await asyncio.to_thread(AdminClient(f"http://127.0.0.1:{server.port}/").post, "x", {}) == {"a": 1}
    assert (seen[0]["Authorization"], seen[0]["X-Rpcaccel-Request"]) == ("Bearer ops:secret", "cli")
    await server.close()


@pytest.mark.parametrize("admin", ["ops:secret@127.0.0.1:8889", "http://ops:secret@a:1/", "http://ops:secret@[::1:1"])
def test_a_password_in_the_address_is_not_printed(admin: str) -> None:
    with pytest.raises(RemoteError, match="RPCACCEL_TOKEN=NAME:PASSWORD") as said:
        AdminClient(admin).post("x", {})
    assert "secret" not in str(said.value)


@pytest.mark.parametrize("admin", ["", "localhost", "127.0.0.1:99999", "127.0.0.1:x", "http://", "[::1:1"])
def test_an_address_that_is_none_is_told_before_anything_is_asked(admin: str) -> None:
    with pytest.raises(RemoteError, match=r"--admin: found '.*', expected HOST:PORT such as 127\.0\.0\.1:8889"):
        AdminClient(admin).post("x", {})


def test_why_nobody_answers_is_told_without_a_number(unused_tcp_port: int) -> None:
    with pytest.raises(RemoteError, match=r"no answer from the admin side at .*: Connection refused \(--admin or"):
        AdminClient(f"127.0.0.1:{unused_tcp_port}").post("x", {})


@pytest.mark.parametrize(
    "said", [b"-ERR unknown command\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"\xff\r\n\r\n"]
)
async def test_what_speaks_no_http_is_said(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RemoteError, match="is not the admin side"):
            await asyncio.to_thread(AdminClient(f"127.0.0.1:{port}").post, "x", {})
