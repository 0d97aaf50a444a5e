"""A mixed trace of real calls: a DApp, an explorer and two indexers, while blocks come. The same every time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rpcaccel.simnode.chain.sim_chain import SimChain

Call = tuple[int, str, list[Any]]
"""The host it comes to, the method, the params."""

HOSTS = 2


class Mixed:
    """The calls of clients at one head after the other; `chain` has the transactions that calls are about."""

    def __init__(self, chain: SimChain, start: int, seed: str = "mixed") -> None:
        self._rng = random.Random(seed)
        self._chain = chain
        self._places = [start // 4, start // 4 - 60]  # the second indexer is 60 blocks behind the first
        self._contracts = [f"0x{number:040x}" for number in range(0xC0, 0xC0 + 60)]

    def at(self, head: int) -> Iterator[Call]:
        """The calls between this head and the next."""
        calls = [*self._dapp(head), *self._explorer(head), *self._indexers(head)]
        self._rng.shuffle(calls)
        for method, params in calls:
            yield self._rng.randrange(HOSTS), method, params

    def _popular(self, count: int) -> int:
        return min(int(self._rng.paretovariate(0.9)) - 1, count - 1)

    def _receipt(self, head: int) -> Iterator[tuple[str, list[Any]]]:
        block = self._chain.branch.block(head - self._popular(30))
        if block.txs:
            yield "eth_getTransactionReceipt", ["0x" + self._rng.choice(block.txs).hash.hex()]

    def _dapp(self, head: int) -> Iterator[tuple[str, list[Any]]]:
        for _ in range(24):
            call = {"to": self._contracts[self._popular(60)], "data": f"0x{0x70A08231 + self._popular(6):08x}"}
            yield "eth_call", [call, "latest"]
        for _ in range(6):
            yield "eth_getBalance", [self._contracts[self._popular(60)], "latest"]
            yield "eth_getCode", [self._contracts[self._popular(60)], "latest"]
        for _ in range(4):
            yield "eth_blockNumber", []
            yield "eth_gasPrice", []
            yield "eth_getBlockByNumber", ["latest", False]
            yield from self._receipt(head)
        yield "eth_getLogs", [{"fromBlock": hex(head - 200), "toBlock": hex(head), "address": self._contracts[0]}]
        yield "net_version", []

    def _explorer(self, head: int) -> Iterator[tuple[str, list[Any]]]:
        for _ in range(3):
            yield "hmyv2_getBlocks", [head - 9, head, {"fullTx": True}]
            yield "hmyv2_getBalance", [f"0x{0xA0 + self._popular(200):040x}"]
        for _ in range(2):
            yield from self._receipt(head)
        block = self._rng.randrange(1, head // 8)
        for number in range(block, block + 4):
            yield "hmyv2_getBlockByNumber", [number, {"fullTx": True}]
        for _ in range(4):
            yield "hmyv2_getBlockByNumber", [self._popular(400) + 1, {"fullTx": True}]
        yield "hmyv2_getCurrentUtilityMetrics", []

    def _indexers(self, head: int) -> Iterator[tuple[str, list[Any]]]:
        for which, place in enumerate(self._places):
            length = self._rng.randrange(10, 21)
            last = min(place + length - 1, head)
            # A batch begins a little before the end of the last one, as careful indexers do.
            yield "hmyv2_getBlocks", [max(place - 2, 1), last, {"fullTx": False}]
            yield "eth_getLogs", [{"fromBlock": hex(max(place - 2, 1)), "toBlock": hex(last)}]
            self._places[which] = last + 1
        yield "eth_getTransactionCount", [self._contracts[0], "latest"]
