"""What a block explorer and an indexer do: walk old blocks and ranges, back and forth, never twice the same way."""

from __future__ import annotations

import os
import random
from typing import Any

import msgspec
from locust import constant_throughput, task

from common import RpcUser
from rpcaccel.bench.load.workload import LoadCall

RATE = float(os.environ.get("RPCACCEL_RATE", "5"))
PAGE = 25
REACH = int(os.environ.get("RPCACCEL_REACH", "2000"))
"""Blocks under the head that are walked over."""


class Explorer(RpcUser):
    """One reader, paging through old blocks."""

    wait_time = constant_throughput(RATE)

    def on_start(self) -> None:
        self.rng = random.Random()
        head = self.world.head
        self.lowest, self.highest = max(1, head - REACH), max(1, head - PAGE - 1)
        self.at = self.rng.randint(self.lowest, self.highest)

    def turn(self) -> int:
        """The first block of the next page: mostly onwards, sometimes back, now and then elsewhere."""
        step = self.rng.choice((PAGE, PAGE, PAGE, -PAGE))
        self.at += step
        if not self.lowest <= self.at <= self.highest or self.rng.random() < 0.02:
            self.at = self.rng.randint(self.lowest, self.highest)
        return self.at

    def ask(self, method: str, *params: Any) -> bytes | None:
        """A call."""
        return self.call(LoadCall(method, msgspec.json.encode(params)))

    @task(6)
    def page(self) -> None:
        """A page of blocks."""
        first = self.turn()
        if self.world.chain == "harmony":
            options = {"withSigners": False, "fullTx": False, "inclStaking": True}
            self.ask("hmyv2_getBlocks", first, first + PAGE - 1, options)
        else:
            blocks = range(first, first + PAGE)
            self.batch([LoadCall("eth_getBlockByNumber", msgspec.json.encode([hex(n), False])) for n in blocks], "page")

    @task(4)
    def block(self) -> None:
        """A block, and the receipt of one of its transactions."""
        text = self.ask("eth_getBlockByNumber", hex(self.turn()), False)
        found = msgspec.json.decode(text) if text else None
        hashes = found.get("transactions", []) if isinstance(found, dict) else []
        if hashes:
            self.ask("eth_getTransactionReceipt", self.rng.choice(hashes))

    @task(3)
    def logs(self) -> None:
        """A scan that overlaps the one before."""
        first = self.turn()
        width = self.rng.choice((20, 100, 500))
        last = min(first + width, self.highest + PAGE)
        self.ask("eth_getLogs", {"address": self.world.contract, "fromBlock": hex(first), "toBlock": hex(last)})

    @task(2)
    def signers(self) -> None:
        """Who signed a block; on other chains how many transactions it has."""
        number = self.turn()
        if self.world.chain == "harmony":
            self.ask("hmyv2_getBlockSigners", number)
        else:
            self.ask("eth_getBlockTransactionCountByNumber", hex(number))

    @task(1)
    def balance(self) -> None:
        """What an address had."""
        self.ask("eth_getBalance", self.rng.choice(self.world.addresses), hex(self.turn()))
