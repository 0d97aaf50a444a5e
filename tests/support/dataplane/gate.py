"""A clock for simulated nodes by which a test holds their answers until it lets them go."""

from __future__ import annotations

import asyncio

from rpcaccel.simnode.chain.sim_chain import WallClock


class Gate(WallClock):
    """Has nodes whose answers take a while take until `open` is set; `reached` is set by the first of them."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.sleep = self._wait  # type: ignore[assignment]

    async def _wait(self, _seconds: float) -> None:
        self.reached.set()
        await self.open.wait()
