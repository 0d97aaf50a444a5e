"""`POST /api/v1/purge`: remove kept answers in every process and both tiers, or count them first.

`POST /api/v1/record`: the calls that clients made since the last time, of all workers, while somebody asks.

A request of the admin side that cannot be carried out: a value on its way to an RFC 9457 answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.messages import PurgeDone, Seen

T = TypeVar("T")


class OperationRefused(Exception):
    """Why, for a program (`code`) and for a person (`detail`)."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def read(body: bytes, kind: type[T]) -> T:
    """What a request says in its body. Raises Refusal for what is no JSON of this kind, whatever it is."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        raise OperationRefused(400, "not-json", "it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OperationRefused(400, "not-json", str(error)) from None


class PurgeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request: what is to be removed."""

    key: str = ""
    """One key, as `explain` shows it."""
    network: str = ""
    method: str = ""
    all: bool = False
    """Everything: said, so that an empty body does no harm."""
    dry_run: bool = False
    """Count, remove nothing."""


async def purge(body: bytes, links: Sequence[Link]) -> dict[str, Any]:
    """The document: how many entries went, by tier. Raises Refusal for a body that says nothing or too much."""
    meant = read(body, PurgeRequest)
    done = await _carried_out(meant, links)
    # Each worker counts, or sweeps, the same shared tier: what one has removed the others do not find any more.
    shared = max if meant.dry_run else sum
    return {
        "memory": sum(one.memory for one in done),
        "store": shared([one.store for one in done] or [0]),
        "complete": all(one.complete for one in done),
        "dry_run": meant.dry_run,
        "workers": len(links),
    }


async def swept(body: bytes, links: Sequence[Link]) -> bool:
    """Remove what another host removed, or what this one could not; is it out of the tier that all share? Raises
    Refusal."""
    return any(one.complete for one in await _carried_out(read(body, PurgeRequest), links))


async def _carried_out(meant: PurgeRequest, links: Sequence[Link]) -> list[PurgeDone]:
    selection = selected(meant)
    return await asyncio.gather(*(link.purge(selection, dry=meant.dry_run) for link in links))


def selected(meant: PurgeRequest) -> Selection:
    """What is meant. Raises Refusal unless it is exactly one of all, a key, or a network and a method."""
    named = bool(meant.network or meant.method)
    if meant.all + bool(meant.key) + named != 1:
        raise OperationRefused(
            422, "invalid-selection", 'say one of: "key", "network" or "method" or both of them, or "all": true'
        )
    if meant.key:
        return Selection(key=meant.key.encode())
    return Selection(network=meant.network, method=meant.method)


class RecordRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request."""

    sample: float = 1.0
    """The share of all calls that is kept, above 0 and at most 1."""
    stop: bool = False
    """Hand over what is left, and keep nothing more."""


def wanted_of(body: bytes) -> RecordRequest:
    """What a request says. Raises Refusal for a body that cannot be read."""
    wanted = read(body or b"{}", RecordRequest)
    if not 0 < wanted.sample <= 1:
        raise OperationRefused(
            422, "invalid-selection", f"sample: found {wanted.sample:g}, expected above 0 and at most 1"
        )
    return wanted


async def record(wanted: RecordRequest, links: Sequence[Link]) -> dict[str, Any]:
    """The document: calls, oldest first, and how many found no room."""
    told = await asyncio.gather(*(link.record(wanted.sample, stop=wanted.stop) for link in links))
    seen = sorted((call for one in told for call in one.calls), key=lambda call: call.at)
    return {"calls": [_shown(call) for call in seen], "missed": sum(one.missed for one in told), "workers": len(links)}


def _shown(seen: Seen) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.structs.asdict(seen)
    shown["params"] = seen.params.decode("utf-8", "replace")
    return shown
