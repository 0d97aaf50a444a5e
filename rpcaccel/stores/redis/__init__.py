# ruff: noqa: PLC0415 - the client of Redis takes 0.1 s to import, which a host without Redis does not pay
"""The shared store in Redis: alone, with replicas, behind Sentinel, or as a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rpcaccel.stores.base import Driver, Store, StoreSettings
from rpcaccel.stores.redis.redis_url import SCHEMES, TLS_FILES, parse

if TYPE_CHECKING:
    from rpcaccel.stores.shared_board import Board, QuotaSums


class RedisDriver(Driver):
    """Redis, which also carries what hosts share with each other."""

    schemes = tuple(SCHEMES)
    forms = ("redis://HOST[:PORT][/DB]", "rediss://…", "unix:///PATH", "redis+sentinel://…")

    def check(self, url: str) -> None:
        parse(url)

    def shown(self, url: str) -> str:
        return super().shown(url) + parse(url).name

    def unfit_replicas(self, url: str, replicas: Sequence[str]) -> Mapping[int | None, str]:
        kind = parse(url).kind
        unfit: dict[int | None, str] = {}
        if kind in ("sentinel", "cluster"):
            unfit[None] = f"none: a {kind} finds its replicas itself"
        for index, replica in enumerate(replicas):
            if replica and replica.partition("://")[0] not in ("redis", "rediss", "unix"):
                unfit[index] = "one server: redis://, rediss:// or unix://"
        return unfit

    def files(self, url: str) -> Mapping[str, str]:
        return {name: str(file) for name, file in parse(url).tls_options if name in TLS_FILES}

    async def refusal(self, url: str, settings: StoreSettings, within: float) -> str:
        from rpcaccel.stores.redis.connect import refusal

        return await refusal(url, settings, within)

    def build(self, settings: StoreSettings) -> Store:
        from rpcaccel.stores.redis.store import RedisStore

        return RedisStore(settings)

    def board(self, settings: StoreSettings) -> Board:
        from rpcaccel.stores.redis.board import RedisBoard

        return RedisBoard(settings)

    def quota_sums(self, settings: StoreSettings, host: str) -> QuotaSums:
        from rpcaccel.stores.redis.shared_counters import RedisQuotaSums

        return RedisQuotaSums(settings, host)


DRIVER = RedisDriver()
