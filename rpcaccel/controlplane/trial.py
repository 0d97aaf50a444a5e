"""`POST /api/v1/run`: one call sent through the proxy's own front, as a client's would be, and how it went.

By a plain connection: what is looked at is the answer as it is on the wire. No thread waits for it, for there are few,
and others need them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http.client import HTTPException, parse_headers
from io import BytesIO
from sys import maxsize
from typing import Any
from urllib.parse import quote

from msgspec import Raw, Struct

__all__ = ["HTTPException", "Trial", "run"]

PATIENCE = 40.0
"""Seconds: longer than any deadline of a call is by default."""

LARGEST = 200_000
"""Bytes of the answer that are shown."""

_CHUNK = 64 * 1024

SHOWN = ("content-type", "server-timing", "retry-after")
"""Headers told beside our own."""


class Trial(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request."""

    call: Raw
    """A JSON-RPC call or batch."""
    network: str = ""
    """Where it is sent; the default network when empty."""


async def run(trial: Trial, listen: tuple[str, int], patience: float = PATIENCE) -> dict[str, Any]:
    """Send it, and say how it went. Raises OSError or HTTPException when there is no answer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen[0], listen[0])
    try:
        async with asyncio.timeout(patience):
            return await _run(_request(trial, host, listen[1]), host, listen[1])
    except TimeoutError:
        raise TimeoutError(f"not within {patience:g} s") from None


async def _run(request: bytes, host: str, port: int) -> dict[str, Any]:
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        status, headers = await _head(reader)
        body, size = await _body(reader, headers.get("content-length"))
    finally:
        writer.transport.abort()  # what was not taken of the request would keep it open
    return {
        "status": status,
        "headers": _shown(headers),
        "seconds": time.perf_counter() - started,
        "size": size,
        "body": body.decode("utf-8", "replace"),
    }


def _request(trial: Trial, host: str, port: int) -> bytes:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [
        f"POST /{quote(trial.network, safe='')} HTTP/1.1",
        f"Host: {place}",
        "Content-Type: application/json",
        f"Content-Length: {len(bytes(trial.call))}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + bytes(trial.call)


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers, by lower-case name."""
    try:
        line, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        status = int(line.split(maxsplit=2)[1])
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError, ValueError):
        raise HTTPException("no HTTP head came") from None
    return status, {name.lower(): value for name, value in parse_headers(BytesIO(rest)).items()}


async def _body(reader: asyncio.StreamReader, length: str | None) -> tuple[bytes, int]:
    """The first bytes, as many as are shown, and how many there were."""
    kept, size = bytearray(), 0
    wanted = int(length) if length else maxsize
    while size < wanted and (chunk := await reader.read(min(_CHUNK, wanted - size))):
        kept += chunk[: LARGEST - len(kept)]
        size += len(chunk)
    if length and size < wanted:
        raise HTTPException("the answer broke off")
    return bytes(kept), size


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in SHOWN or name.startswith("x-rpcaccel-")}
