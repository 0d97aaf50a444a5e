"""Reads and writes recordings, which are JSON lines of real calls behind a header, and chooses what is replayed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.core.wire.json_text import UNREADABLE

VERSION = 1
NEAR_HEAD_BLOCKS = 128
"""Blocks under the head: a call about one of these is about "now" and may be moved along with the head."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')


class RecordingError(ValueError):
    """A file that is no recording; the text says where and why."""


class RecordingHeader(Struct, frozen=True):
    """The first line of a recording."""

    recording: int
    rpcaccel: str = ""
    started: str = ""
    sample: float = 1.0
    hashed_addresses: bool = False


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recorded call."""

    at: float
    """Seconds since the recording began."""
    method: str
    params: Raw = Raw(b"[]")
    network: str = ""
    head: int = -1
    """The served head at which the call was answered."""
    block: int | None = None
    """The block that the call was about, or the last one of a range."""
    first: int | None = None
    """The first block of a range."""
    source: str = ""
    """The source of the answer, as X-Rpcaccel-Cache tells it."""
    ms: float | None = None
    """Milliseconds until the answer."""
    hashed: bool = False
    """Whether the params are a transaction's hash, in place of the transaction."""

    @property
    def call(self) -> LoadCall:
        """The call to make."""
        return LoadCall(self.method, bytes(self.params))


class Chosen(Struct):
    """The calls of a recording that are replayed, and the number of those that are not, by reason."""

    head: RecordingHeader
    lines: list[Line]
    left_out: Counter[str] = field(default_factory=Counter)


_decode = msgspec.json.Decoder(Line).decode
encode = msgspec.json.Encoder().encode


def read(file: Path) -> tuple[RecordingHeader, list[Line]]:
    """The calls of a file, in the order in which they came. Raises RecordingError, OSError."""
    with file.open("rb") as text:
        try:
            head = msgspec.json.decode(text.readline(), type=RecordingHeader)
        except UNREADABLE:
            raise RecordingError(f"{file.name} is no recording: its first line says nothing of one") from None
        if head.recording != VERSION:
            raise RecordingError(f"{file.name}: found version {head.recording}, expected {VERSION}")
        lines = sorted(_lines(file.name, text), key=lambda line: line.at)
    return head, lines


def _lines(name: str, text: Any) -> Iterator[Line]:
    for number, line in enumerate(text, 2):
        try:
            yield _decode(line)
        except UNREADABLE as error:
            if not line.endswith(b"\n"):
                return  # the recording was interrupted in the middle of its last line
            raise RecordingError(f"{name}, line {number}: {error}") from None


def choose(head: RecordingHeader, lines: Sequence[Line], *, network: str = "", writes: bool = False) -> Chosen:
    """The calls of a recording that may be replayed: the reads of one network, and with `writes` all that can be sent.
    Raises RecordingError."""
    networks = sorted({line.network for line in lines})
    if len(networks) > 1 and not network:
        raise RecordingError(f"calls to {', '.join(networks)}: --network says which of them are meant")
    chosen = Chosen(head, [])
    for line in lines:
        if network and line.network != network:
            chosen.left_out["of another network"] += 1
        elif line.hashed:
            chosen.left_out["transactions, of which only the hash was recorded"] += 1
        elif not writes and not is_read(line.method):
            chosen.left_out["writes, filters, and methods that no rule knows"] += 1
        else:
            chosen.lines.append(line)
    return chosen


@cache
def is_read(method: str) -> bool:
    """Whether every chain that knows this method, and one at least, says that it only reads."""
    rules = [rule for name in chains.names() if (rule := chains.load(name).rules.get(method)).known]
    return bool(rules) and all(rule.kind == "read" and not rule.deny for rule in rules)


def follow(line: Line, head: int) -> Line:
    """The call at another head: a block near the head of the recording becomes the block as far below `head`."""
    blocks = [
        block for block in (line.block, line.first) if block is not None and 0 <= line.head - block <= NEAR_HEAD_BLOCKS
    ]
    if min(line.head, head) < 0 or not blocks:
        return line
    texts = {spell(block): spell(max(0, head - (line.head - block))) for block in blocks for spell in (str, hex)}
    return replace(line, params=Raw(_TOKEN.sub(lambda token: _moved(token[0], texts), bytes(line.params))))


def _moved(token: bytes, texts: dict[str, str]) -> bytes:
    """A string or number of the params, or the text that replaces it, in the same spelling."""
    word = token.strip(b'"').decode("utf-8", "replace")
    return token.replace(word.encode(), texts[word].encode()) if word in texts else token
