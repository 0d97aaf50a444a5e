"""What DApps and wallets do: reads about popular contracts and addresses, mostly at the newest block, some batches, and
a few sends.

    RPCACCEL_RATE   5       calls a second of one user
    RPCACCEL_SENDS  0.005   share of sends, 0 for none: transactions of made-up senders without funds. A real node
                            refuses them, and that counts as its answer
"""

from __future__ import annotations

import os
import random

import msgspec
from locust import constant_throughput, task

from common import RpcUser
from rpcaccel.bench.load.workload import PEOPLE, LoadCall, Visitors, made_up
from rpcaccel.core.hashing.rlp import number, sequence, string

RATE = float(os.environ.get("RPCACCEL_RATE", "5"))
SENDS = float(os.environ.get("RPCACCEL_SENDS", "0.005"))
REFUSALS = "insufficient funds|underpriced|nonce too low|already known|known transaction"
POINT_X = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
"""The first coordinate of a point of secp256k1, which may stand as the `r` of a signature."""


def unfunded(rng: random.Random, to: bytes, chain_id: int) -> bytes:
    """A well-formed transfer with a made-up signature (EIP-155), which recovers to an address that nobody has used: a
    real node refuses the transfer."""
    nonce, gas_price, gas, value = map(number, (0, 100_000_000_000, 21_000, 1))
    signature = (35 + 2 * chain_id + rng.randrange(2), POINT_X, rng.randrange(1, 1 << 254))
    return sequence([nonce, gas_price, gas, string(to), value, string(b""), *map(number, signature)])


class Dapp(RpcUser):
    """One visitor."""

    wait_time = constant_throughput(RATE)

    def on_start(self) -> None:
        self.rng = random.Random()
        self.visitors = Visitors(self.world, self.rng)

    @task(900)
    def one_read(self) -> None:
        """A single read."""
        self.call(self.visitors.read())

    @task(60)
    def page_opens(self) -> None:
        """A page that asks for everything it shows in one batch."""
        self.batch(self.visitors.page())

    @task(max(0, round(SENDS * 1000)))
    def send(self) -> None:
        """A transaction, and a look at whether it is there."""
        said = self.call(LoadCall("eth_chainId"))
        if said is None:
            return
        to = bytes.fromhex(made_up("person", self.rng.randrange(PEOPLE))[2:])
        raw = "0x" + unfunded(self.rng, to, int(msgspec.json.decode(said), 16)).hex()
        sent = self.call(LoadCall("eth_sendRawTransaction", msgspec.json.encode([raw])), refusals=REFUSALS)
        if sent is not None:
            self.call(LoadCall("eth_getTransactionByHash", b"[" + sent + b"]"))
