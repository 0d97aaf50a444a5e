"""`POST /api/v1/purge`: remove kept answers in every process and both tiers, or count them first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rpcaccel.controlplane.link import Link
from rpcaccel.controlplane.refusal import Refusal, read
from rpcaccel.core.entry import Selection
from rpcaccel.core.messages import PurgeDone


class Meant(Struct, frozen=True, forbid_unknown_fields=True):
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
    meant = read(body, Meant)
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
    return any(one.complete for one in await _carried_out(read(body, Meant), links))


async def _carried_out(meant: Meant, links: Sequence[Link]) -> list[PurgeDone]:
    selection = selected(meant)
    return await asyncio.gather(*(link.purge(selection, dry=meant.dry_run) for link in links))


def selected(meant: Meant) -> Selection:
    """What is meant. Raises Refusal unless it is exactly one of all, a key, or a network and a method."""
    named = bool(meant.network or meant.method)
    if meant.all + bool(meant.key) + named != 1:
        raise Refusal(
            422, "invalid-selection", 'say one of: "key", "network" or "method" or both of them, or "all": true'
        )
    if meant.key:
        return Selection(key=meant.key.encode())
    return Selection(network=meant.network, method=meant.method)
