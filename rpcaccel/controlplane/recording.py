"""`POST /api/v1/record`: the calls that clients made since the last time, of all workers, while somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.controlplane.link import Link
from rpcaccel.controlplane.refusal import Refusal, read
from rpcaccel.core.messages import Seen


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request."""

    sample: float = 1.0
    """The share of all calls that is kept, above 0 and at most 1."""
    stop: bool = False
    """Hand over what is left, and keep nothing more."""


def wanted_of(body: bytes) -> Wanted:
    """What a request says. Raises Refusal for a body that cannot be read."""
    wanted = read(body or b"{}", Wanted)
    if not 0 < wanted.sample <= 1:
        raise Refusal(422, "invalid-selection", f"sample: found {wanted.sample:g}, expected above 0 and at most 1")
    return wanted


async def record(wanted: Wanted, links: Sequence[Link]) -> dict[str, Any]:
    """The document: calls, oldest first, and how many found no room."""
    told = await asyncio.gather(*(link.record(wanted.sample, stop=wanted.stop) for link in links))
    seen = sorted((call for one in told for call in one.calls), key=lambda call: call.at)
    return {"calls": [_shown(call) for call in seen], "missed": sum(one.missed for one in told), "workers": len(links)}


def _shown(seen: Seen) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.structs.asdict(seen)
    shown["params"] = seen.params.decode("utf-8", "replace")
    return shown
