"""Traces for the memory tier: which keys are asked for in turn, and how long the answers are. The same every time.

Sizes and shapes are those of Harmony's answers: a block of 2 to 20 kB, a receipt of 1 kB, a call's word of 100 bytes.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate
from zlib import crc32

Request = tuple[bytes, int]
"""A key, and the length of its answer (bytes)."""

CHAIN = 1_000_000
"""The number of blocks of the chain."""
CALLS_A_HEAD = 600
"""Requests between two heads: 300 a second, blocks of two seconds."""


class Popularity:
    """Ranks below `count`, the first ones asked for most (Zipf)."""

    def __init__(self, rng: random.Random, count: int, skew: float) -> None:
        self._rng = rng
        self._edges = list(accumulate(1.0 / (rank + 1) ** skew for rank in range(count)))

    def rank(self) -> int:
        """A rank that was drawn."""
        return bisect(self._edges, self._rng.random() * self._edges[-1])


def _sized(key: bytes, least: int, most: int) -> Request:
    """The key with the length of its answer, which is always the same."""
    return key, least + crc32(key) % (most - least + 1)


def _block(number: int) -> Request:
    return _sized(b"harmony-s0:hmyv2_getBlockByNumber:[%d,{}]" % number, 2_000, 20_000)


def _receipt(block: int, index: int) -> Request:
    return _sized(b"harmony-s0:hmyv2_getTransactionReceipt:%064x" % (block << 16 | index), 700, 1_600)


def dapp() -> Iterator[Request]:
    """A DApp: its contracts' state at each new head, their code and logs, receipts of what users just sent."""
    rng = random.Random("dapp")
    contracts, functions, code = Popularity(rng, 3_000, 1.0), Popularity(rng, 12, 0.9), Popularity(rng, 2_000, 1.1)
    asked = 0
    while True:
        asked += 1
        head = CHAIN + asked // CALLS_A_HEAD
        kind = rng.random()
        if kind < 0.55:
            words = (head, contracts.rank(), functions.rank())
            yield _sized(b"harmony-s0:eth_call@%d:0x%040x:0x%08x" % words, 70, 400)
        elif kind < 0.75:
            yield _receipt(head - int(rng.expovariate(1 / 15)), rng.randrange(40))
        elif kind < 0.90:
            yield _sized(b"harmony-s0:eth_getCode:0x%040x" % code.rank(), 2_000, 24_000)
        else:
            yield _block(head - int(rng.expovariate(1 / 10)))


def explorer() -> Iterator[Request]:
    """An explorer: its front page, popular addresses, and people (and crawlers) who walk through old blocks."""
    rng = random.Random("explorer")
    addresses, landmarks = Popularity(rng, 40_000, 1.0), Popularity(rng, 20_000, 0.8)
    asked = 0
    while True:
        head = CHAIN + asked // CALLS_A_HEAD
        kind = rng.random()
        if kind < 0.35:
            page = [_block(head - n) for n in range(8)]
        elif kind < 0.60:
            page = [_sized(b"harmony-s0:hmyv2_getTransactionsHistory:%040x:0" % addresses.rank(), 1_000, 16_000)]
        elif kind < 0.75:
            block = landmarks.rank() * 47
            page = [_block(block), *(_receipt(block, n) for n in range(3))]
        else:
            start = rng.randrange(CHAIN)
            page = [_block(start + n) for n in range(rng.randrange(5, 40))]
        asked += len(page)
        yield from page


def indexer() -> Iterator[Request]:
    """Two indexers scan ranges of blocks with their receipts, one far behind the other; wallets read what is hot."""
    rng = random.Random("indexer")
    hot = Popularity(rng, 12_000, 0.9)
    places = [100_000, 95_000]
    while True:
        for which, place in enumerate(places):
            for number in range(place, place + 20):
                yield _block(number)
                yield _receipt(number, 0)
            places[which] = place + 20
            for _ in range(60):
                yield _sized(b"harmony-s0:hmyv2_getStakingTransactionByHash:%064x" % hot.rank(), 600, 6_000)


TRACES: dict[str, Callable[[], Iterator[Request]]] = {"dapp": dapp, "explorer": explorer, "indexer": indexer}
"""The traces by name; each goes on for ever."""
