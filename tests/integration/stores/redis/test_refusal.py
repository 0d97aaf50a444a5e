"""Whether a Redis lets us in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcaccel.config.model import RedisSettings
from rpcaccel.stores.redis.connect import refusal
from tests.support.services import RedisServer, free_port

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
