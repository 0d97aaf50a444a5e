"""Makes redis-py's clients as the store needs them: without retries, with short timeouts, and without decoding."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.cluster import LoadBalancingStrategy

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.redis_url import RedisTarget

SPARE = 4
"""Connections beyond those for reads: for writes, probes, purges and leases."""


def _common(target: RedisTarget, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": target.username,
        "password": target.password,
        # The store keeps the deadline of a read and continues without the answer. This timeout closes a silent
        # connection.
        "socket_timeout": max(settings.write_timeout, settings.read_timeout),
        "socket_connect_timeout": settings.connect_timeout,
        "max_connections": settings.pool_size + SPARE,
        "decode_responses": False,
        "protocol": 2,
    }
    if target.tls:
        options |= {"ssl": True, **dict(target.tls_options)}
    return options


def _no_retry() -> Retry:
    return Retry(NoBackoff(), 0)


def single(target: RedisTarget, settings: StoreSettings) -> Redis:
    """A client for one server."""
    options = _common(target, settings) | {"db": target.db, "retry": _no_retry()}
    if target.kind == "unix":
        return Redis(unix_socket_path=target.path, **options)
    host, port = target.hosts[0]
    return Redis(host=host, port=port, **options)


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
    return made


def cluster(target: RedisTarget, settings: StoreSettings) -> RedisCluster:
    """A client for a whole cluster."""
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in target.hosts],
        # A cluster that lost some slots still serves the others.
        require_full_coverage=False,
        retry=_no_retry(),
        # Makes every connection send READONLY, without which a replica only redirects.
        load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN_REPLICAS,
        **_common(target, settings),
    )
