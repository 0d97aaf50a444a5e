"""Checks what a subscriber is sent: no block and no log is missing, none comes twice, and none is out of order.

A stream follows one branch. A head on another branch takes back what was above its parent; logs are taken back by
notifications with `removed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MAX_REMEMBERED = 20_000
"""Blocks or logs that a stream remembers."""
GAP, DOUBLE, DISORDER = "gap", "double", "out of order"


class HeadSequence:
    """The notifications of one newHeads subscription, or of several of which each resumed where the last ended."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._branch: dict[str, int] = {}
        self.heads = 0
        """Blocks taken."""
        self.reorganisations = 0

    def __repr__(self) -> str:
        return f"<HeadSequence at {self.tip}, {self.heads} heads>"

    @property
    def tip(self) -> int | None:
        """The number of the newest block."""
        return next(reversed(self._branch.values()), None)

    @property
    def branch(self) -> dict[int, str]:
        """The hashes of the branch by number."""
        return {number: name for name, number in self._branch.items()}

    def resume(self, number: int) -> None:
        """The next subscription begins with this block again."""
        while self._branch and next(reversed(self._branch.values())) >= number:
            self._branch.popitem()

    def take(self, header: Mapping[str, Any]) -> str:
        """What is wrong with this notification: "gap", "double" or nothing."""
        name, parent = str(header["hash"]), str(header["parentHash"])
        self.heads += 1
        if name in self._branch:
            return DOUBLE
        found = ""
        if self._branch and next(reversed(self._branch)) != parent:
            found = self._fork(parent)
        self._branch[name] = int(header["number"], 16)
        if len(self._branch) > self._most:
            del self._branch[next(iter(self._branch))]
        return found

    def _fork(self, parent: str) -> str:
        """Go back to the parent; without it the branch begins anew."""
        if parent not in self._branch:
            self._branch.clear()
            return GAP
        self.reorganisations += 1
        while next(reversed(self._branch)) != parent:
            self._branch.popitem()
        return ""


class LogSequence:
    """The notifications of one subscription to logs, or of several of which each resumed where the last ended."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._logs: dict[tuple[str, int], int] = {}
        self.taken = 0
        """Logs taken, without those that were taken back."""
        self.removed = 0

    def __repr__(self) -> str:
        return f"<LogSequence of {len(self._logs)} logs>"

    @property
    def tip(self) -> int | None:
        """The number of the block of the newest log."""
        return next(reversed(self._logs.values()), None)

    def resume(self, number: int) -> None:
        """The next subscription begins with the logs of this block again."""
        while self._logs and next(reversed(self._logs.values())) >= number:
            self._logs.popitem()

    def take(self, log: Mapping[str, Any]) -> str:
        """What is wrong with this notification: "gap", "double", "out of order" or nothing."""
        key, number = (str(log["blockHash"]), int(log["logIndex"], 16)), int(log["blockNumber"], 16)
        if log.get("removed"):
            self.removed += 1
            return "" if self._logs.pop(key, None) is not None else GAP  # a log that was never sent
        self.taken += 1
        if key in self._logs:
            return DOUBLE
        last = next(reversed(self._logs.items()), None)
        self._logs[key] = number
        if len(self._logs) > self._most:
            del self._logs[next(iter(self._logs))]
        if last is None or last[1] < number:
            return ""
        (block, index), at = last
        return "" if at == number and block == key[0] and index < key[1] else DISORDER

    def missing(self, expected: Iterable[Mapping[str, Any]]) -> int:
        """How many of these logs of the chain the stream lacks."""
        return len({place_of(log) for log in expected} - self._places())

    def extra(self, expected: Iterable[Mapping[str, Any]]) -> int:
        """How many logs of the stream are none of these."""
        return len(self._places() - {place_of(log) for log in expected})

    def _places(self) -> set[tuple[int, int]]:
        return {(number, index) for (_, index), number in self._logs.items()}


def place_of(log: Mapping[str, Any]) -> tuple[int, int]:
    """The place of a log in the chain. The hash says no more: a Harmony node gives false ones in its own blocks."""
    return int(log["blockNumber"], 16), int(log["logIndex"], 16)
