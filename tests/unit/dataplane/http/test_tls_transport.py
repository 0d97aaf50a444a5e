"""Calls over TLS: over real sockets, with a certificate of the machine's loopback names."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.controlplane.certificates import write_self_signed
from rpcaccel.dataplane.certificate import ServedCertificate
from rpcaccel.dataplane.http.tls_transport import TURN_BYTES
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import Conversation, call
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

LONG = b'"' + b"x" * (4 * TURN_BYTES) + b'"'
"""The id of a call, which its answer repeats."""


@pytest.fixture
def certificate(tmp_path: Path) -> ServedCertificate:
    return ServedCertificate(*map(str, write_self_signed(tmp_path)))


def trusting(certificate: ServedCertificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.cert)


@asynccontextmanager
async def secured(certificate: ServedCertificate, **http: Any) -> AsyncIterator[Proxy]:
    """A proxy over one node that takes calls over TLS."""
    async with harmony_nodes(1) as nodes, proxying(nodes, http=http, certificate=certificate) as proxy:
        yield proxy


@asynccontextmanager
async def conversing(proxy: Proxy, context: ssl.SSLContext) -> AsyncIterator[Conversation]:
    place = {"server_hostname": "localhost", "limit": 1 << 20}
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port, ssl=context, **place)  # type: ignore[arg-type]
    try:
        yield Conversation(reader, writer)
    finally:
        writer.transport.abort()


def shown(conversation: Conversation) -> bytes | None:
    """The certificate that the server of a connection showed."""
    found = conversation.writer.get_extra_info("ssl_object")
    assert isinstance(found, ssl.SSLObject)
    return found.getpeercert(binary_form=True)


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """Connect as a program without asyncio does, which sends the alert where it fails. Raises ssl.SSLError."""
    with socket.create_connection(("127.0.0.1", port)) as sock, context.wrap_socket(sock, server_hostname="localhost"):
        pass


def refusals(proxy: Proxy) -> dict[str, int]:
    return proxy.worker.report().tally.refusals


async def test_posts_and_websockets_are_answered(certificate: ServedCertificate) -> None:
    trust = trusting(certificate)
    async with secured(certificate) as proxy, aiohttp.ClientSession() as http:
        url = f"https://localhost:{proxy.worker.port}/"
        ask = {"jsonrpc": "2.0", "id": 7, "method": "hmyv2_blockNumber"}
        for _ in range(3):
            async with http.post(url, json=ask, ssl=trust) as reply:
                assert (await reply.json())["result"] == 200
        async with http.get(f"{url}healthz", ssl=trust) as reply:
            assert reply.status == 200
        async with http.ws_connect(url.replace("https", "wss"), ssl=trust) as subscriber:
            await subscriber.send_json({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]})
            assert "result" in await subscriber.receive_json()
            proxy.nodes[0].chain.advance(1)
            proxy.see()
            assert (await subscriber.receive_json())["method"] == "eth_subscription"
        assert refusals(proxy) == {}


async def test_only_http_1_1_is_agreed_on_and_nothing_below_tls_1_2(certificate: ServedCertificate) -> None:
    trust = trusting(certificate)
    trust.set_alpn_protocols(["h2", "http/1.1"])
    old = trusting(certificate)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    async with secured(certificate) as proxy:
        async with conversing(proxy, trust) as conversation:
            assert conversation.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(shake_hands, proxy.worker.port, old)
        await until(lambda: refusals(proxy) == {"tls-failed": 1})


async def test_http_without_tls_is_told_what_this_port_speaks(certificate: ServedCertificate) -> None:
    async with secured(certificate) as proxy, Conversation.open(proxy.worker.port) as conversation:
        conversation.send(call())
        answer = await conversation.answer()
        assert answer.status == 400
        assert "https://" in answer.error["message"]
        assert await conversation.ended()
        assert refusals(proxy) == {"plain-http": 1}


@pytest.mark.parametrize("sent", [b"\x00" * 100, b"\x16\x03\x01\x02\x00" + b"x" * 600, b"\x80" * 70_000])
async def test_what_is_no_tls_ends_the_connection(certificate: ServedCertificate, sent: bytes) -> None:
    async with secured(certificate) as proxy, Conversation.open(proxy.worker.port) as conversation:
        conversation.send(sent)
        await until(lambda: refusals(proxy) == {"tls-failed": 1})
        await until(lambda: proxy.worker.report().tally.connections == 0)


async def test_a_client_that_does_not_trust_the_certificate_is_counted(certificate: ServedCertificate) -> None:
    async with secured(certificate) as proxy:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shake_hands, proxy.worker.port, ssl.create_default_context())
        await until(lambda: refusals(proxy) == {"tls-failed": 1})


async def test_no_key_exchange_that_is_slow_for_the_server_is_agreed_on(certificate: ServedCertificate) -> None:
    async with secured(certificate) as proxy:
        for group in ("ffdhe2048", "ffdhe8192"):
            hands = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-connect", f"127.0.0.1:{proxy.worker.port}", "-groups", group),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            assert await hands.wait() == 1
        assert refusals(proxy) == {"tls-failed": 2}


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
async def test_a_handshake_that_does_not_end_is_given_up(certificate: ServedCertificate, sent: bytes) -> None:
    async with (
        secured(certificate, read_timeout=0.2) as proxy,
        Conversation.open(proxy.worker.port) as conversation,
    ):
        conversation.send(sent)
        assert await conversation.ended()
        assert refusals(proxy) == {"slow-head": 1}


async def test_a_renewed_certificate_is_for_new_connections_and_open_ones_stay(
    certificate: ServedCertificate, tmp_path: Path
) -> None:
    before = trusting(certificate)
    (tmp_path / "next").mkdir()
    async with secured(certificate) as proxy, conversing(proxy, before) as old:
        old.send(call())
        await old.answer()
        for new, file in zip(write_self_signed(tmp_path / "next"), (certificate.cert, certificate.key), strict=True):
            os.replace(new, file)
        assert certificate.look()
        async with conversing(proxy, trusting(certificate)) as young:
            assert shown(young) != shown(old)
            old.send(call())
            assert (await old.answer()).status == 200


async def test_long_answers_to_clients_that_read_late_arrive_whole(certificate: ServedCertificate) -> None:
    body = b'{"jsonrpc":"2.0","id":%s,"method":"eth_chainId"}' % LONG
    async with (
        secured(certificate, max_body="8MB") as proxy,
        conversing(proxy, trusting(certificate)) as conversation,
    ):
        conversation.writer.transport.pause_reading()  # type: ignore[attr-defined]
        conversation.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await asyncio.sleep(0)
        conversation.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert (await conversation.answer()).json["id"] == LONG.decode()[1:-1]
        conversation.send(call())
        assert (await conversation.answer()).status == 200


async def test_a_worker_that_drains_says_that_nothing_more_comes(certificate: ServedCertificate) -> None:
    trust, answered = trusting(certificate), asyncio.Event()
    loop = asyncio.get_running_loop()

    def rest(port: int) -> bytes:
        """What comes after the first answer. Raises ssl.SSLEOFError where the end comes without a close_notify."""
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as sock,
            trust.wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False) as secure,
        ):
            secure.sendall(call())
            assert secure.recv(4096).startswith(b"HTTP/1.1 200")
            loop.call_soon_threadsafe(answered.set)
            return secure.recv(4096)

    async with secured(certificate) as proxy:
        reading = asyncio.create_task(asyncio.to_thread(rest, proxy.worker.port))
        await answered.wait()
        await proxy.worker.drain(1.0)
        assert await reading == b""
