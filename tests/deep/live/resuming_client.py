"""Subscribes over a bare WebSocket that it cuts again and again, and resumes by `fromBlock`; writes every event as a
line of JSON:

python resuming_client.py ws://host:port 0xcontract BLOCKS

Each connection lasts for that many blocks. The next one begins some blocks earlier, as a client does that must learn
of reorganisations while it was away.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp

BACK = 8
"""Blocks that are asked for again: more than a reorganisation of the test is deep."""


def say(event: dict[str, Any]) -> None:
    """Write one line."""
    print(json.dumps(event), flush=True)


class ResumingClient:
    """The newest blocks of which it has a header and a log, over its connections."""

    def __init__(self, url: str, address: str, blocks: int) -> None:
        self.url, self.address, self.blocks = url, address, blocks
        self.head: int | None = None
        self.log: int | None = None

    async def connect(self, http: aiohttp.ClientSession) -> None:
        """One connection, until it has lasted long enough or is closed."""
        heads, logs = self._resumed()
        left = self.blocks + BACK
        async with http.ws_connect(self.url, max_msg_size=0) as socket:
            await socket.send_json(_call("heads", "newHeads", *([_from(heads)] if heads is not None else [])))
            await socket.send_json(_call("logs", "logs", {"address": self.address, **_from(logs)}))
            kinds: dict[str, str] = {}
            async for message in socket:
                told = json.loads(message.data)
                if "id" in told:
                    kinds[told["result"]] = told["id"]
                elif kinds[told["params"]["subscription"]] == "logs":
                    self._log(told["params"]["result"])
                else:
                    self._head(told["params"]["result"])
                    left -= 1
                    if not left:
                        return
            say({"closed": socket.close_code})

    def _resumed(self) -> tuple[int | None, int | None]:
        """Where this connection begins again: the block of its headers, and that of its logs."""
        if self.head is None or self.log is None:
            return None, None
        # What was heard of these blocks is forgotten: the next connection may end before all of it comes again.
        self.head, self.log = max(0, self.head - BACK), max(0, min(self.head, self.log) - BACK)
        say({"resume": (self.head, self.log)})
        return self.head, self.log

    def _head(self, result: dict[str, Any]) -> None:
        self.head = int(result["number"], 16)
        say({"head": {name: result[name] for name in ("hash", "parentHash", "number")}})
        say({"number": self.head})

    def _log(self, result: dict[str, Any]) -> None:
        self.log = int(result["blockNumber"], 16)
        say({"log": {name: result[name] for name in ("blockHash", "blockNumber", "logIndex", "removed")}})


def _from(number: int | None) -> dict[str, str]:
    return {} if number is None else {"fromBlock": hex(number)}


def _call(name: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": name, "method": "eth_subscribe", "params": params}


async def main(url: str, address: str, blocks: int) -> None:
    client = ResumingClient(url, address, blocks)
    async with aiohttp.ClientSession() as http:
        while True:
            await client.connect(http)


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
