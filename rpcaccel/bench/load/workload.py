"""The calls that are made: the ten methods of the seed study's table, or what DApps and wallets call.

Both are about blocks, addresses and contracts that the measured chain has. DApps call popular contracts and addresses
far more often than others, mostly at the newest block; the shares of methods follow what public endpoints report: reads
of contracts above all, then heights, balances and blocks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from rpcaccel.bench.load.client import ConnectionPool
from rpcaccel.bench.load.verdict import result_of
from rpcaccel.core.wire.json_text import UNREADABLE

HARMONY = (
    "hmyv2_blockNumber",
    "hmyv2_getBlockSigners",
    "hmyv2_getBlocks",
    "hmyv2_getBalanceByBlockNumber",
    "hmyv2_getValidatorInformation",
    "hmyv2_call",
    "net_peerCount",
    "hmyv2_getNodeMetadata",
    "hmyv2_getCurrentTransactionErrorSink",
    "hmyv2_getCurrentUtilityMetrics",
)
ETHEREUM = (
    "eth_blockNumber",
    "eth_chainId",
    "eth_gasPrice",
    "eth_getBalance",
    "eth_getBlockByNumber",
    "eth_getTransactionCount",
    "eth_getCode",
    "eth_call",
    "eth_getLogs",
    "net_peerCount",
)
REACH = 100
"""Blocks under the head that calls are about: no node has pruned them."""
_TIMEOUT = 30.0
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}")
_encode = msgspec.json.Encoder().encode

Ask = Callable[[str, list[Any]], Awaitable[Any]]
"""A call's result, decoded; None when there is none."""


class NoEndpointError(Exception):
    """What should be measured does not answer as a node does; the text holds no secret."""


class LoadCall(Struct, frozen=True, gc=False):
    """One call to make."""

    method: str
    params: bytes = b"[]"

    def body(self, call_id: int) -> bytes:
        """The request's body."""
        return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (call_id, _encode(self.method), self.params)


class _Written(Struct):
    method: str
    params: Raw = Raw(b"[]")


def written(text: str) -> LoadCall:
    """A call as it is written in JSON; its params stay as they are spelt. Raises ValueError."""
    found = msgspec.json.decode(text, type=_Written)
    return LoadCall(found.method, bytes(found.params))


class World(Struct, frozen=True):
    """What a chain has that calls can be about."""

    chain: str
    head: int
    contract: str
    """0x…"""
    addresses: tuple[str, ...]
    """0x…"""
    validators: tuple[str, ...] = ()
    """one1…, Harmony only."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The ten methods of a table."""
        return HARMONY if self.chain == "harmony" else ETHEREUM


def asking(pool: ConnectionPool) -> Ask:
    """Ask over a pool."""

    async def ask(method: str, params: list[Any]) -> Any:
        result = result_of(await pool.post(LoadCall(method, msgspec.json.encode(params)).body(1), _TIMEOUT))
        try:
            return None if result is None else msgspec.json.decode(result)
        except UNREADABLE:
            return None

    return ask


async def learn(ask: Ask, where: str = "it") -> World:
    """Look around on a chain. Raises NoEndpointError, naming `where`, when nothing there says how high it is."""
    head, chain = await ask("hmyv2_blockNumber", []), "harmony"
    if not isinstance(head, int):
        said, chain = await ask("eth_blockNumber", []), "ethereum"
        if not isinstance(said, str) or not _NUMBER.fullmatch(said):
            raise NoEndpointError(f"{where} answers neither hmyv2_blockNumber nor eth_blockNumber with a number")
        head = int(said, 16)
    found = await _transactions(ask, head)
    received = [tx["to"] for tx in found if tx.get("to")]
    called = (tx["to"] for tx in found if tx.get("to") and tx.get("input", "0x") not in ("", "0x"))
    contract = next(called, "0x" + "0" * 40)
    addresses = tuple(sorted({*received, *(tx["from"] for tx in found)}))
    return World(chain, head, contract, addresses or (contract,), await _validators(ask, chain))


async def _transactions(ask: Ask, head: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(head, max(-1, head - 6), -1):
        block = await ask("eth_getBlockByNumber", [hex(number), True])
        if isinstance(block, dict):
            found += [tx for tx in block.get("transactions", ()) if isinstance(tx, dict) and "from" in tx]
        if len(found) >= 20:
            break
    return found


async def _validators(ask: Ask, chain: str) -> tuple[str, ...]:
    if chain != "harmony":
        return ()
    for method in ("hmyv2_getElectedValidatorAddresses", "hmyv2_getAllValidatorAddresses"):
        names = await ask(method, [])
        if isinstance(names, list) and names:
            return tuple(str(name) for name in names[:100])
    return ()


def draw(method: str, world: World, rng: Random) -> LoadCall:
    """A call of `method` about something that exists, different each time where the method lets it."""
    number = max(1, world.head - rng.randrange(2, REACH))
    validator = rng.choice(world.validators) if world.validators else ""
    address = rng.choice(world.addresses)
    query = {"to": world.contract, "data": f"0x70a08231{rng.getrandbits(160):064x}"}
    first = max(1, number - 4)
    params: dict[str, list[Any]] = {
        "hmyv2_getBlockSigners": [number],
        "hmyv2_getBlocks": [first, number, {"withSigners": False, "fullTx": False, "inclStaking": True}],
        "hmyv2_getBalanceByBlockNumber": [validator, number],
        "hmyv2_getValidatorInformation": [validator],
        "hmyv2_call": [query, number],
        "eth_getBalance": [address, hex(number)],
        "eth_getBlockByNumber": [hex(number), False],
        "eth_getTransactionCount": [address, hex(number)],
        "eth_getCode": [world.contract, hex(number)],
        "eth_call": [query, hex(number)],
        "eth_getLogs": [{"address": world.contract, "fromBlock": hex(first), "toBlock": hex(number)}],
    }
    return LoadCall(method, msgspec.json.encode(params.get(method, [])))


def mixed(world: World, rng: Random, methods: Sequence[str] = ()) -> Iterator[LoadCall]:
    """Calls without end, of these methods in turn (of the table's when none are named)."""
    names = tuple(methods) or world.methods
    while True:
        for method in names:
            yield draw(method, world, rng)


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

    def __iter__(self) -> Iterator[LoadCall]:
        while True:
            yield self.read()

    def read(self) -> LoadCall:
        """One read."""
        method = self._rng.choices(_METHODS, cum_weights=_WEIGHTS)[0]
        return LoadCall(method, msgspec.json.encode(self._params(method)))

    def page(self) -> list[LoadCall]:
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
