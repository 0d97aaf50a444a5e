"""`POST /api/v1/run`: one call sent through the proxy's own front, as a client's would be, and how it went.

Over a connection of its own, as a client would. No thread waits for it, for there are few, and others need them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import ClientError, ClientSession, ClientTimeout
from msgspec import Raw, Struct
from yarl import URL

PATIENCE = 40.0
"""Seconds: longer than any deadline of a call is by default."""

LARGEST = 200_000
"""Bytes of the answer that are shown."""

SHOWN = ("content-type", "server-timing", "retry-after")
"""Headers told beside our own."""


class Trial(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request."""

    call: Raw
    """A JSON-RPC call or batch."""
    network: str = ""
    """Where it is sent; the default network when empty."""


async def run(trial: Trial, listen: tuple[str, int], patience: float = PATIENCE) -> dict[str, Any]:
    """Send it, and say how it went. Raises OSError when there is no whole answer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen[0], listen[0])
    place = f"[{host}]:{listen[1]}" if ":" in host else f"{host}:{listen[1]}"
    url = URL(f"http://{place}/{quote(trial.network, safe='')}", encoded=True)
    try:
        async with asyncio.timeout(patience):
            return await _run(url, bytes(trial.call))
    except TimeoutError:
        raise TimeoutError(f"not within {patience:g} s") from None
    except ClientError as error:
        raise ConnectionError(str(error)) from error


async def _run(url: URL, call: bytes) -> dict[str, Any]:
    started = time.perf_counter()
    own = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with (
        ClientSession(timeout=ClientTimeout(), trust_env=False) as session,
        session.post(url, data=call, headers=own, allow_redirects=False) as reply,
    ):
        kept, size = bytearray(), 0
        async for chunk in reply.content.iter_any():
            kept += chunk[: LARGEST - len(kept)]
            size += len(chunk)
        return {
            "status": reply.status,
            "headers": _shown(reply.headers),
            "seconds": time.perf_counter() - started,
            "size": size,
            "body": kept.decode("utf-8", "replace"),
        }


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name in SHOWN or name.startswith("x-rpcaccel-")}
