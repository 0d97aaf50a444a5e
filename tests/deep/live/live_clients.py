"""Real clients of subscriptions as processes, and what is wrong with what they were sent."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from locustfiles.live_stream import HeadSequence, LogSequence, place_of
from tests.deep.live.anvil_replicas import EMITTER, ReplicaChain
from tests.support.services import Process, require

HERE = Path(__file__).parent
RESUMED_AFTER = 12
"""Blocks after which the client that resumes cuts its connection."""
PLAIN = ("ethers", "viem", "web3.py")
"""Clients that know nothing of resuming: their connection stays open all the time."""
CLIENTS = (*PLAIN, "resuming")
NEWEST = 20_000
"""Characters of a client's output in which its newest blocks are."""


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

    def has(self, name: str) -> bool:
        """Whether the header and a log of this block have come, or no more can come."""
        told = self.process.output[-NEWEST:]
        kinds = (rf'\{{"head".*"hash": ?"{name}"', rf'\{{"log".*"blockHash": ?"{name}"')
        return not self.process.running or all(re.search(kind, told) for kind in kinds)

    def _events(self) -> Iterator[tuple[str, Any]]:
        for line in self.process.output.splitlines():
            if not line.startswith("{"):  # the client's own error and what follows
                yield "failed", line
                return
            yield from json.loads(line).items()

    def faults(self, chain: ReplicaChain, branch: dict[int, str]) -> list[str]:
        """What is wrong with its streams, in sentences."""
        heard = _Heard()
        wrong = [f"{kind} {told}: {fault}" for kind, told in self._events() if (fault := heard.take(kind, told))]
        return [f"{self.name}: {fault}" for fault in (*wrong, *heard.against(chain, branch))]

    def summary(self) -> str:
        """How much it was sent."""
        counts = {kind: sum(1 for name, _ in self._events() if name == kind) for kind in ("head", "log", "resume")}
        removed = sum(1 for name, told in self._events() if name == "log" and told["removed"])
        return f"{self.name}: {counts['head']} heads, {counts['log']} logs ({removed} taken back)" + (
            f", resumed {counts['resume']} times" if counts["resume"] else ""
        )


class _Heard:
    """The events of one client."""

    def __init__(self) -> None:
        self.heads = HeadSequence()
        self.logs = LogSequence()
        self.first_head = self.first_log = sys.maxsize
        """The lowest blocks that were sent: a client that resumes may go back behind its first."""
        self.numbers: set[int] = set()
        """Blocks that the client's own event of a new block named."""
        self.places: set[tuple[int, int]] = set()
        """Logs that its listeners were given, where these are not told of all."""

    def take(self, kind: str, told: Any) -> str:
        """What is wrong with an event, "" for nothing."""
        match kind:
            case "head":
                self.first_head = min(self.first_head, int(told["number"], 16))
                return self.heads.take(told)
            case "log":
                self.first_log = min(self.first_log, int(told["blockNumber"], 16))
                return self.logs.take(told)
            case "number":
                self.numbers.add(told)
            case "event":
                self.places.add((told[0], told[1]))
            case "resume":
                self.heads.resume(told[0])
                self.logs.resume(told[1])
            case _:
                return kind
        return ""

    def against(self, chain: ReplicaChain, branch: dict[int, str]) -> Iterator[str]:
        """What is wrong with the whole when the chain has this branch."""
        last = self.heads.tip or 0
        right = {number: name for number, name in branch.items() if self.first_head <= number <= last}
        if self.heads.branch != right:
            yield f"the branch of {self.first_head} to {last} is not the chain's"
        # The client's own subscriptions of the same kinds may have begun a block later.
        if untold := {number for number in right if number > min(self.numbers)} - self.numbers:
            yield f"the numbers {sorted(untold)} were not told"
        logs = chain.logs(self.first_log, max(branch))
        if unheard := {at for at in map(place_of, logs) if at > min(self.places, default=at)} - self.places:
            yield f"the logs {sorted(unheard)} reached no listener"
        if missing := self.logs.missing(logs):
            yield f"{missing} of {len(logs)} logs are missing"
        if extra := self.logs.extra(logs):
            yield f"{extra} logs are not the chain's"


def _command(name: str, url: str) -> list[str | Path]:
    socket = url.replace("http://", "ws://")
    if name == "web3.py":
        return [sys.executable, HERE / "web3py_client.py", socket, EMITTER]
    if name == "resuming":
        return [sys.executable, HERE / "resuming_client.py", socket, EMITTER, str(RESUMED_AFTER)]
    return ["node", HERE / f"{name}_client.cjs", socket, EMITTER]


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(require("live-clients"))}
