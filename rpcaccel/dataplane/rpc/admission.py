"""Admission: tells clients apart by API key, else by address, keeps the limits and counters of each, and knows paths.

A key comes in a header (`X-Api-Key`, or `Authorization: Bearer`) or in front of any path served: `/key/KEY` is `/`,
`/key/KEY/harmony-s0` is `/harmony-s0`. With neither keys nor limits in the settings nobody is told apart (`on` is
false), and admission costs a call nothing.

Limits hold over several workers and hosts: each worker holds a client to the full rate by itself, and tells the others,
a few times a second and in the background, what the client has spent, which is then taken from the client's bucket
there. So no call ever waits for another machine, and a client gets at most its rate times the time between two
exchanges more than it should from each further worker. Without an answer from Redis every worker goes on alone, and
counts that.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from hmac import compare_digest
from math import inf
from typing import NamedTuple, Protocol

from msgspec import Struct

from rpcaccel.config.sections import ClientsSettings
from rpcaccel.core import client_limits
from rpcaccel.core.client_limits import ANONYMOUS, NO_KEY, UNKNOWN_KEY, Client, LimitRefusal, Limits
from rpcaccel.core.directives import NO_DIRECTIVES, Directives
from rpcaccel.core.messages import Spent
from rpcaccel.core.plan.planner import MOST_CHANGED_METHODS
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.stats.counters import Cell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire.forwarded_for import Trust, holder
from rpcaccel.dataplane.live.live_session import MessageTurn
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls
from rpcaccel.dataplane.upstream.chooser import TracedCall

MAX_DIRECTED_ROUTES = 16
"""Routes of one path that are remembered for different directives: clients choose them."""


class PathRoute(Struct, frozen=True):
    """Everything that calls on one path have in common, under one revision of the settings."""

    network: Network
    known: KnownCalls
    """What is known of calls that were answered at once before."""
    prefix: str = ""
    """The prefix of a method that has none of its own: "hmyv2_" on `/api/v1/hmy/v2`."""
    accepted: dict[str, tuple[Rule, Cell]] = {}
    """Methods with a rule that the proxy accepts, by the name that clients call: their rules and counters. Names
    without a rule are not held, because clients can invent them."""
    most_accepted: float = inf
    """The number of methods of `accepted`."""
    by_directives: dict[Directives, PathRoute] = {}

    def directed(self, directives: Directives) -> PathRoute:
        """The route of calls with these directives, which is remembered. Raises DirectiveError."""
        if directives == NO_DIRECTIVES:
            return self
        found = self.by_directives.get(directives)
        if found is None:
            network = self.network.directed(directives)
            found = PathRoute(network, KnownCalls(network), self.prefix, most_accepted=MOST_CHANGED_METHODS)
            if len(self.by_directives) >= MAX_DIRECTED_ROUTES:
                del self.by_directives[next(iter(self.by_directives))]
            self.by_directives[directives] = found
        return found


def routes(networks: Iterable[Network], main: str) -> dict[str, PathRoute]:
    """Every path served: `/` for the main network, `/<network>`, and the chain's own paths under both."""
    table: dict[str, PathRoute] = {}
    for network in networks:
        bases = ["", f"/{network.name}"] if network.name == main else [f"/{network.name}"]
        for base in bases:
            for path, prefix in {"": "", "/": "", **network.chain.paths}.items():
                table[base + path or "/"] = PathRoute(network, KnownCalls(network), prefix)
    return table


PATH = "/key/"
KEY_HEADERS = _API_KEY, _AUTHORIZATION = "x-api-key", "authorization"
MAX_ADDRESSES = 10_000
"""The number of addresses that are remembered; the one that called longest ago is forgotten first, and starts anew."""


class Headers(Protocol):
    """The headers of a request, by name in lower case."""

    def get(self, key: str, default: str) -> str:
        """The first value of a header."""
        ...

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Every value of a header."""
        ...


class Caller(Struct, frozen=True, gc=False):
    """The caller of a request that was let in. Implements CallOrigin."""

    address: str = ""
    """The address of the client, trusted proxies looked through. Networks that route by client route by it."""
    guest: Client | None = None
    """The client that is held to its limits; None: nobody is."""
    ends: float | None = None
    """When the client wants its answer (monotonic seconds); None: it waits as long as the network does."""
    headers: Headers | None = None
    turn: MessageTurn | None = None
    """The message of a WebSocket that the calls came in; None for calls by POST, which cannot subscribe."""
    request: str = ""
    """The name of the request in the log; empty when no lines are written."""
    told: bool = True
    """Does each call of the request write a line in the log?"""
    trace: TracedCall | None = None
    """The trace that the request is a part of; None: it is not traced."""

    @property
    def name(self) -> str:
        """The name under which the caller is counted."""
        return ANONYMOUS if self.guest is None else self.guest.name


NOBODY = Caller()
"""A caller of whom nothing is known."""


class Arrival(NamedTuple):
    """The caller of a request, and its path. Neither `client` nor `refusal` is set for a caller without a key, who is
    told apart by its address: see `anonymous`."""

    path: str
    """The path without a key."""
    client: Client | None = None
    refusal: LimitRefusal | None = None


class Admission:
    """The clients of one worker."""

    def __init__(self, tally: Tally, clock: Callable[[], float]) -> None:
        self.on = False
        """Are clients told apart?"""
        self.trusting = False
        """Do the settings name proxies that tell the address of the client?"""
        self._tally = tally
        self._clock = clock
        self._settings = ClientsSettings()
        self._trust = Trust()
        self.anonymous_limits = Limits()
        """The limits of a caller without a key."""
        self._named: dict[str, Client] = {}
        self._by_hash: dict[str, tuple[str, Client]] = {}
        self._by_address: OrderedDict[str, Client] = OrderedDict()

    def __repr__(self) -> str:
        return f"<admission {len(self._named)} keys, {len(self._by_address)} addresses>"

    def adopt(self, settings: ClientsSettings) -> None:
        """Apply new settings; clients keep what they have used, by name and by address."""
        now = self._clock()
        named: dict[str, Client] = {}
        by_hash: dict[str, tuple[str, Client]] = {}
        for name, key in settings.keys.items():
            limits = key.limits(settings.heavy_cost)
            client = self._named.get(name) or Client(name, limits, self._tally.client(name), now)
            client.adopt(limits, now)
            named[name] = client
            if key.enabled:
                by_hash.update((text, (text, client)) for text in key.hashes)
        anonymous = self.anonymous_limits = settings.anonymous.limits(settings.heavy_cost)
        for client in self._by_address.values():
            client.adopt(anonymous, now)
        self._named, self._by_hash, self._settings = named, by_hash, settings
        self._trust = Trust(settings.trusted_proxies, settings.forwarded_header)
        self.trusting = bool(self._trust)
        self.on = bool(named) or anonymous.any

    def address(self, peer: str | None, headers: Headers) -> str:
        """The client's address, trusted proxies looked through."""
        peer = peer or ""
        if not self._trust:
            return peer
        return self._trust.client(peer, headers.getall(self._trust.header.lower(), []))

    def holder(self, peer: str, headers: Headers) -> str:
        """The name of a client without a key, as `clients` has it."""
        return f"address:{_holder(self.address(peer, headers))}"

    def look(self, path: str, headers: Headers) -> Arrival:
        """What path and headers say about a caller, whatever its address. Nothing is counted."""
        key = ""
        if self._named and path.startswith(PATH):
            key, _, rest = path.removeprefix(PATH).partition("/")
            path = f"/{rest}"
        if not self._named:
            return Arrival(path)
        key = key or _key_in(headers)
        if not key:
            return Arrival(path, None, NO_KEY if self._settings.require_key else None)
        client = self._holder(key)
        return Arrival(path, client, UNKNOWN_KEY if client is None else None)

    def clients(self) -> Iterator[tuple[str, Client]]:
        """All clients that are known, each with the name that all workers and hosts have for the same client."""
        for name, client in self._named.items():
            yield f"key:{name}", client
        for address, client in self._by_address.items():
            yield f"address:{address}", client

    def _holder(self, key: str) -> Client | None:
        if len(key) > client_limits.MAX_KEY_CHARACTERS:
            return None
        digest = client_limits.hashed(key)
        found = self._by_hash.get(digest)
        return found[1] if found is not None and compare_digest(found[0], digest) else None

    def anonymous(self, address: str) -> Client:
        """The client that calls from an address without a key."""
        name = _holder(address)
        client = self._by_address.get(name)
        if client is not None:
            self._by_address.move_to_end(name)
            return client
        if len(self._by_address) >= MAX_ADDRESSES:
            self._by_address.popitem(last=False)
        client = Client(ANONYMOUS, self.anonymous_limits, self._tally.client(ANONYMOUS), self._clock())
        self._by_address[name] = client
        return client


def _holder(address: str) -> str:
    return holder(address) if ":" in address else address


def _key_in(headers: Headers) -> str:
    key = headers.get(_API_KEY, "").strip()
    if key:
        return key
    scheme, _, token = headers.get(_AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


EXCHANGE_SECONDS = 0.2
"""Seconds between two exchanges."""
ACTIVE_SECONDS = 5.0
"""Seconds after its last request for which a client takes part in exchanges."""

Exchange = Callable[[Mapping[bytes, int]], Awaitable[dict[bytes, int] | None]]
"""Takes the tokens that each client spent here, and returns those it spent elsewhere; None when that is unknown."""


class SharedLimits:
    """Exchanges what clients spent between this worker and others."""

    def __init__(
        self, clients: Callable[[], Iterable[tuple[str, Client]]], clock: Callable[[], float], tally: Tally
    ) -> None:
        """`clients` returns all known clients, each with the name that all workers have for the same client."""
        self._clients = clients
        self._clock = clock
        self._tally = tally

    async def settle(self, exchange: Exchange) -> None:
        """Make one exchange for the clients that called lately."""
        now = self._clock()
        active = {
            name.encode(): client
            for name, client in self._clients()
            if client.shares and (client.spent or now - client.seen_at < ACTIVE_SECONDS)
        }
        if not active:
            return
        others = await exchange({name: client.settle() for name, client in active.items()})
        if others is None:
            self._tally.limits_alone += 1
            return
        self.charge({name.decode(): tokens for name, tokens in others.items() if tokens})

    def charge(self, tokens: Mapping[str, int]) -> None:
        """Take tokens that clients spent elsewhere. Clients that are not known here are left out."""
        if not tokens:
            return
        now = self._clock()
        for name, client in self._clients():
            if name in tokens:
                client.charge(tokens[name], now)

    async def run(self, exchange: Exchange) -> None:
        """Exchange until cancelled."""
        while True:
            await asyncio.sleep(EXCHANGE_SECONDS)
            await self.settle(exchange)


class Neighbours:
    """Exchanges with the other workers of this host, through the supervisor. What they spent comes to `charge`."""

    def __init__(self, tell: Callable[[Spent], None]) -> None:
        self._tell = tell

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Send what was spent here; nothing is known yet of what was spent elsewhere."""
        tokens = {name.decode(): count for name, count in spent.items() if count}
        if tokens:
            self._tell(Spent(tokens))
        return {}
