"""One request to the admin side, and its refusals in a line."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rpcaccel.commands.remote import RemoteError, post


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
        (500, b"<html>", "the admin side answered 500"),
        (200, b"<html>", "is not the admin side"),
        (404, b"no network is served on /x", r"is not the admin side of rpcaccel \(HTTP 404\)"),
    ],
)
async def test_a_refusal_is_told_in_its_own_words(status: int, body: bytes, said: str) -> None:
    server, _ = await served(status, body)
    with pytest.raises(RemoteError, match=said):
        await asyncio.to_thread(post, f"127.0.0.1:{server.port}", "/x", "{}")
    await server.close()


async def test_a_token_is_sent_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPCACCEL_TOKEN", "ops:secret")
    server, seen = await served(200, b'{"a": 1}')
    assert await asyncio.to_thread(post, f"http://127.0.0.1:{server.port}/", "/x", "{}") == {"a": 1}
    assert (seen[0]["Authorization"], seen[0]["X-Rpcaccel-Request"]) == ("Bearer ops:secret", "cli")
    await server.close()


@pytest.mark.parametrize("admin", ["", "localhost", "127.0.0.1:99999", "127.0.0.1:x", "http://", "[::1:1"])
def test_an_address_that_is_none_is_told_before_anything_is_asked(admin: str) -> None:
    with pytest.raises(RemoteError, match=r"--admin: found '.*', expected HOST:PORT such as 127\.0\.0\.1:8889"):
        post(admin, "/x", "{}")


def test_why_nobody_answers_is_told_without_a_number(unused_tcp_port: int) -> None:
    with pytest.raises(RemoteError, match=r"no answer from the admin side at .*: Connection refused \(--admin or"):
        post(f"127.0.0.1:{unused_tcp_port}", "/x", "{}")


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
            await asyncio.to_thread(post, f"127.0.0.1:{port}", "/x", "{}")
