"""Clients of redis-py: no retries of their own, every way to connect, and whether a Redis lets us in."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rpcaccel.config.model import RedisSettings
from rpcaccel.stores.redis.connect import SPARE_CONNECTIONS, cluster, refusal, sentinel, single
from rpcaccel.stores.redis.redis_url import parse
from tests.integration.stores.conftest import Opener
from tests.support.services import RedisServer, free_port
from tests.support.stores.settings import Settings, an_entry
from tests.support.waiting import until


async def test_a_client_does_not_try_again_and_gives_up_a_silent_connection_after_the_longer_deadline() -> None:
    settings = Settings(pool_size=3, read_timeout=0.03, write_timeout=0.4, connect_timeout=0.2)
    client = single(parse("redis://h:1/2"), settings)
    retry, pool = client.get_retry(), client.connection_pool
    assert retry is not None
    assert (retry.get_retries(), pool.max_connections) == (0, 3 + SPARE_CONNECTIONS)
    options = pool.connection_kwargs
    assert (options["host"], options["db"]) == ("h", 2)
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (0.4, 0.2)
    await client.aclose()


async def test_sentinels_have_credentials_of_their_own() -> None:
    made = sentinel(parse("redis+sentinel://ann:pw@a,b/main/3?sentinel_password=s"), Settings())
    assert [one.connection_pool.connection_kwargs["password"] for one in made.sentinels] == ["s", "s"]
    primary = made.master_for("main").connection_pool.connection_kwargs
    assert (primary["username"], primary["password"], primary["db"]) == ("ann", "pw", 3)
    await made.aclose()


async def test_tls_reaches_every_kind_of_client() -> None:
    query = "?ssl_ca_certs=/ca.pem&ssl_check_hostname=false"
    one = single(parse(f"rediss://h{query}"), Settings())
    assert one.connection_pool.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
    watched = sentinel(parse(f"rediss+sentinel://h/main{query}"), Settings())
    assert watched.sentinels[0].connection_pool.connection_kwargs["ssl_check_hostname"] is False
    many = cluster(parse(f"rediss+cluster://127.0.0.1{query}"), Settings())
    assert many.nodes_manager.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
    await one.aclose()
    await watched.aclose()
    await many.aclose()


def certificate(folder: Path) -> tuple[str, str]:
    """A key and a certificate of 127.0.0.1 that vouches for itself."""
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {cert}"
    subprocess.run([*words.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return key, cert


@asynccontextmanager
async def behind_tls(server: RedisServer, key: str, cert: str) -> AsyncIterator[int]:
    """The port of a TLS front of `server` (not every redis-server is built with TLS)."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        redis_reader, redis_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pass_on(reader, redis_writer), pass_on(redis_reader, writer), return_exceptions=True)

    front = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with front:
        yield front.sockets[0].getsockname()[1]


async def test_tls_serves_and_is_checked(open_store: Opener, server: RedisServer, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = certificate(tmp_path)
    async with behind_tls(server, key, cert) as port:
        checked = await open_store(f"rediss://127.0.0.1:{port}?ssl_ca_certs={cert}")
        checked.put(b"s0:call:1", an_entry(), 60.0)
        await until(lambda: checked.stats().writes == 1)
        assert await checked.get(b"s0:call:1") is not None
        unknown = await open_store(f"rediss://127.0.0.1:{port}")
        assert not unknown.stats().up
        assert "ertificate" in unknown.stats().fault
        await checked.close()
        await unknown.close()


USER = "the user and password that Redis has"
SENTINEL = "the user and password that Sentinel itself has"
DATABASE = "a database that Redis has"


async def asked(url: str, within: float = 20.0) -> str:
    return await refusal(url, RedisSettings(connect_timeout=10, write_timeout=10), within)


async def test_a_wrong_password_and_a_wrong_database_are_told_from_a_right_address(
    new_redis: Callable[..., RedisServer],
) -> None:
    port = new_redis("--requirepass", "right-pw", "--databases", "4").port
    told = {
        f"redis://:right-pw@127.0.0.1:{port}/3": "",
        f"redis://:wrong-pw@127.0.0.1:{port}/3": USER,
        f"redis://nobody:right-pw@127.0.0.1:{port}": USER,
        f"redis://127.0.0.1:{port}": USER,
        f"redis://:right-pw@127.0.0.1:{port}/4": DATABASE,
        f"redis+cluster://:wrong-pw@127.0.0.1:{port}": USER,
        f"redis+cluster://:right-pw@127.0.0.1:{port}": "",
        f"redis+sentinel://127.0.0.1:{port}/main?sentinel_password=wrong-pw": SENTINEL,
    }
    assert {url: await asked(url) for url in told} == told


async def test_a_password_where_none_is_asked_for_is_wrong(redis_server: RedisServer) -> None:
    assert await asked(f"redis://:any@127.0.0.1:{redis_server.port}") == USER
    assert await asked(redis_server.url) == ""


@pytest.mark.parametrize(
    "form", ["redis://{}", "redis+cluster://{}", "redis+sentinel://{}/main", "unix:///nowhere.sock"]
)
async def test_what_is_down_is_not_refused(form: str) -> None:
    assert await asked(form.format(f"127.0.0.1:{free_port()}")) == ""


async def test_one_that_says_nothing_is_taken_for_down(new_redis: Callable[..., RedisServer]) -> None:
    server = new_redis("--requirepass", "right-pw")
    server.freeze()
    try:
        assert await asked(f"redis://:wrong@127.0.0.1:{server.port}", within=0.05) == ""
    finally:
        server.thaw()
