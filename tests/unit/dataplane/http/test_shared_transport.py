"""One connection for two lanes."""

from __future__ import annotations

import asyncio
from typing import Any

from rpcaccel.dataplane.http.aiohttp_protocol import SharedTransport


def test_the_complete_lane_may_only_ask_for_the_connection_to_be_closed() -> None:
    class Owner:
        asked = 0

        def inner_closes(self) -> None:
            self.asked += 1

    class Wire(asyncio.Transport):
        written = b""

        def write(self, data: Any) -> None:
            self.written += data

    owner, wire = Owner(), Wire()
    shared = SharedTransport(owner, wire)  # type: ignore[arg-type]
    shared.write(b"x")
    shared.writelines([b"y"])
    shared.close()
    shared.abort()
    assert (wire.written, owner.asked) == (b"xy", 2)
