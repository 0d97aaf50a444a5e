"""Makes redis-py's clients as the store needs them: without retries, with short timeouts, without decoding, and with
bounds on what is read. Checks with them whether Redis accepts an address: a wrong password or database is a wrong
setting, and no outage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import DefaultParser
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.cluster import LoadBalancingStrategy
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as LostError

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.redis_url import RedisTarget, parse
from rpcaccel.stores.redis.replies import ReplyBounds, is_about_database

SPARE_CONNECTIONS = 4
"""Connections beyond those for reads: for writes, probes, purges and leases."""


_READ_BY_REDIS_PY = ("INFO", "CLUSTER", "COMMAND", "SENTINEL")
"""The commands whose replies redis-py reads: to find servers, and for the memory settings of one."""


class BoundedParser(DefaultParser):  # type: ignore[misc,valid-type]  # redis-py chooses it when it is imported
    """The parser of redis-py, given nothing that ReplyBounds refuses. The connection ends then."""

    def on_connect(self, connection: Any) -> None:
        super().on_connect(connection)
        self._bounds = ReplyBounds()

    async def read_from_socket(self) -> bool:
        data = await self._stream.read(self._read_size)
        if not data:
            raise LostError("the server closed the connection")
        self._bounds.take(data)
        self._reader.feed(data)
        return True


def _leave_replies_alone(callbacks: MutableMapping[Any, Any]) -> None:
    """Take away the callbacks of redis-py, which raise anything for a reply of another shape, in a pipeline before the
    other replies are read."""
    for command in [command for command in callbacks if not command.startswith(_READ_BY_REDIS_PY)]:
        del callbacks[command]


def bounded(client: Redis) -> Redis:
    """The client, with bounds on what is read, and without any reading of replies by redis-py."""
    client.connection_pool.connection_kwargs["parser_class"] = BoundedParser
    _leave_replies_alone(client.response_callbacks)
    return client


def _common(target: RedisTarget, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": target.username,
        "password": target.password,
        # The store keeps the deadline of a read and continues without the answer. This timeout closes a silent
        # connection.
        "socket_timeout": max(settings.write_timeout, settings.read_timeout),
        "socket_connect_timeout": settings.connect_timeout,
        "max_connections": settings.pool_size + SPARE_CONNECTIONS,
        "decode_responses": False,
        "protocol": 2,
    }
    if target.tls:
        options |= {"ssl": True, **dict(target.tls_options)}
    return options


def _no_retry() -> Retry:
    return Retry(NoBackoff(), 0)


def single(target: RedisTarget, settings: StoreSettings) -> Redis:
    options = _common(target, settings) | {"db": target.db, "retry": _no_retry()}
    if target.kind == "unix":
        return bounded(Redis(unix_socket_path=target.path, **options))
    host, port = target.hosts[0]
    return bounded(Redis(host=host, port=port, **options))


def sentinel(target: RedisTarget, settings: StoreSettings) -> Sentinel:
    """The Sentinels of a service, which make clients for its primary and its replicas."""
    common = _common(target, settings)
    own = {name: common[name] for name in ("socket_timeout", "socket_connect_timeout", "protocol")}
    own |= {"username": target.sentinel_username, "password": target.sentinel_password, "retry": _no_retry()}
    if target.tls:
        own |= {"ssl": True, **dict(target.tls_options)}
    made: Sentinel = Sentinel(  # type: ignore[no-untyped-call]  # redis-py leaves its constructor untyped
        list(target.hosts), sentinel_kwargs=own, **common, db=target.db, retry=_no_retry()
    )
    for client in made.sentinels:
        bounded(client)
    return made


def cluster(target: RedisTarget, settings: StoreSettings) -> RedisCluster:
    client = RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in target.hosts],
        # A cluster that lost some slots still serves the others.
        require_full_coverage=False,
        retry=_no_retry(),
        # Makes every connection send READONLY, without which a replica only redirects.
        load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN_REPLICAS,
        **_common(target, settings),
    )
    for options in (client.connection_kwargs, *(node.connection_kwargs for node in client.startup_nodes)):
        options["parser_class"] = BoundedParser
    _leave_replies_alone(client.response_callbacks)
    return client


async def refusal(url: str, settings: StoreSettings, within: float) -> str:
    """What Redis expected instead of this address; empty when Redis accepts it or does not answer `within` seconds.

    The text never quotes Redis, whose messages may quote the address.
    """
    clients = list(_clients(parse(url), settings))
    try:
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
