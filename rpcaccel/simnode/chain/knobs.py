"""The settings of a simulated node that can change while it runs: speed, lag, roles and faults.

Tests set fields (`node.knobs.lag = 3`); a POST to /simnode/knobs sets any of them from JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct

FAULTS = (
    *("hang", "reset", "half_body", "html", "too_many", "unavailable", "empty", "garbage"),
    *("wrong_id", "missing_id", "error", "rate_limit", "invalid_reply"),
)
"""hang: never answer · reset: take the request, close · half_body · html: 502 page · too_many: 429 with Retry-After ·
unavailable: 503 · empty: 200 with no body · garbage: no JSON · wrong_id · missing_id · error: -32000 `error_text` ·
rate_limit: Harmony's limiter text · invalid_reply: neither result nor error."""

PUSH_FAULTS = ("drop", "duplicate", "disorder", "cut")
"""drop: the notification is lost · duplicate: sent twice · disorder: sent behind the next one of its WebSocket · cut:
the connection ends instead."""

LIES = ("truncated_logs", "old_state", "dropped_receipts")
"""truncated_logs: the last quarter of a getLogs answer is left out, one log at the least · old_state: balances, nonces,
code, storage, calls and proofs of OLD_STATE blocks before the one that was asked about · dropped_receipts: null for the
receipt of a known transaction, and one receipt less of a block."""
OLD_STATE = 16

NodeClient = Literal["geth", "erigon", "reth", "nethermind", "besu"]
_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]

_PART = r"([0-9.]+)\s*(ms|s|)"
_SYNTAX = re.compile(rf"^(?:(fixed|uniform|lognormal|jitter):)?\s*{_PART}(?:\s*[-+,~]\s*{_PART})?$")


class Latency(Struct, frozen=True):
    """A distribution of seconds."""

    mean: _Seconds = 0.0
    """The value, the middle, or (lognormal) the median."""
    spread: _Seconds = 0.0
    """uniform: seconds to either side · lognormal: sigma · jitter: mean of what is added, seconds."""
    shape: Literal["fixed", "uniform", "lognormal", "jitter"] = "fixed"

    @classmethod
    def parse(cls, written: str) -> Latency:
        """The latency written as "40ms", "uniform:20ms-60ms", "lognormal:40ms,0.5" or "jitter:40ms+10ms". Raises
        ValueError."""
        match = _SYNTAX.match(written.strip())
        if match is None:
            examples = "40ms, uniform:20ms-60ms, lognormal:40ms,0.5 or jitter:40ms+10ms"
            raise ValueError(f"{written!r} is no latency; say {examples}")
        shape, first, first_unit, second, second_unit = match.groups()
        low = float(first) * (0.001 if first_unit == "ms" else 1.0)
        high = float(second) * (0.001 if second_unit == "ms" else 1.0) if second else 0.0
        if shape == "uniform" and second:
            return cls((low + high) / 2, abs(high - low) / 2, "uniform")
        return msgspec.convert({"mean": low, "spread": high, "shape": shape or "fixed"}, cls)

    def draw(self, rng: Random) -> float:
        """One value, seconds >= 0."""
        if self.shape == "fixed" or not self.spread:
            return self.mean
        if self.shape == "uniform":
            return max(0.0, rng.uniform(self.mean - self.spread, self.mean + self.spread))
        if self.shape == "lognormal":
            return self.mean * rng.lognormvariate(0.0, self.spread)
        return self.mean + rng.expovariate(1.0 / self.spread)


NONE = Latency()


@dataclass
class Knobs:
    """The values of all knobs of a node. `on_change` is called with a field's name before the field changes."""

    connect: Latency = NONE
    """The round trips of TCP and TLS until a connection is open: once for each connection."""
    latency: Latency = NONE
    """The way there and back: once for each HTTP request."""
    work: Latency = NONE
    """The node's own work: once for each call, one after the other in a batch."""
    method_work: dict[str, Latency] = field(default_factory=dict)
    """Work of single methods, instead of `work`."""
    lag: _Count = 0
    """Blocks behind the chain."""
    skew: float = 0.0
    """Seconds behind the chain, where the chain moves by the clock."""
    wander: _Share = 0.0
    """Share of blocks at which the node is one more behind, 0..1."""
    stall: bool = False
    """Whether the head stands still where it is."""
    branch: Annotated[int, Meta(ge=-1)] = -1
    """The branch of a reorganised chain that the node follows: an index, -1 for the newest."""
    archive: bool = True
    """Whether the node keeps all state, or only that of the newest `prune_depth` blocks."""
    prune_depth: _Count = 128
    oldest: int = 0
    """The oldest block that the node still has, beside the first one: about older blocks the node answers null, or an
    empty list of blocks or logs."""
    explorer: bool = True
    """Whether the node has the index that the history methods need."""
    chain_id: int | None = None
    """Answer to eth_chainId instead of the chain's: a node of another network."""
    network_id: int | None = None
    """Harmony's own chain id that the node claims instead of the chain's."""
    missing: set[str] = field(default_factory=set)
    """Methods that this node does not serve."""
    faults: dict[str, _Share] = field(default_factory=dict)
    """Share of HTTP requests that meet each fault of FAULTS."""
    next_faults: list[str] = field(default_factory=list)
    """Faults for the next requests, one each, before any share is drawn; "" lets one pass."""
    fault_methods: set[str] = field(default_factory=set)
    """Methods whose requests alone meet a fault; empty: those of every method."""
    error_text: str = "simulated failure"
    error_code: int = -32000
    retry_after: _Seconds = 1.0
    """Seconds named by a 429 or 503."""
    gossip: _Seconds = 0.0
    """Seconds until a transaction sent to another node is known here."""
    limiters: bool = True
    """Whether the six small rate limiters of a Harmony node are on."""
    rate_limit: Annotated[float, Meta(ge=0)] = 0.0
    """The configurable limiter, calls a second (a real node's default is 1000); 0 for none."""
    logs_range: _Count = 0
    """Greatest difference of last and first block in getLogs, as providers set it; 0 for the chain's own."""
    logs_refusal: str = "block range is too wide: at most {most} blocks"
    """What a longer range gets, with `{most}` for the greatest difference and `{asked}` for the one asked for."""
    logs_code: int = -32005
    """The code of that refusal."""
    logs_results: _Count = 0
    """Most logs in one answer; 0 for any number."""
    gzip: bool = True
    """Whether answers are compressed for clients that accept it, as Harmony does even for 38 bytes."""
    websocket: Literal["on", "off", "refused"] = "on"
    """on: WebSockets on the port of HTTP · off: an upgrade gets 200 without a body, as on a port that serves HTTP
    only · refused: 403."""
    silent: bool = False
    """Whether nothing is pushed: WebSockets stay open, and calls and subscribes are answered."""
    mute_subscribe: bool = False
    """Whether a subscribe is carried out and never answered."""
    push_faults: dict[str, _Share] = field(default_factory=dict)
    """Share of notifications that meet each fault of PUSH_FAULTS."""
    push_delay: Latency = NONE
    """The time from a block or transaction to its notifications."""
    overtake: bool = False
    """Whether answers of a WebSocket overtake one another although they take no time."""
    client: NodeClient = "geth"
    """Whose spelling the results of an Ethereum chain have."""
    lies: dict[str, _Share] = field(default_factory=dict)
    """Share of the calls that meet each lie of LIES. The method and the params of a call decide, so that the node
    repeats its lie."""
    false_hashes: bool = False
    """Whether the logs of the blocks that this node proposed name a block hash of their own for each transaction, as on
    a Harmony node."""
    proposes: Annotated[int, Meta(ge=1)] = 1
    """This node proposed one in so many blocks; 1: every block."""
    crashed_receipts: bool = False
    """Whether getBlockReceipts of a block crashes once an eth_getLogs read its receipts, until these leave the node's
    cache, as on a Harmony node."""
    on_change: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        changed = self.__dict__.get("on_change")
        if changed is not None and name != "on_change":
            changed(name)
        object.__setattr__(self, name, value)

    def turn(self, changes: dict[str, Any]) -> None:
        """Set several fields from plain JSON values, all or none. Raises ValueError for one that does not fit."""
        known = sorted(self.positions())
        for name in changes:
            if name not in known:
                raise ValueError(f"no knob {name!r}; there are {', '.join(known)}")
        for name, value in {name: _fit(name, value) for name, value in changes.items()}.items():
            setattr(self, name, value)

    def positions(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {f.name: msgspec.to_builtins(getattr(self, f.name)) for f in fields(self) if f.name != "on_change"}

    def fault_for(self, methods: set[str], rng: Random) -> str:
        """The fault that a request of these methods meets, "" for none."""
        if self.fault_methods and not methods & self.fault_methods:
            return ""
        return self.next_faults.pop(0) if self.next_faults else _drawn(self.faults, rng)

    def push_fault(self, rng: Random) -> str:
        """The fault that this notification meets, "" for none."""
        return _drawn(self.push_faults, rng)


def _drawn(faults: dict[str, float], rng: Random) -> str:
    """The fault that is drawn by its share, "" for none."""
    draw = rng.random() if faults else 0.0
    for name, share in faults.items():
        if draw < share:
            return name
        draw -= share
    return ""


_TYPES = get_type_hints(Knobs, include_extras=True)
_NAMES = {"faults": FAULTS, "next_faults": (*FAULTS, ""), "push_faults": PUSH_FAULTS, "lies": LIES}
"""The knobs that take names, and the names that each takes."""


def _fit(name: str, value: Any) -> Any:
    """The value of a knob from plain JSON. Raises ValueError for one that does not fit."""
    if _TYPES[name] is Latency:
        value = _latency(value)
    elif name == "method_work" and isinstance(value, dict):
        value = {method: _latency(latency) for method, latency in value.items()}
    try:
        fitted = msgspec.convert(value, _TYPES[name])
    except msgspec.ValidationError as error:
        raise ValueError(f"knob {name!r}: {error}") from None
    if name in _NAMES and not set(fitted) <= set(_NAMES[name]):
        raise ValueError(f"knob {name!r}: expected names of {', '.join(filter(None, _NAMES[name]))}")
    if name in ("faults", "push_faults") and sum(fitted.values()) > 1 + 1e-9:
        raise ValueError(f"knob {name!r}: expected shares that make 1 at the most")
    return fitted


def _latency(value: Any) -> Any:
    if isinstance(value, str):
        return msgspec.to_builtins(Latency.parse(value))
    return {"mean": value} if isinstance(value, int | float) and not isinstance(value, bool) else value
