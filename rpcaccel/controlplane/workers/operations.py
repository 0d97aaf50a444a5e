"""Operations on the caches and calls of all workers: purge kept answers, and record the calls of clients.

An operation that cannot be carried out raises OperationRefused, which the admin API turns into a problem document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.messages import PurgeDone, RecordedCall

T = TypeVar("T")


class OperationRefused(Exception):
    """An operation cannot be carried out; `code` is the reason for programs, `detail` the one for people."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def read(body: bytes, kind: type[T]) -> T:
    """The body of a request as a value of this type. Raises OperationRefused for any other body."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        raise OperationRefused(400, "not-json", "it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OperationRefused(400, "not-json", str(error)) from None


class PurgeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a purge: the entries to be removed."""

    key: str = ""
    """One key, as `explain` shows it."""
    network: str = ""
    method: str = ""
    all: bool = False
    """Every entry. It must be named, so that an empty body does no harm."""
    dry_run: bool = False
    """Whether entries are only counted."""


class Purged(Struct, frozen=True, kw_only=True):
    """The number of kept answers that were removed, or would be."""

    memory: Annotated[int, Meta(description="From the memory of all workers of this host.")]
    disk: Annotated[int, Meta(description="From the disk of this host.")]
    store: Annotated[int, Meta(description="From Redis.")]
    complete: Annotated[bool, Meta(description="Was everything looked through? The disk or Redis may have been away.")]
    dry_run: bool
    workers: int


async def purge(body: bytes, links: Sequence[Link]) -> Purged:
    """The document of a purge: the number of entries removed, by tier. Raises OperationRefused."""
    meant = read(body, PurgeRequest)
    done = await _carried_out(meant, links)
    # Each worker counts, or sweeps, the same shared tiers: what one has removed the others do not find any more.
    shared = max if meant.dry_run else sum
    return Purged(
        memory=sum(one.memory for one in done),
        disk=shared([one.disk for one in done] or [0]),
        store=shared([one.store for one in done] or [0]),
        complete=all(one.complete for one in done),
        dry_run=meant.dry_run,
        workers=len(links),
    )


class Reached(Struct, frozen=True):
    """The tiers behind memory that a purge has reached; a tier that is not there counts as reached."""

    store: bool
    """Redis. One worker that looked through all of it is enough, since it holds what every worker wrote."""
    disk: bool
    """The disk of this host. Every worker must have looked through it: one that could not may still be writing, and
    keeps in its own memory alone that it owes the purge."""


async def swept(body: bytes, links: Sequence[Link]) -> Reached:
    """Carry out a purge of another host, or repeat one that did not reach every tier; returns the tiers that it reached
    now. Raises OperationRefused."""
    done = await _carried_out(read(body, PurgeRequest), links)
    return Reached(
        store=any(one.store_complete for one in done),
        disk=bool(done) and all(one.disk_complete for one in done),
    )


async def _carried_out(meant: PurgeRequest, links: Sequence[Link]) -> list[PurgeDone]:
    selection = selected(meant)
    return await asyncio.gather(*(link.purge(selection, dry=meant.dry_run) for link in links))


def selected(meant: PurgeRequest) -> Selection:
    """The entries that a request selects. Raises OperationRefused unless it names exactly one of: all, a key, or a
    network and a method."""
    named = bool(meant.network or meant.method)
    if meant.all + bool(meant.key) + named != 1:
        raise OperationRefused(
            422, "invalid-selection", 'say one of: "key", "network" or "method" or both of them, or "all": true'
        )
    if meant.key:
        return Selection(key=meant.key.encode())
    return Selection(network=meant.network, method=meant.method)


class RecordRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for recorded calls."""

    sample: float = 1.0
    """The share of all calls that is kept, above 0 and at most 1."""
    stop: bool = False
    """Whether recording ends with the calls handed over now."""


def wanted_of(body: bytes) -> RecordRequest:
    """The request in a body. Raises OperationRefused for a body that cannot be read."""
    wanted = read(body or b"{}", RecordRequest)
    if not 0 < wanted.sample <= 1:
        raise OperationRefused(
            422, "invalid-selection", f"sample: found {wanted.sample:g}, expected above 0 and at most 1"
        )
    return wanted


class RecordedCalls(Struct, frozen=True):
    """The calls of all workers since the last time, oldest first."""

    calls: list[RecordedCall]
    missed: Annotated[int, Meta(description="Those that found no room.")]
    workers: int


async def record(wanted: RecordRequest, links: Sequence[Link]) -> RecordedCalls:
    """Take the calls that the workers have recorded, and have them go on, or stop, as is wanted."""
    told = await asyncio.gather(*(link.record(wanted.sample, stop=wanted.stop) for link in links))
    calls = sorted((call for one in told for call in one.calls), key=lambda call: call.at)
    return RecordedCalls(calls, sum(one.missed for one in told), len(links))
