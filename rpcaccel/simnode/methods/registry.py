"""The method tables of a Harmony and of a geth-like node, and how calls are checked against them.

The other files of this package register their methods here, each with its name, its arguments and the function to run.
Argument errors are worded as in go-ethereum's rpc package, which Harmony forked (docs/harmony.md sections 4 and 5).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rpcaccel.simnode.chain.blocks import ChainSpec, Tx
from rpcaccel.simnode.chain.sim_chain import Block, Branch, SimChain
from rpcaccel.simnode.methods.block_args import UnreadableArgument, decoded
from rpcaccel.simnode.methods.node_identity import Local

Reader = Callable[[Raw], Any]
Run = Callable[..., bytes]
_PARAMS = msgspec.json.Decoder(list[Raw])


class RpcError(Exception):
    """An error object to be answered."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def encode(self) -> bytes:
        """The error object as JSON text."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return text(error)


def failed(message: str) -> RpcError:
    """The error with code -32000, which nodes use for nearly everything."""
    return RpcError(-32000, message)


def no_notifications(version: str) -> RpcError:
    """The error of a subscribe over HTTP."""
    return RpcError(-32601 if version == "geth" else -32000, "notifications not supported")


class Method(Struct, frozen=True):
    """One method as a node serves it."""

    run: Run
    readers: tuple[Reader, ...]
    required: int
    limiter: str = ""
    """The node's rate limiter that calls wait for; empty: none."""
    beacon: bool = False
    """Whether only shard 0 answers the method."""


class MethodCall:
    """Everything a method needs to know about one call."""

    __slots__ = ("branch", "chain", "head", "local", "said", "version")

    def __init__(
        self, chain: SimChain, branch: Branch, head: int, local: Local, version: str, said: bytes = b""
    ) -> None:
        self.chain = chain
        self.branch = branch
        self.head = head
        self.local = local
        self.version = version
        """The dialect of the namespace: v1 (hmy), v2 (hmyv2), eth (Harmony's eth) or geth."""
        self.said = said
        """Method and params, which decide whether the node lies; empty for what the node does by itself."""

    @property
    def is_eth(self) -> bool:
        """Whether the call follows Ethereum's conventions: hashes of signed bytes, null above the head."""
        return self.version in ("eth", "geth")

    def number(self, value: int) -> int | str:
        """A number as this namespace writes it."""
        return value if self.version == "v2" else hex(value)

    def lies(self, kind: str) -> bool:
        """Whether the node tells this lie (knobs.LIES) in its answer."""
        share = self.local.knobs.lies.get(kind, 0.0)
        if not share or not self.said:
            return False
        draw = self.chain.generator.digest(b"lie", kind.encode(), self.local.name.encode(), self.said, size=4)
        return int.from_bytes(draw, "big") < share * 2**32

    def proposed(self, number: int) -> bool:
        """Whether this node proposed the block and keeps false block hashes in its logs."""
        knobs = self.local.knobs
        if not knobs.false_hashes:
            return False
        draw = self.chain.generator.digest(b"proposer", self.local.name.encode(), number, size=4)
        return int.from_bytes(draw, "big") % knobs.proposes == 0

    def block_at(self, number: int) -> Block:
        """The block at a height that this node has."""
        return self.branch.block(number)

    def visible(self, tx: Tx) -> bool:
        """Whether a sent transaction is in a block that this node has."""
        return tx.number <= self.head


def text(value: Any) -> bytes:
    """Compact JSON; the standard library writes integers of any size."""
    return json.dumps(value, separators=(",", ":")).encode()


class Registry:
    """The methods of one kind of node, by full name."""

    def __init__(self) -> None:
        self.methods: dict[str, tuple[Method, str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.methods

    def add(
        self,
        names: str,
        *readers: Reader,
        spaces: dict[str, str],
        optional: int = 0,
        limiter: str = "",
        beacon: bool = False,
    ) -> Callable[[Run], Run]:
        """Register a function under names (separated by spaces) in each namespace, with the version it speaks there."""

        def register(run: Run) -> Run:
            method = Method(run, readers, len(readers) - optional, limiter, beacon)
            for space, version in spaces.items():
                for name in names.split():
                    self.methods[f"{space}_{name}" if space else name] = (method, version)
            return run

        return register

    def fixed(self, names: str, answer: bytes, *readers: Reader, spaces: dict[str, str]) -> None:
        """Register an answer that is the same for every call, whatever its arguments."""
        self.add(names, *readers, spaces=spaces)(lambda *_: answer)


def read_params(method: Method, params: bytes) -> list[Any]:
    """The arguments of a call, read. Raises RpcError -32602 in the node's words."""
    stripped = params.strip()
    if not stripped or stripped == b"null":
        raws: list[Raw] = []
    elif stripped[:1] != b"[":
        raise RpcError(-32602, "non-array args")
    else:
        raws = _PARAMS.decode(stripped)
    values = []
    for position, raw in enumerate(raws):
        if position >= len(method.readers):
            raise RpcError(-32602, f"too many arguments, want at most {len(method.readers)}")
        try:
            values.append(method.readers[position](raw))
        except UnreadableArgument as unreadable:
            raise RpcError(-32602, f"invalid argument {position}: {unreadable}") from None
    if len(values) < method.required:
        raise RpcError(-32602, f"missing value for required argument {len(values)}")
    return values


# -- readers of arguments that are no block references ------------------------------------------------------------


def anything(raw: Raw) -> Any:
    """Any JSON value, decoded."""
    return decoded(bytes(raw))


def string(raw: Raw) -> str:
    """A string."""
    value = json.loads(bytes(raw))
    if not isinstance(value, str):
        raise UnreadableArgument(f"json: cannot unmarshal {go_kind(value)} into Go value of type string")
    return value


def uint(raw: Raw) -> int:
    """A whole number, bare or as text (Harmony's transaction index: 5, "5", "0x5")."""
    value = json.loads(bytes(raw))
    if isinstance(value, str):
        try:
            return int(value, 16) if value.startswith("0x") else int(value)
        except ValueError:
            raise UnreadableArgument(f"strconv.ParseInt: parsing {json.dumps(value)}: invalid syntax") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableArgument(f"json: cannot unmarshal {go_kind(value)} into Go value of type uint64")
    return value


def call_object(raw: Raw) -> dict[str, Any]:
    """The object of a call or a filter."""
    value = decoded(bytes(raw))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableArgument(f"json: cannot unmarshal {go_kind(value)} into Go value of type rpc.CallArgs")
    return value


def go_kind(value: object) -> str:
    """The name of a JSON value's type in errors of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    kinds: dict[type, str] = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


HARMONY = Registry()
CHAIN = {"hmy": "v1", "hmyv2": "v2", "eth": "eth"}
"""Most services are registered in all three namespaces (docs/harmony.md section 2)."""
STAKING = {"hmy": "v1", "hmyv2": "v2"}
FILTERS = {"hmy": "v1", "eth": "eth"}
NOT_BEACON = "cannot call this rpc on non beaconchain node"
HARMONY_VERSION = "Harmony (C) 2025. harmony, version v8500-v2025.1.1-5-gdc52025a8 (simulated)"

ETHEREUM = Registry()
GETH_VERSION = "Geth/v1.16.0-simulated/linux-amd64/go1.24"


def geth(names: str, *readers: Reader, optional: int = 0) -> Callable[[Run], Run]:
    """Register a function in the eth namespace of a geth-like node."""
    return ETHEREUM.add(names, *readers, spaces={"eth": "geth"}, optional=optional)


def beacon_only(spec: ChainSpec) -> bool:
    """Whether this is the beacon shard."""
    return spec.shard == 0


def not_v2_or_v1(asked: MethodCall) -> None:
    """Refuse calls in the eth namespace, where some methods are registered by accident."""
    if asked.version == "eth":
        raise failed("API service has an unknown version")
