"""What DApps and wallets call: popular contracts and addresses far more often, mostly at the newest block.

Shares follow what public endpoints report: reads of contracts above all, then heights, balances, blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from rpcaccel.bench.calls import Call, World

T = TypeVar("T")

READS = {
    "eth_call": 40,
    "eth_getBalance": 12,
    "eth_blockNumber": 12,
    "eth_getBlockByNumber": 10,
    "eth_getLogs": 6,
    "eth_getTransactionCount": 6,
    "eth_gasPrice": 5,
    "eth_getCode": 4,
    "eth_chainId": 5,
}
PEOPLE, CONTRACTS = 2000, 200
NEWEST = 0.9
"""Share of calls that are about the newest block; the others go back exponentially, 50 blocks on average."""
_METHODS, _WEIGHTS = tuple(READS), tuple(accumulate(READS.values()))
_POINT = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
"""x of a point on the curve (SEC 2, the generator of secp256k1): any signature with it recovers to some address."""
_HALF = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


class Zipf(Generic[T]):
    """Draws from `items`, the first ones far more often: rank to the power of -s."""

    def __init__(self, items: Sequence[T], s: float = 1.1) -> None:
        self._items = items
        self._weights = tuple(accumulate(rank**-s for rank in range(1, len(items) + 1)))

    def draw(self, rng: Random) -> T:
        """One of them."""
        return rng.choices(self._items, cum_weights=self._weights)[0]


class Visitors:
    """Makes the calls of many visitors. Equal worlds have equal people and contracts, in any process."""

    def __init__(self, world: World, rng: Random) -> None:
        self._head = world.head
        self._rng = rng
        known = list(world.addresses)
        self._people = Zipf([*known, *(made_up("person", number) for number in range(PEOPLE - len(known)))])
        self._contracts = Zipf([world.contract, *(made_up("contract", number) for number in range(CONTRACTS - 1))])

    def __iter__(self) -> Iterator[Call]:
        while True:
            yield self.read()

    def read(self) -> Call:
        """One read."""
        method = self._rng.choices(_METHODS, cum_weights=_WEIGHTS)[0]
        return Call(method, msgspec.json.encode(self._params(method)))

    def page(self) -> list[Call]:
        """What a page asks for when it opens, in one batch."""
        return [self.read() for _ in range(self._rng.randrange(3, 15))]

    def _params(self, method: str) -> list[Any]:
        rng = self._rng
        match method:
            case "eth_call":
                data = f"0x70a08231{self._people.draw(rng)[2:]:0>64}"  # balanceOf
                return [{"to": self._contracts.draw(rng), "data": data}, self._block()]
            case "eth_getBalance":
                return [self._people.draw(rng), self._block()]
            case "eth_getTransactionCount":
                return [self._people.draw(rng), "latest"]
            case "eth_getCode":
                return [self._contracts.draw(rng), "latest"]
            case "eth_getBlockByNumber":
                return [self._block(), False]
            case "eth_getLogs":
                first = max(1, self._head - rng.choice((5, 20, 100)))
                place = {"fromBlock": hex(first), "toBlock": hex(self._head)}
                return [{"address": self._contracts.draw(rng), **place}]
        return []

    def _block(self) -> str:
        if self._rng.random() < NEWEST:
            return "latest"
        return hex(max(1, self._head - int(self._rng.expovariate(0.02))))


def made_up(kind: str, number: int) -> str:
    """An address that is the same in every process."""
    return "0x" + blake2b(f"{kind} {number}".encode(), digest_size=20).hexdigest()


def transaction(rng: Random, chain_id: int) -> str:
    """A well-formed transfer with a made-up signature (EIP-155): its sender is an address that nobody has used, so a
    real node refuses it for want of funds."""
    to = bytes.fromhex(made_up("person", rng.randrange(PEOPLE))[2:])
    before, after = (
        (0, 100_000_000_000, 21_000),
        (35 + 2 * chain_id + rng.randrange(2), _POINT, rng.randrange(1, _HALF)),
    )
    fields = (*map(_number, before), to, _number(1), b"", *map(_number, after))
    body = b"".join(_string(field) for field in fields)
    return "0x" + (_length(len(body), 0xC0) + body).hex()


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _string(data: bytes) -> bytes:
    """RLP of a string (yellow paper, appendix B)."""
    return data if len(data) == 1 and data[0] < 0x80 else _length(len(data), 0x80) + data


def _length(size: int, base: int) -> bytes:
    if size < 56:
        return bytes([base + size])
    number = _number(size)
    return bytes([base + 55 + len(number)]) + number
