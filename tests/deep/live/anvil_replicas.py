"""Real EVM nodes that are told the same transactions and times, and so have the same blocks, hash for hash.

A node that is killed loses everything. When it comes back it is told all steps again, behind a shut door until the last
reorganisation: a real node that syncs never has blocks that were abandoned. After that others see a node that is behind
until it has caught up.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.deep.live.node_door import NodeDoor
from tests.support.services import LOOPBACK, START_SECONDS, Anvil, wait_until

PAYER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
"""The first of anvil's accounts with money, which pays for the blocks' transactions."""
OTHER = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
"""The second, which pays for those of reorganisations."""
EMITTER = "0x5fbdb2315678afecb367f032d93f642f64180aa3"
"""The address of the first contract that the payer makes."""
_CODE = "0x601f600c600039601f6000f33660195734600052602a60206000a1602a60005260206000f35b60006000fd"
"""Called without data, the contract logs the value that was sent under topic 42."""
_GAS = {"gas": "0x100000", "gasPrice": "0x77359400"}
"""A price that is named: what a node would take by itself depends on when it is asked."""

Call = tuple[str, Sequence[Any]]
Step = tuple[Call, ...]
_BLOCK: Call = ("evm_mine", [])
_REORG = "anvil_reorg"


class AnvilReplica:
    """One node; a thread of its own tells it the steps, from the first one on after each start."""

    def __init__(self, steps: list[Step], news: threading.Condition) -> None:
        self._steps = steps
        self._news = news
        self._done = 0
        self.alive = True
        self._anvil = Anvil(*_OPTIONS)
        self._door = NodeDoor()
        self._door.open(self._anvil.port)
        self.url = f"http://{LOOPBACK}:{self._door.port}"
        """The address that others see."""
        self._thread = self._follow(shown_from=0)

    def __repr__(self) -> str:
        return f"<AnvilReplica at {self.url}, {self._done} of {len(self._steps)} steps>"

    @property
    def settled(self) -> bool:
        """Whether it was told every step."""
        return self._done == len(self._steps)

    def _follow(self, shown_from: int) -> threading.Thread:
        thread = threading.Thread(target=self._tell, args=(shown_from,), name=f"steps for {self.url}", daemon=True)
        thread.start()
        return thread

    def _tell(self, shown_from: int) -> None:
        """Tell the node all steps; the door is opened after `shown_from` of them."""
        try:
            while True:
                if self._done == shown_from > 0:
                    self._door.open(self._anvil.port)
                with self._news:
                    self._news.wait_for(lambda: not self.alive or not self.settled)
                    if not self.alive:
                        return
                    step = self._steps[self._done]
                for method, params in step:
                    self.ask(method, *params)
                with self._news:
                    self._done += 1
                    self._news.notify_all()
        except (OSError, http.client.HTTPException):
            if self.alive:
                raise

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one call, on a connection of its own. Raises OSError where the node is gone."""
        connection = http.client.HTTPConnection(LOOPBACK, self._anvil.port, timeout=START_SECONDS)
        try:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            reply = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in reply:
            raise AssertionError(f"{self!r} {method} {params}: {reply['error']}")
        return reply["result"]

    def kill(self) -> None:
        """SIGKILL."""
        with self._news:
            self.alive = False
            self._news.notify_all()
        self._anvil.process.kill()
        self._thread.join()
        self._door.shut()

    def revive(self) -> None:
        """Start it again, empty; it is told all steps meanwhile."""
        self._anvil = Anvil(*_OPTIONS)
        self._done = 0
        self.alive = True
        reorganised = (number for number, step in enumerate(self._steps, 1) if step[-1][0] == _REORG)
        self._thread = self._follow(max(reorganised, default=1))

    def close(self) -> None:
        """End it for ever."""
        self.kill()
        self._door.close()


_OPTIONS = ("--no-mining", "--timestamp", str(int(time.time()) - 7200), "--order", "fifo")


class ReplicaChain:
    """The chain of several nodes."""

    def __init__(self, count: int, started: ExitStack) -> None:
        self._news = threading.Condition()
        self._steps: list[Step] = []
        self.nodes: list[AnvilReplica] = []
        for _ in range(count):
            node = AnvilReplica(self._steps, self._news)
            started.callback(node.close)
            self.nodes.append(node)
        # Without an interval the time of a block would follow the clock of the machine.
        self._add(("anvil_setBlockTimestampInterval", [1]))
        self._add(("eth_sendTransaction", [{"from": PAYER, "data": _CODE, "nonce": "0x0", **_GAS}]), _BLOCK)

    def _add(self, *calls: Call) -> None:
        with self._news:
            self._steps.append(calls)
            self._news.notify_all()

    def mine(self, logs: int = 1) -> None:
        """One block with so many logs of the emitter."""
        number = len(self._steps)
        pay = {"from": PAYER, "to": EMITTER, **_GAS}
        sends: list[Call] = [("eth_sendTransaction", [{**pay, "value": hex(number)}]) for _ in range(logs)]
        self._add(*sends, _BLOCK)

    def reorganise(self, depth: int) -> None:
        """Replace the newest blocks by as many others, of which the first one has a log."""
        pay = {"from": OTHER, "to": EMITTER, "value": hex(len(self._steps)), **_GAS}
        self._add((_REORG, [depth, [[pay, 0]]]))

    def settle(self) -> None:
        """Wait until every node that runs was told every step, and compare their branches."""
        wait_until(f"all steps at {self.nodes}", lambda: all(node.settled for node in self.nodes))
        tips = {node.ask("eth_getBlockByNumber", "latest", False)["hash"] for node in self.nodes}
        assert len(tips) == 1, f"the replicas differ: {tips}"

    def branch(self) -> dict[int, str]:
        """The hashes of all blocks by number, as the first node has them."""
        last = int(self.nodes[0].ask("eth_blockNumber"), 16)
        blocks = (self.nodes[0].ask("eth_getBlockByNumber", hex(number), False) for number in range(last + 1))
        return {number: str(block["hash"]) for number, block in enumerate(blocks)}

    def logs(self, first: int, last: int) -> list[dict[str, Any]]:
        """The emitter's logs."""
        span = {"fromBlock": hex(first), "toBlock": hex(last), "address": EMITTER}
        found: list[dict[str, Any]] = self.nodes[0].ask("eth_getLogs", span)
        return found


@contextmanager
def replicas(count: int) -> Iterator[ReplicaChain]:
    """`count` nodes of one chain, killed in the end."""
    with ExitStack() as started:
        yield ReplicaChain(count, started)
