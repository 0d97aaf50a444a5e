"""What a client of a simulated node subscribes to, read and refused in the node's words, and what each block, log and
transaction looks like in a notification."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from msgspec import Struct

from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.methods import json_views, lookup
from rpcaccel.simnode.methods.json_views import hex0
from rpcaccel.simnode.methods.registry import MethodCall, RpcError, failed, go_kind, text

Kind = Literal["newHeads", "logs", "newPendingTransactions", "syncing"]
_SPACES: dict[str, tuple[str, ...]] = {"harmony": ("eth", "hmy"), "ethereum": ("eth",)}
_KINDS: dict[str, tuple[Kind, ...]] = {
    "harmony": ("newHeads", "logs", "newPendingTransactions"),
    "ethereum": ("newHeads", "logs", "newPendingTransactions", "syncing"),
}
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*\Z")


class PushTopic(Struct, frozen=True):
    """What one subscription is about."""

    space: str
    """The namespace of the subscribe, which notifications name."""
    kind: Kind
    criteria: dict[str, Any] = {}
    full: bool = False
    """Whether pending transactions are sent whole."""

    def takes(self, entry: dict[str, Any]) -> bool:
        """Whether a log passes the filter; one with a past range passes nothing."""
        number = int(entry["blockNumber"], 16)
        first, last = (_height(self.criteria.get(name)) for name in ("fromBlock", "toBlock"))
        within = (first is None or first <= number) and (last is None or number <= last)
        return within and lookup.fits(entry, self.criteria)


def read_topic(kind_of_node: str, space: str, params: bytes) -> PushTopic:
    """The topic of a subscribe. Raises RpcError."""
    values = _array(params, empty="non-array args")
    if not values or not isinstance(values[0], str):
        raise _invalid("expected subscription name as first argument")
    name = values[0]
    if space not in _SPACES[kind_of_node] or name not in _KINDS[kind_of_node]:
        raise RpcError(-32601, f'no "{name}" subscription in {space} namespace')
    geth = kind_of_node == "ethereum"
    most = 2 if name == "logs" or (geth and name == "newPendingTransactions") else 1
    if len(values) > most:
        raise _invalid(f"too many arguments, want at most {most}")
    if name == "logs":
        if len(values) < 2:
            raise _invalid("missing value for required argument 1")
        return PushTopic(space, "logs", _criteria(values[1], geth=geth))
    full = values[1] if len(values) > 1 else None
    if full is not None and not isinstance(full, bool):
        raise _invalid(f"invalid argument 1: json: cannot unmarshal {go_kind(full)} into Go value of type bool")
    return PushTopic(space, next(kind for kind in _KINDS[kind_of_node] if kind == name), full=bool(full))


def read_token(params: bytes) -> str:
    """The subscription id of an unsubscribe. Raises RpcError."""
    values = _array(params, empty="")
    if not values:
        raise _invalid("missing value for required argument 0")
    if len(values) > 1:
        raise _invalid("too many arguments, want at most 1")
    if values[0] is not None and not isinstance(values[0], str):
        raise _invalid(f"invalid argument 0: json: cannot unmarshal {go_kind(values[0])} into Go value of type rpc.ID")
    return values[0] or ""


def _invalid(message: str) -> RpcError:
    return RpcError(-32602, message)


def _array(params: bytes, *, empty: str) -> list[Any]:
    """The params as a list; without params the error `empty`, or no values where it is "". Raises RpcError."""
    values = json.loads(params or b"null")
    if values is None and not empty:
        return []
    if not isinstance(values, list):
        raise _invalid("non-array args")
    return values


def _height(bound: Any) -> int | None:
    return int(bound, 16) if isinstance(bound, str) and bound.startswith("0x") else None


def _criteria(value: Any, *, geth: bool) -> dict[str, Any]:
    """The filter of logs, checked. Raises RpcError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        kind = go_kind(value)
        raise _invalid(f"invalid argument 1: json: cannot unmarshal {kind} into Go value of type filters.input")
    addresses, topics = value.get("address") or [], value.get("topics") or []
    for address in [addresses] if isinstance(addresses, str) else addresses:
        _check(address, 20, "address")
    if geth and len(topics) > 4:
        raise _invalid("invalid argument 1: exceed max topics")
    for place in topics:
        for topic in [place] if isinstance(place, str) else place or []:
            _check(topic, 32, "topic")
    first, last = _height(value.get("fromBlock")), _height(value.get("toBlock"))
    if first is not None and last is not None and first > last:
        if geth:
            raise _invalid("invalid block range params")
        raise failed("invalid from and to block combination: from > to")
    return value


def _check(written: Any, size: int, name: str) -> None:
    if not isinstance(written, str):
        raise _invalid(f"invalid argument 1: invalid {name}")
    if written[:2] != "0x":
        raise _invalid(f"invalid argument 1: invalid {name}: hex string without 0x prefix")
    if not _HEX.match(written):
        raise _invalid(f"invalid argument 1: invalid {name}: invalid hex string")
    found = len(written) // 2 - 1
    if found != size:
        wrong = f"hex has invalid length {found} after decoding; expected {size} for {name}"
        raise _invalid(f"invalid argument 1: invalid {name}: {wrong}")


# -- what is pushed ----------------------------------------------------------------------------------------------------


def head_text(asked: MethodCall, number: int) -> bytes:
    """A newHeads notification's result."""
    return text(json_views.pushed_header(asked.branch, asked.block_at(number), asked.version))


def logs_of(asked: MethodCall, number: int) -> list[dict[str, Any]]:
    """The logs of a block as a subscription gives them: on Harmony with Harmony's own transaction hashes, whatever the
    namespace."""
    return lookup.logs(asked, number, number, {}, "geth" if asked.version == "geth" else "v1")


def pending_text(asked: MethodCall, tx: Tx, *, full: bool) -> bytes:
    """A pending transaction: on Harmony by Harmony's own hash, whatever the namespace."""
    if full:
        return text(json_views.transaction(asked.branch, tx, None, asked.version))
    return text(hex0(tx.eth_hash if asked.version == "geth" else tx.hash))
