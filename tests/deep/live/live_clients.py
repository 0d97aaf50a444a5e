"""Real clients of subscriptions as processes, and what is wrong with what they were sent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rpcaccel.bench.load.live_stream import HeadStream, LogStream
from tests.deep.live.anvil_replicas import EMITTER, ReplicaChain
from tests.support.services import Process, require

HERE = Path(__file__).parent
RESUMED_AFTER = 12
"""Blocks after which the client that resumes cuts its connection."""
PLAIN = ("ethers", "viem", "web3.py")
"""Clients that know nothing of resuming: their connection stays open all the time."""
CLIENTS = (*PLAIN, "resuming")


class LiveClient:
    """One client that subscribes to headers and to the emitter's logs."""

    def __init__(self, name: str, url: str, started: ExitStack) -> None:
        self.name = name
        self.process = started.enter_context(Process(_command(name, url), env=_environment()))

    def __repr__(self) -> str:
        return f"<LiveClient {self.name} {self.process!r}>"

    def begun(self) -> bool:
        """Whether an event of each kind has come."""
        if not self.process.running:
            raise AssertionError(f"{self!r} ended; it wrote:\n{self.process.output}")
        return all(f'{{"{kind}"' in self.process.output for kind in ("head", "number", "log"))

    def wait_for_block(self, name: str, seconds: float) -> None:
        """Wait until the header and a log of this block have come."""
        self.process.wait_for(rf'\{{"head".*"hash": ?"{name}"', seconds)
        self.process.wait_for(rf'\{{"log".*"blockHash": ?"{name}"', seconds)

    def _events(self) -> Iterator[tuple[str, Any]]:
        for line in self.process.output.splitlines():
            yield from json.loads(line).items()

    def faults(self, chain: ReplicaChain, branch: dict[int, str]) -> list[str]:
        """What is wrong with its streams, in sentences."""
        heads, logs, found, numbers = HeadStream(), LogStream(), [], set()
        first = first_log = 0
        for kind, told in self._events():
            wrong = ""
            match kind:
                case "head":
                    wrong = heads.take(told)
                    first = first or int(told["number"], 16)
                case "log":
                    wrong = logs.take(told)
                    first_log = first_log or int(told["blockNumber"], 16)
                case "number":
                    numbers.add(told)
                case "resume":
                    heads.resume(told[0])
                    logs.resume(told[1])
                case _:
                    wrong = kind
            if wrong:
                found.append(f"{self.name}: {kind} {told}: {wrong}")
        last = heads.tip or 0
        right = {number: name for number, name in branch.items() if first <= number <= last}
        if heads.branch != right:
            found.append(f"{self.name}: its branch of {first} to {last} is not the chain's")
        if not set(right) <= numbers:
            found.append(f"{self.name}: the numbers {sorted(set(right) - numbers)} were not told")
        expected = chain.logs(first_log, max(branch))
        if missing := logs.missing(expected):
            found.append(f"{self.name}: {missing} of {len(expected)} logs are missing")
        if extra := logs.extra(expected):
            found.append(f"{self.name}: {extra} logs are not the chain's")
        return found

    def summary(self) -> str:
        """How much it was sent."""
        counts = {kind: sum(1 for name, _ in self._events() if name == kind) for kind in ("head", "log", "resume")}
        removed = sum(1 for name, told in self._events() if name == "log" and told["removed"])
        return f"{self.name}: {counts['head']} heads, {counts['log']} logs ({removed} taken back)" + (
            f", resumed {counts['resume']} times" if counts["resume"] else ""
        )


def _command(name: str, url: str) -> list[str | Path]:
    socket = url.replace("http://", "ws://")
    if name == "web3.py":
        return [sys.executable, HERE / "web3py_client.py", socket, EMITTER]
    if name == "resuming":
        return [sys.executable, HERE / "resuming_client.py", socket, EMITTER, str(RESUMED_AFTER)]
    return ["node", HERE / f"{name}_client.cjs", socket, EMITTER]


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(require("live-clients"))}
