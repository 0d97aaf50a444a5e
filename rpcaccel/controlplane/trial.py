"""`POST /api/v1/run`: one call sent through the proxy's own front, as a client's would be, and how it went.

By a plain connection of the standard library, in a thread: what is looked at is the answer as it is on the wire.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from msgspec import Raw, Struct

__all__ = ["HTTPException", "Trial", "run"]

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


def run(trial: Trial, listen: tuple[str, int]) -> dict[str, Any]:
    """Send it, and say how it went. Blocks; raises OSError or HTTPException when there is no answer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen[0], listen[0])
    connection = HTTPConnection(host, listen[1], timeout=PATIENCE)
    try:
        started = time.perf_counter()
        connection.request(
            "POST",
            f"/{quote(trial.network, safe='')}",
            bytes(trial.call),
            {"Content-Type": "application/json", "Connection": "close"},
        )
        reply = connection.getresponse()
        body = reply.read()
        seconds = time.perf_counter() - started
    finally:
        connection.close()
    return {
        "status": reply.status,
        "headers": _shown(dict(reply.getheaders())),
        "seconds": seconds,
        "size": len(body),
        "body": body[:LARGEST].decode("utf-8", "replace"),
    }


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name in SHOWN or name.startswith("x-rpcaccel-")}
