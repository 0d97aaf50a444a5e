"""redis-py's clients, made the way the store needs them: no retries of their own, short timeouts, bytes as they are."""

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
"""Connections beyond those of reads: for writes, probes, purges and leases."""


def _common(target: RedisTarget, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": target.username,
        "password": target.password,
        # A read's own deadline is kept by the store, which goes on without the answer; this is when a silent
        # connection is given up.
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
    """A client of one server."""
    options = _common(target, settings) | {"db": target.db, "retry": _no_retry()}
    if target.kind == "unix":
        return Redis(unix_socket_path=target.path, **options)
    host, port = target.hosts[0]
    return Redis(host=host, port=port, **options)


def sentinel(target: RedisTarget, settings: StoreSettings) -> Sentinel:
    """The Sentinels of a service, from which clients of its primary and of its replicas are made."""
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
    """A client of a whole cluster."""
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in target.hosts],
        # A cluster that lost a part of its slots serves the others.
        require_full_coverage=False,
        retry=_no_retry(),
        # Has every connection say READONLY, without which a replica only redirects.
        load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN_REPLICAS,
        **_common(target, settings),
    )
