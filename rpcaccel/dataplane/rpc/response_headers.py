"""Header lines of answers: where an answer came from, how long it took, and the date."""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from math import ceil
from typing import Literal

from rpcaccel.config.value_types import parse_duration
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource

HeadersShown = Literal["all", "cache", "none"]

CACHE = "X-Rpcaccel-Cache"
NODE = "X-Rpcaccel-Node"
BLOCK = "X-Rpcaccel-Block"
ATTEMPTS = "X-Rpcaccel-Attempts"
AGREED = "X-Rpcaccel-Agreed"
"""How many nodes gave the answer to a read that several must agree in, and how many answered: 2/3."""
PROVED = "X-Rpcaccel-Proved"
"""The hash of the block by whose state the answer was proved."""
TIMING = "Server-Timing"
TIMEOUT = "X-Rpcaccel-Timeout"
"""The header of a request that says how long the client will wait, such as 2s or 500ms."""
_MAX_DURATION_CHARACTERS = 64
"""Characters of the longest duration that is read."""
MIN_SHOWN_SECONDS = 5e-6
"""Seconds from which a time is shown as more than 0.00 ms."""
EXPOSED_HEADERS = ", ".join((CACHE, NODE, BLOCK, ATTEMPTS, AGREED, PROVED, TIMING, "Retry-After", "X-Request-ID"))
"""The headers that a page of another origin may read (Fetch standard, CORS-exposed header names)."""

_WORDS = {source: "miss" if source is AnswerSource.NODE else source.label for source in AnswerSource}


def seconds_given(told: str) -> float | None:
    """The seconds that a TIMEOUT header gives; None when its value is no duration above 0."""
    return _seconds(told) if len(told) <= _MAX_DURATION_CHARACTERS else None


@lru_cache(maxsize=256)
def _seconds(told: str) -> float | None:
    try:
        return parse_duration(told) or None
    except ValueError:
        return None


def word(outcome: Outcome) -> str:
    """The word for where an answer came from."""
    return _WORDS[outcome.source]


def for_call(outcome: Outcome, shown: HeadersShown, seconds: float) -> str:
    """The header lines of a single call's answer, each with its line break.

    Server-Timing (W3C) has durations in milliseconds; an attempt says when it began as well.
    """
    told = ""
    if outcome.retry_after is not None:
        told = f"Retry-After: {max(1, ceil(outcome.retry_after))}\r\n"
    if shown == "none":
        return told
    if shown == "cache":
        return told + _cache_line(outcome.source, outcome.cached)
    told += _lines(outcome.source, outcome.cached, outcome.node, outcome.block, outcome.attempts)
    if outcome.agreed is not None:
        told += "{}: {}/{}\r\n".format(AGREED, *outcome.agreed)
    if outcome.proved:
        told += f"{PROVED}: {outcome.proved}\r\n"
    steps = ""
    for name, taken in outcome.steps:
        steps += f"{name};dur={taken * 1000:.2f}, "
    for leg in outcome.legs if steps and len(outcome.legs) > 1 else ():
        steps += f'attempt;desc="{leg.node} {leg.end}";start={leg.start * 1000:.2f};dur={leg.seconds * 1000:.2f}, '
    return f"{told}{TIMING}: {steps}total;dur={seconds * 1000:.2f}\r\n"


def hundredths(seconds: float) -> int:
    """A time as it is shown: in hundredths of a millisecond."""
    return int(seconds * 1e5 + 0.5)


@lru_cache(maxsize=1024)
def of_hit(local: bool, block: int, shown: HeadersShown, time: int, proved: str = "") -> bytes:
    """The status line and header lines of an answer that the proxy had, as `for_call` writes them; time in hundredths
    of a millisecond."""
    source = AnswerSource.LOCAL if local else AnswerSource.MEMORY
    outcome = Outcome(source=source, result=b"", block=block, proved=proved)
    return f"HTTP/1.1 200 OK\r\n{for_call(outcome, shown, time / 1e5)}".encode("latin-1")


@lru_cache(maxsize=1024)
def _lines(source: AnswerSource, cached: tuple[int, int] | None, node: str, block: int, attempts: int) -> str:
    """The lines about the origin of an answer, remembered because most answers at one head have the same."""
    told = _cache_line(source, cached)
    if node:
        told += f"{NODE}: {node}\r\n"
    if block >= 0:
        told += f"{BLOCK}: {block}\r\n"
    if attempts:
        told += f"{ATTEMPTS}: {attempts}\r\n"
    return told


def _cache_line(source: AnswerSource, cached: tuple[int, int] | None) -> str:
    if source is AnswerSource.PARTIAL and cached is not None:
        return "{}: {}; cached={}; of={}\r\n".format(CACHE, _WORDS[source], *cached)
    return f"{CACHE}: {_WORDS[source]}\r\n"


def for_batch(outcomes: Sequence[Outcome], shown: HeadersShown, seconds: float) -> str:
    """The header lines of a batch's answer: how many came from each source, the nodes asked, the oldest head."""
    if shown == "none" or not outcomes:
        return ""
    counts, nodes, oldest, attempts = [0] * len(AnswerSource), set(), -1, 0
    for outcome in outcomes:
        counts[outcome.source] += 1
        attempts += outcome.attempts
        if outcome.node:
            nodes.add(outcome.node)
        if oldest < 0 or 0 <= outcome.block < oldest:
            oldest = outcome.block
    words = sorted((_WORDS[source], counts[source]) for source in AnswerSource if counts[source])
    told = f"{CACHE}: {', '.join(f'{name}={count}' for name, count in words)}\r\n"
    if shown == "cache":
        return told
    if nodes:
        told += f"{NODE}: {', '.join(sorted(nodes))}\r\n"
    if oldest >= 0:
        told += f"{BLOCK}: {oldest}\r\n"
    if attempts:
        told += f"{ATTEMPTS}: {attempts}\r\n"
    return f"{told}{TIMING}: total;dur={seconds * 1000:.2f}\r\n"


class DateHeader:
    """The Date line of one second, with its line break in front."""

    __slots__ = ("_after", "bytes", "text", "until")

    def __init__(self, after: bytes = b"") -> None:
        """`after`: the text that follows the line in `bytes`."""
        self._after = after
        self.text = ""
        self.bytes = b""
        self.until = float("-inf")
        """When the line is outdated, in seconds on the caller's clock: from then on call `turn` before it is used."""

    def turn(self, now: float) -> None:
        """Write the line anew; `now` is the present time on the caller's clock."""
        wall = time.time()
        self.until = now + 1.0 - wall % 1.0
        self.text = f"\r\nDate: {formatdate(int(wall), usegmt=True)}"
        self.bytes = self.text.encode("ascii") + self._after
