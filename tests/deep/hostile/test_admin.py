"""The admin port against what is no request: each is answered as a mistake of who asks, and the log stays empty."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import Any

import pytest
import structlog

from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.admin_routes import ROUTES
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView

HOST = b"Host: 127.0.0.1\r\nConnection: close\r\n"
OURS = b"X-Rpcaccel-Request: page\r\nIf-Match: *\r\n"
TOLD = {100, 200, 204, 400, 401, 403, 404, 405, 409, 412, 413, 415, 417, 421, 422, 428, 429, 431}
"""Statuses that a stranger may be answered with: none says that something of ours broke."""
ACCOUNTS: dict[str, Any] = {"ops": {"password": hash_password("ops-pw", log_n=4), "role": "admin"}}

LINES = [
    b"", b"\0\1\2", b"GET", b"GET /", b"GET / HTTP/9.9", b"GET / HTTP/1.1 x", b"G\0T / HTTP/1.1", b"PRI * HTTP/2.0",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"GET http://[::1 HTTP/1.1", b"GET http://a:b/ HTTP/1.1",
    b"GET http://127.0.0.1:99999/ HTTP/1.1", b"CONNECT 127.0.0.1:443 HTTP/1.1", b"OPTIONS * HTTP/1.1",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1", b"GET /?" + b"a" * 9000 + b" HTTP/1.1",
]  # fmt: skip
PATHS = [
    b"//", b"/%", b"/%zz", b"/%00", b"/%ff%fe", b"/\xff\xfe", b"/\xc3\xa9", b"/%2e%2e/%2e%2e/etc/passwd", b"/;x", b"/[",
    b"/api/v1/..%2f..%2fetc", b"/api/v1/changes?limit=%ff", b"/api/v1/changes?limit=%d9%a3", b"/api/v1/overview?%",
    b"/api/v1/history?from=nan&to=inf", b"/api/v1/methods/history?method=%ed%a0%80", b"/api/v1/nodes/%ff/%00/probe",
]  # fmt: skip
METHODS = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"POST", b"PATCH", b"DELETE", b"BREW"]
HEADERS = [
    b"Host: \xff", b"Host: [", b"Host: [::1", b"Host:", b"Host: a:b:c", b"Cookie: rpcaccel_session=\xff",
    b'Cookie: rpcaccel_session="a\\', b"Cookie: =;=;;;", b"Cookie: " + b"a=b; " * 1500,
    b"Authorization: Bearer \xff:\xff",
    b"Authorization: Bearer :", b"Authorization: Bearer \xed\xa0\x80:x", b"Authorization: Bearer " + b"a" * 7000,
    b"Authorization: Basic \xff", b"If-Match: \xff", b'If-Match: "99999999999999999999"', b'If-Match: "\xd9\xa3"',
    b"Origin: http://[", b"Origin: \xff", b"Sec-Fetch-Site: \xff", b"X-Rpcaccel-Request: \xff",
    b"X-Forwarded-For: \xff",
    b"Content-Type: \xff", b"Content-Type: application/json; charset=nope", b"Content-Type: ;;;",
    b"Content-Type: text/html",
    b"Content-Encoding: gzip", b"Content-Encoding: deflate", b"Content-Encoding: br", b"Content-Encoding: nope",
    b"Transfer-Encoding: gzip", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6", b"Expect: 100-continue", b"Expect: something", b"Expect: \xff",
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13", b"Upgrade: h2c",
    b"Range: bytes=\xff", b"If-Modified-Since: Thu, 99 Foo 99999 00:00:00 GMT", b"X: " + b"a" * 9000, b"X: a\0b",
    b"X Y: a", b": a", b"X: a\r\n b", b"A: b\r\n" * 500 + b"A: b", b"Accept-Encoding: \xff",
]  # fmt: skip
BODIES = [
    b"{", b"\xff", b'"\xff"', b"[]", b"null", b"1e999", b"NaN", b'{"a":' * 2000, b"[" * 100_000, b" " * 1_100_000,
    b'{"user":"\\ud800","password":"\\ud800"}', b'{"user":"\\u0000","password":"x"}', b'{"listen":"\\ud800"}',
    b'{"networks":{"\\ud800":{"nodes":[]}}}', b'{"networks":{"harmony-s0":{"nodes":{"":null}}}}', b'{"networks":null}',
    b'{"admin":{"accounts":{"\\ud800":{}}}}', b'{"workers":99999999999999999999999999}',
    b'{"workers":"' + b"9" * 5000 + b'"}',
    b'{"memory":{"size":"1e9999"}}', b'{"memory":{"size":"' + b"9" * 5000 + b'"}}', b'{"listen":"127.0.0.1:\xd9\xa3"}',
    b'{"networks":{"harmony-s0":{"nodes":{"a":{"url":"http://[::1"}}}}}', b'{"redis":{"url":"redis://%ff@[::1"}}',
    b'{"to":99999999999999999999999999999}', b'{"to":1.5}', b'{"call":{"method":"\\ud800","id":1},"network":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{},"\\ud800"]}', b'{"sample":1e308}',
    b'{"method":"\\ud800"}',
    b'{"network":"harmony-s0","message":"\\ud800","code":99999999999999999999}', b'{"default_network":"\\ud800"}',
    b'{"admin":{"tls_cert":"\\u0000","tls_key":"\\u0000"}}', b'{"admin":{"tls_cert":"\\ud800","tls_key":"\\ud800"}}',
]  # fmt: skip
CHUNKS = [
    b"zz\r\nabc\r\n0\r\n\r\n", b"-1\r\n", b"fffffffffffffffff\r\nx", b"3\r\nabcd\r\n0\r\n\r\n", b"\0",
    b"3;" + b"x" * 9000 + b"\r\nabc\r\n0\r\n\r\n", b"0\r\n" + b"T: x\r\n" * 300 + b"\r\n",
]  # fmt: skip


def request(method: bytes, path: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return method + b" " + path + b" HTTP/1.1\r\n" + HOST + headers + length + b"\r\n" + body


def everything() -> list[bytes]:
    """Each line, path and header once, and each body and each bad chunk to each route that reads one."""
    routes = [
        (
            route.method.encode(),
            re.sub(r"\{file.*", "", route.path).format(network="harmony-s0", id="a", name="dapp").encode(),
        )
        for route in ROUTES
    ]
    found = [line + b"\r\n" + HOST + b"\r\n" for line in LINES]
    found += [request(method, path, OURS) for path in PATHS for method in METHODS]
    for line in HEADERS:
        own = HOST.replace(b"Host: 127.0.0.1\r\n", b"") if line.startswith(b"Host") else HOST
        for start in (b"GET /api/v1/nodes", b"POST /api/v1/session", b"PATCH /api/v1/settings", b"BREW /x"):
            found.append(start + b" HTTP/1.1\r\n" + own + OURS + line + b"\r\n\r\n")
    json, chunked = OURS + b"Content-Type: application/json\r\n", b"Transfer-Encoding: chunked\r\n"
    for method, path in routes:
        if method in (b"POST", b"PATCH"):
            found += [request(method, path, json, body) for body in BODIES]
            found += [request(method, path, json + chunked) + chunk for chunk in CHUNKS]
    return found + [request(b"PATCH", b"/api/v1/settings?dry_run=1", json, body) for body in BODIES]


async def statuses(port: int, data: bytes) -> set[int]:
    """What is answered until the connection ends; nothing when it is ended over bytes that were not read."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        told = bytearray()
        with contextlib.suppress(OSError):  # what is refused may be ended before it is read
            writer.write(data)
            while more := await reader.read(1 << 16):
                told += more
        writer.close()
    return {int(status) for status in re.findall(rb"(?m)^HTTP/\d\.\d (\d{3})", told)}


@pytest.mark.parametrize("accounts", [{}, ACCOUNTS], ids=["open", "with accounts"])
async def test_nothing_a_stranger_sends_is_a_failure_of_ours(
    accounts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    control = SampleControl(sample_settings(admin={"accounts": accounts}))
    settings = control.ledger.settings.admin
    admin = Admin(SampleView(), "127.0.0.1:0", control=control, settings=lambda: settings, files={})
    port = int((await admin.start()).rpartition(":")[2])
    slots = asyncio.Semaphore(16)

    async def asked(data: bytes) -> None:
        async with slots:
            told = await statuses(port, data)
        assert told <= TOLD, (told, data[:200])

    with structlog.testing.capture_logs() as lines, caplog.at_level(logging.INFO):
        try:
            await asyncio.gather(*map(asked, everything()))
            assert await statuses(port, request(b"GET", b"/healthz")) == {200}
        finally:
            await admin.close()
    assert [line for line in lines if line["log_level"] in ("error", "critical") or "exc_info" in line] == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
