"""The hosts that share one Redis: begins and ends the sharing with them, and tells how it goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.events import Events
from rpcaccel.controlplane.link import Link
from rpcaccel.controlplane.purge import swept
from rpcaccel.controlplane.settings import Ledger

if TYPE_CHECKING:
    from rpcaccel.controlplane.sharing import Sharing


class Hosts:
    """The others, when there is a Redis; nobody else."""

    def __init__(self, ledger: Ledger, links: Sequence[Link], events: Events) -> None:
        self._ledger = ledger
        self._links = links
        self._events = events
        self._redis: RedisSettings | None = None
        self._sharing: Sharing | None = None

    def __repr__(self) -> str:
        return f"<Hosts {self._sharing!r}>"

    async def share(self, redis: RedisSettings) -> None:
        """Share settings and purges with the hosts that use this Redis, and with no others any more."""
        if redis == self._redis:
            return
        await self.stop()
        self._redis = redis
        if redis.url:
            # Who has no Redis does without its client: 80 ms of a start.
            from rpcaccel.controlplane.sharing import Sharing  # noqa: PLC0415
            from rpcaccel.stores.redis_board import Board  # noqa: PLC0415

            self._sharing = Sharing(Board(redis), self._ledger, purged=self._purge, told=self._hear)
            await self._sharing.start()

    async def stop(self) -> None:
        """Share no more."""
        if self._sharing is not None:
            await self._sharing.stop()
        self._sharing = None

    async def purged(self, body: bytes) -> None:
        """A purge was carried out here by this request; the others are to do the same."""
        if self._sharing is not None:
            await self._sharing.tell_purge(body)

    def shown(self) -> dict[str, Any] | None:
        """How it goes; None where nothing is shared."""
        sharing = self._sharing
        if sharing is None or self._redis is None:
            return None
        about = {"up": sharing.up, "revision": sharing.revision, "note": sharing.note}
        return {"url": self._redis.url.shown, "host": sharing.host, **about}

    @property
    def note(self) -> str:
        """What should be looked at, in a sentence."""
        return self._sharing.note if self._sharing is not None else ""

    async def _purge(self, body: bytes) -> bool:
        return await swept(body, self._links)

    def _hear(self, up: bool) -> None:
        text = "settings and purges are shared by Redis" if up else "Redis is away: changes reach this host alone"
        self._events.tell("shared", {"up": up, "at": time.time(), "text": text})
