"""Subscribes with web3.py as its users do, and writes every event as a line of JSON:

python web3py_client.py ws://host:port 0xcontract
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from web3 import AsyncWeb3, WebSocketProvider


def say(event: dict[str, Any]) -> None:
    """Write one line."""
    print(json.dumps(event), flush=True)


async def main(url: str, address: str) -> None:
    async with AsyncWeb3(WebSocketProvider(url)) as w3:
        heads = await w3.eth.subscribe("newHeads")
        await w3.eth.subscribe("logs", {"address": w3.to_checksum_address(address)})
        async for message in w3.socket.process_subscriptions():
            result: Any = message["result"]
            if message["subscription"] == heads:
                names = {name: "0x" + bytes(result[name]).hex() for name in ("hash", "parentHash")}
                say({"head": {**names, "number": hex(result["number"])}})
                say({"number": result["number"]})
            else:
                place = {name: hex(result[name]) for name in ("blockNumber", "logIndex")}
                name = "0x" + bytes(result["blockHash"]).hex()
                say({"log": {**place, "blockHash": name, "removed": result.get("removed", False)}})


asyncio.run(main(*sys.argv[1:3]))
