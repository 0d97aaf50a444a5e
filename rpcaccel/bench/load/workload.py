"""The calls that are made: the ten methods of the seed study's table, or what DApps and wallets call.

Both are about blocks, addresses and contracts that the measured chain has. DApps call popular contracts and addresses
far more often than others, mostly at the newest block; the shares of methods follow what public endpoints report: reads
of contracts above all, then heights, balances and blocks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, repeat
from random import Random
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from rpcaccel.bench.load.client import ConnectionPool, result_of
from rpcaccel.core.wire.json_text import UNREADABLE

HARMONY = (
    "hmyv2_blockNumber", "hmyv2_getBlockSigners", "hmyv2_getBlocks", "hmyv2_getBalanceByBlockNumber",
    "hmyv2_getValidatorInformation", "hmyv2_call", "net_peerCount", "hmyv2_getNodeMetadata",
    "hmyv2_getCurrentTransactionErrorSink", "hmyv2_getCurrentUtilityMetrics",
)  # fmt: skip
"""The ten methods of the seed study's table."""
ETHEREUM = (
    "eth_blockNumber", "eth_chainId", "eth_gasPrice", "eth_getBalance", "eth_getBlockByNumber",
    "eth_getTransactionCount", "eth_getCode", "eth_call", "eth_getLogs", "net_peerCount",
)  # fmt: skip
"""Ten methods of an Ethereum node that correspond to those of HARMONY."""
MAX_DEPTH_BLOCKS = 100
"""Blocks under the head that calls are about: no node has pruned them."""
_TIMEOUT = 30.0
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}")
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")
Mix = Literal["table", "dapp"]
Ask = Callable[[str, list[Any]], Awaitable[Any]]
"""A call's result, decoded; None when there is none."""


class NoEndpointError(Exception):
    """The endpoint to be measured does not answer as a node does; the text holds no secret."""


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


class CallChoice(Struct, frozen=True, kw_only=True):
    """The choice of the calls that a measurement makes."""

    methods: tuple[str, ...] = ()
    """Methods of the table that are called in turn; empty: all ten."""
    call: LoadCall | None = None
    """The only call to make, instead of many."""
    mix: Mix = "table"
    """The methods of the table, or what DApps call; methods that are named win."""
    seed: int = 1

    @property
    def named(self) -> str:
        """The chosen calls in the words of a report."""
        usual = "what DApps call" if self.mix == "dapp" else "the table's ten methods in turn"
        return self.call.method if self.call else ", ".join(self.methods) or usual

    async def world(self, pool: ConnectionPool) -> World:
        """The world that the calls are about; an empty one for a single call. Raises NoEndpointError."""
        return World("", 0, "", ()) if self.call else await learn(asking(pool), pool.target.shown)

    def calls(self, world: World, run: int = 0) -> Iterator[LoadCall]:
        """The calls, without end; each `run` has other ones."""
        rng = Random(self.seed + run)
        if self.call is not None:
            return repeat(self.call)
        visited = self.mix == "dapp" and not self.methods
        return iter(Visitors(world, rng)) if visited else mixed(world, rng, self.methods)


class World(Struct, frozen=True):
    """The head, contract and accounts of a chain that calls are about; addresses are 0x…"""

    chain: str
    head: int
    contract: str
    addresses: tuple[str, ...]
    validators: tuple[str, ...] = ()
    """Addresses as one1…, on Harmony only."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The ten methods of a table."""
        return HARMONY if self.chain == "harmony" else ETHEREUM


def asking(pool: ConnectionPool) -> Ask:
    """A function that sends calls over a pool and returns their results."""

    async def ask(method: str, params: list[Any]) -> Any:
        result = result_of(await pool.post(LoadCall(method, msgspec.json.encode(params)).body(1), _TIMEOUT))
        try:
            return None if result is None else msgspec.json.decode(result)
        except UNREADABLE:
            return None

    return ask


async def learn(ask: Ask, where: str = "it") -> World:
    """The world of a chain, learnt by calls to an endpoint. Raises NoEndpointError, naming `where`, when the endpoint
    tells no head."""
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


def about(
    method: str, *, block: str, span: tuple[int, int], address: str, contract: str, holder: str, validator: str = ""
) -> LoadCall:
    """A call of `method` about these things: at `block`, or about the blocks of `span`. `holder` is hex without 0x."""
    first, last = span
    query = {"to": contract, "data": f"0x70a08231{holder:0>64}"}  # balanceOf
    params: dict[str, list[Any]] = {
        "hmyv2_getBlockSigners": [last],
        "hmyv2_getBlocks": [first, last, {"withSigners": False, "fullTx": False, "inclStaking": True}],
        "hmyv2_getBalanceByBlockNumber": [validator, last],
        "hmyv2_getValidatorInformation": [validator],
        "hmyv2_call": [query, last],
        "eth_getBalance": [address, block],
        "eth_getBlockByNumber": [block, False],
        "eth_getTransactionCount": [address, block],
        "eth_getCode": [contract, block],
        "eth_call": [query, block],
        "eth_getLogs": [{"address": contract, "fromBlock": hex(first), "toBlock": hex(last)}],
    }
    return LoadCall(method, msgspec.json.encode(params.get(method, [])))


def draw(method: str, world: World, rng: Random) -> LoadCall:
    """A call of `method` about something that exists; each call is another one where the method has params."""
    number = max(1, world.head - rng.randrange(2, MAX_DEPTH_BLOCKS))
    validator = rng.choice(world.validators) if world.validators else ""
    address, holder, span = rng.choice(world.addresses), f"{rng.getrandbits(160):x}", (max(1, number - 4), number)
    return about(
        method, block=hex(number), span=span, address=address, contract=world.contract, holder=holder,
        validator=validator,
    )  # fmt: skip


def mixed(world: World, rng: Random, methods: Sequence[str] = ()) -> Iterator[LoadCall]:
    """Calls without end, of these methods in turn (of the table's when none are named)."""
    names = tuple(methods) or world.methods
    while True:
        for method in names:
            yield draw(method, world, rng)


READS = {
    "eth_call": 40, "eth_getBalance": 12, "eth_blockNumber": 12, "eth_getBlockByNumber": 10, "eth_getLogs": 6,
    "eth_getTransactionCount": 6, "eth_gasPrice": 5, "eth_getCode": 4, "eth_chainId": 5,
}  # fmt: skip
"""The methods that DApps call, with their shares in percent."""
PEOPLE, CONTRACTS = 2000, 200
NEWEST = 0.9
"""Share of calls that are about the newest block; the others go back exponentially, 50 blocks on average."""
_ALWAYS_NEWEST = ("eth_getTransactionCount", "eth_getCode")
_METHODS, _WEIGHTS = tuple(READS), tuple(accumulate(READS.values()))


def zipf(items: Sequence[T], rng: Random, s: float = 1.1) -> Callable[[], T]:
    """A function that draws from `items`, the first ones far more often: rank to the power of -s."""
    weights = tuple(accumulate(rank**-s for rank in range(1, len(items) + 1)))
    return lambda: rng.choices(items, cum_weights=weights)[0]


class Visitors:
    """Makes the calls of many visitors. Equal worlds have equal people and contracts, in any process."""

    def __init__(self, world: World, rng: Random) -> None:
        self._head = world.head
        self._rng = rng
        others = (made_up("person", number) for number in range(PEOPLE - len(world.addresses)))
        self._person = zipf([*world.addresses, *others], rng)
        self._contract = zipf([world.contract, *(made_up("contract", number) for number in range(CONTRACTS - 1))], rng)

    def __iter__(self) -> Iterator[LoadCall]:
        while True:
            yield self.read()

    def read(self) -> LoadCall:
        """One read."""
        rng, block = self._rng, "latest"
        method = rng.choices(_METHODS, cum_weights=_WEIGHTS)[0]
        if method not in _ALWAYS_NEWEST and rng.random() >= NEWEST:
            block = hex(max(1, self._head - int(rng.expovariate(0.02))))
        person, contract = self._person(), self._contract()
        span = (max(1, self._head - rng.choice((5, 20, 100))), self._head)
        return about(method, block=block, span=span, address=person, contract=contract, holder=person[2:])

    def page(self) -> list[LoadCall]:
        """The calls that a page makes when it opens, in one batch."""
        return [self.read() for _ in range(self._rng.randrange(3, 15))]


def made_up(kind: str, number: int) -> str:
    """An address that is the same in every process."""
    return "0x" + blake2b(f"{kind} {number}".encode(), digest_size=20).hexdigest()
