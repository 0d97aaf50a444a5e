"""Checks whether Redis accepts an address: a wrong password or database is a wrong setting, and no outage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from redis.exceptions import AuthenticationError, RedisError

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.connect import bounded, sentinel, single
from rpcaccel.stores.redis.fault import is_about_database
from rpcaccel.stores.redis.redis_url import RedisTarget, parse


async def refusal(url: str, settings: StoreSettings, within: float) -> str:
    """What Redis expected instead of this address; empty when Redis accepts it or does not answer `within` seconds.

    The text never quotes Redis, whose messages may quote the address.
    """
    clients: list[tuple[Any, str]] = []
    try:
        clients = list(_clients(parse(url), settings))
        async with asyncio.timeout(within):
            told = await asyncio.gather(*(_asked(client, whose) for client, whose in clients))
        return next(filter(None, told), "")
    except TimeoutError:
        return ""
    finally:
        await asyncio.gather(*(client.aclose() for client, _ in clients), return_exceptions=True)


def _clients(target: RedisTarget, settings: StoreSettings) -> Iterator[tuple[Any, str]]:
    """A client for each server that the address names, and the name of whose password it uses."""
    if target.kind in ("single", "unix"):
        yield single(target, settings), "Redis"
        return
    own = target
    if target.kind == "sentinel":
        yield bounded(sentinel(target, settings).master_for(target.service)), "Redis"
        own = replace(target, db=0, username=target.sentinel_username, password=target.sentinel_password)
    for host in target.hosts:
        whose = "Sentinel itself" if target.kind == "sentinel" else "Redis"
        yield single(replace(own, kind="single", hosts=(host,)), settings), whose


async def _asked(client: Any, whose: str) -> str:
    """Connect, which sends the password and selects the database, and send a command; return what was expected."""
    try:
        await client.execute_command("PING")
    except AuthenticationError:
        return f"the user and password that {whose} has"
    except (RedisError, OSError) as error:
        return "a database that Redis has" if is_about_database(error) else ""
    return ""
