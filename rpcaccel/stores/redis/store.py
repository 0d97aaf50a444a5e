"""The store in Redis: read within a deadline, written in the background, purged by a scan of every primary.

Slow or missing servers and damaged values are misses that are counted. Nothing here raises towards the data plane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rpcaccel.core.cache.entry import SCHEMA, Damaged, Entry, Selection, decode
from rpcaccel.stores.base import Lease, PurgeResult, Store, StoreSettings, StoreStats
from rpcaccel.stores.redis.leases import Leases
from rpcaccel.stores.redis.reads import Reads
from rpcaccel.stores.redis.shared_counters import Spending
from rpcaccel.stores.redis.topology import Server, Topology, topology
from rpcaccel.stores.redis.writes import Writes, Zstd

SCAN_STEP = 1000
"""Keys that one step of SCAN visits."""
_GLOB = str.maketrans({char: f"\\{char}" for char in "*?[]^\\"})


class RedisStore(Store):
    """The second tier in Redis, run in the way that `settings.url` names."""

    shares_limits = True

    def __init__(self, settings: StoreSettings) -> None:
        self._topology = topology(settings)
        self._write_timeout = settings.write_timeout
        tagged = settings.prefix + self._topology.tag
        self._prefix = f"{tagged}:{SCHEMA}:".encode()
        self._zstd = Zstd(settings.compress_from)
        self._damaged: dict[str, int] = {}
        self._hits = self._expired = self._purged = 0
        self._last: tuple[bool, str] | None = None
        """Whether the store was up when it was closed, and its fault: it is not lost when nobody asks it any more."""
        timeout, limit = settings.read_timeout, settings.pool_size
        self._reads = Reads(self._topology, self._topology.for_reading, timeout=timeout, limit=limit)
        self._fresh = Reads(self._topology, self._topology.for_writing, timeout=timeout, limit=limit)
        self._writes = Writes(
            self._topology,
            prefix=self._prefix,
            timeout=settings.write_timeout,
            limit=settings.queue,
            zstd=self._zstd,
        )
        self._leases = Leases(
            self._topology,
            self._writes,
            self._fresh,
            prefix=f"{tagged}:lease:{SCHEMA}:".encode(),
            value_prefix=self._prefix,
            read_timeout=settings.read_timeout,
            write_timeout=settings.write_timeout,
            opened=self._open,
        )
        self._spending = Spending(self._topology, prefix=f"{tagged}:spent:".encode(), timeout=settings.write_timeout)

    def __repr__(self) -> str:
        return f"<RedisStore {' '.join(map(repr, self._topology.servers))} queued={self._writes.queued}>"

    async def start(self) -> None:
        await self._topology.open()
        self._writes.start()

    async def close(self) -> None:
        await self._writes.close(within=self._write_timeout)
        await self._leases.close()
        await self._reads.close()
        await self._fresh.close()
        self._last = self._topology.up, self._topology.fault
        await self._topology.close()

    def look(
        self,
        keys: Sequence[bytes],
        accepts: Callable[[bytes, Entry], bool],
        done: Callable[[Entry | None], None],
    ) -> bool:
        if not self._topology.up:
            self._reads.down += len(keys)
            return False
        prefix, ask = self._prefix, self._reads.ask
        asked = [(key, ask(prefix + key)) for key in keys]

        def go_on(_settled: object = None) -> None:
            while asked:
                key, value = asked[0]
                if value is not None and not value.done():
                    value.add_done_callback(go_on)
                    return
                del asked[0]
                data = None if value is None else value.result()
                entry = None if data is None else self._open(data)
                if entry is not None and accepts(key, entry):
                    done(entry)
                    return
            done(None)

        go_on()
        return True

    def put(self, key: bytes, entry: Entry, ttl: float) -> None:
        """Queue the entry for writing, to expire after `ttl` seconds, or with the entry itself."""
        self._writes.put(key, entry, min(ttl, entry.expires - time.monotonic()))

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeResult:
        if not dry:
            await self._writes.forget(selection)
        done = await purge(self._topology, self._prefix, selection, self._write_timeout, dry=dry)
        if not dry:
            self._purged += done.removed
        return done

    async def left(self, key: bytes) -> float | None:
        (milliseconds,) = await self._topology.ask(int, [("PTTL", self._prefix + key)], self._write_timeout)
        return milliseconds / 1000 if not isinstance(milliseconds, Exception) and milliseconds >= 0 else None

    async def lease(self, key: bytes, ttl: float) -> Lease | None:
        return await self._leases.take(key, ttl)

    async def wait(self, key: bytes, within: float, accepts: Callable[[Entry], bool]) -> Entry | None:
        return await self._leases.wait(key, within, accepts)

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        return await self._spending.exchange(spent)

    def stats(self) -> StoreStats:
        reads = (self._reads, self._fresh)
        up, fault = self._last or (self._topology.up, self._topology.fault)
        return StoreStats(
            up=up,
            fault=fault,
            hits=self._hits,
            misses=self._reads.absent + self._expired,
            late=sum(one.late for one in reads),
            errors=sum(one.errors for one in reads),
            down=sum(one.down for one in reads),
            busy=sum(one.busy for one in reads),
            damaged=dict(self._damaged),
            reads=sum(one.commands for one in reads),
            writes=self._writes.written,
            writes_failed=self._writes.failed,
            writes_dropped=self._writes.dropped,
            queued=self._writes.queued,
            purged=self._purged,
            leases=self._leases.granted,
            lease_waits=self._leases.waits,
            warnings=tuple(warning for server in self._topology.servers for warning in server.warnings()),
        )

    def _open(self, data: bytes) -> Entry | None:
        now = time.monotonic()
        entry = decode(data, now=now, wall=time.time(), expand=self._zstd.expand)
        if isinstance(entry, Damaged):
            self._damaged[entry.why] = self._damaged.get(entry.why, 0) + 1
            return None
        if entry.expires <= now:
            self._expired += 1
            return None
        self._hits += 1
        return entry


def pattern(prefix: bytes, selection: Selection) -> bytes:
    """A glob for SCAN that matches at least the selected keys; `Selection.matches` decides."""
    # A key begins with the network's name, the chain id and the method: name@id:method:
    text = f"{_literal(prefix.decode())}{_literal(selection.network or '')}*"
    return (f"{text}:{_literal(selection.method)}*" if selection.method else text).encode()


def _literal(text: str) -> str:
    return text.translate(_GLOB)


async def purge(
    topology: Topology, prefix: bytes, selection: Selection, within: float, *, dry: bool = False
) -> PurgeResult:
    """Remove the selected entries from every primary, or count them. Never raises; the result says if it is complete.
    `within`: seconds that each command may take."""
    if selection.key is not None:
        if not selection.matches(selection.key):
            return PurgeResult(0)
        (count,) = await topology.ask(int, [("EXISTS" if dry else "UNLINK", prefix + selection.key)], within)
        return PurgeResult(0, complete=False) if isinstance(count, Exception) else PurgeResult(count)
    sweeps = (_sweep(server, prefix, selection, within, dry=dry) for server in topology.primaries())
    done = await asyncio.gather(*sweeps)
    return PurgeResult(sum(one.removed for one in done), all(one.complete for one in done))


async def _sweep(server: Server, prefix: bytes, selection: Selection, within: float, *, dry: bool) -> PurgeResult:
    removed = 0
    cursor = b"0"
    match = pattern(prefix, selection)
    while server.up:
        scan = ("SCAN", cursor, "MATCH", match, "COUNT", SCAN_STEP)
        (step,) = await server.send(tuple[bytes, list[bytes]], [scan], within)
        if isinstance(step, Exception):
            break
        cursor, found = step
        keys = [key for key in found if selection.matches(key.removeprefix(prefix))]
        counts: list[Any] = [1] * len(keys)
        if keys and not dry:
            counts = await server.send(int, [("UNLINK", key) for key in keys], within)
        removed += sum(count for count in counts if not isinstance(count, Exception))
        if any(isinstance(count, Exception) for count in counts):
            break
        if cursor == b"0":
            return PurgeResult(removed)
    return PurgeResult(removed, complete=False)
