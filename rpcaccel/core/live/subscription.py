"""Reads the params of a subscribe or an unsubscribe, with the errors that a node of the chain gives.

Nodes take their params apart with Go's `encoding/json`; texts of errors and the order of the checks follow go-ethereum
(rpc/json.go, eth/filters/api.go), of which Harmony's node has an older version. `SubscribeTable` holds the differences.

One thing is ours: `fromBlock` of a logs filter, and {"fromBlock": …} as second param of newHeads, has what was missed
since that block sent again first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.core.live.log_filter import MAX_ADDRESSES_OF_A_FILTER, MAX_ALTERNATIVES, MAX_POSITIONS, LogFilter
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Invalid

MAX_PARAMS_BYTES = 384 * 1024
"""Bytes of the longest params that are read."""
UNSUBSCRIBE = "unsubscribe"
"""What stands behind the namespace of the method that ends a subscription."""
HEADS, LOGS, PENDING = "newHeads", "logs", "newPendingTransactions"
NOT_FOUND = Invalid(-32000, "subscription not found")
NOT_SUPPORTED = "notifications not supported"
"""What nodes say to a subscribe over HTTP; the code differs by chain."""
MAX_BLOCKS_ABOVE = 128
"""Blocks above the served head that may be named as the first one, by a client that saw a host which was ahead."""
_MAX_NAME_CHARACTERS = 100
"""Characters of a name that an error repeats."""
_LIVE_TAGS = frozenset({None, "", "latest", "pending", "safe", "finalized"})
"""Words for a last block that is still to come, or for a first one from which nothing has to be sent again."""
_HEX_NUMBER = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,15})")
_HEX = re.compile(r"[0-9a-fA-F]*")
_GO_TYPES = {str: "string", bool: "bool", list: "array", dict: "object", int: "number", float: "number"}


class SubscribeTable(Struct, frozen=True):
    """What is particular about the subscriptions of a chain (chains.LiveTable has the rest)."""

    namespaces: tuple[str, ...] = ()
    """The namespaces whose `subscribe` is understood; notifications name the namespace of the subscribe."""
    kinds: tuple[str, ...] = ()
    """The names of subscriptions that a node of the chain knows."""
    block: str = "eth_getBlockByNumber"
    """The method of a block by number; its params are the number in hex and `false`."""
    logs: str = "eth_getLogs"
    """The method whose logs equal those of a subscription."""
    whole_pending: bool = False
    """May newPendingTransactions have a second param, which asks for whole transactions?"""
    range_error: tuple[int, str] = (-32602, "invalid block range params")
    """Code and message of the error for a filter of logs whose last block is below its first one."""
    http_code: int = -32601
    """The code of the error that a subscribe over HTTP gets."""


class Topic(Struct, frozen=True):
    """What a client subscribes to."""

    kind: str
    """The name of the subscription: one of LiveTable.kinds."""
    namespace: str
    """The namespace of the subscribe, which every notification names."""
    filter: LogFilter | None = None
    """Which logs are meant; None for all other kinds."""
    full: bool = False
    """Are whole transactions wanted instead of hashes?"""
    from_block: int | None = None
    """The first block of which the client wants to be told again; None: it wants new ones only."""


class Replay(Struct, frozen=True):
    """What may be sent again at this moment."""

    head: int
    """The served head; -1 while none is known."""
    most: int
    """Blocks below the head (http.websocket.replay)."""

    @property
    def oldest(self) -> int:
        """The oldest block that may be named; below 0 on a young chain."""
        return self.head - self.most


class _Refused(Exception):
    """The params are refused with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = Invalid(code, message)


def subscribed(namespace: str, params: bytes, table: SubscribeTable, replay: Replay) -> Topic | Invalid:
    """What the params of a subscribe ask for, or the error that the client gets."""
    try:
        name, *arguments = _arguments(params) or [None]
        _check_that_there_is(namespace, name, table)
        if name == LOGS:
            return _logs(namespace, arguments, table, replay)
        if name == PENDING and table.whole_pending:
            return Topic(name, namespace, full=_flag(arguments))
        if name == HEADS and len(arguments) == 1 and isinstance(arguments[0], dict) and arguments[0]:
            members = _folded(arguments[0])
            if members.keys() != {"fromblock"}:
                raise _argument('expected {"fromBlock": "0x…"}')
            return Topic(name, namespace, from_block=_from_block(members["fromblock"], replay))
        _at_most(arguments, 0)
        return Topic(name, namespace)
    except _Refused as refused:
        return refused.error


def unsubscribed(params: bytes) -> str | Invalid:
    """The id that an unsubscribe names, or the error that the client gets."""
    try:
        arguments = _arguments(params)
        if not arguments:
            raise _bad("missing value for required argument 0")
        _at_most(arguments[1:], 0)
        if arguments[0] is not None and not isinstance(arguments[0], str):
            raise _bad(f"invalid argument 0: {_mismatch(arguments[0], 'rpc.ID')}")
        return arguments[0] or ""
    except _Refused as refused:
        return refused.error


def _bad(message: str) -> _Refused:
    return _Refused(INVALID_PARAMS, message)


def _argument(message: str) -> _Refused:
    return _bad(f"invalid argument 1: {message}")


def _mismatch(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {_GO_TYPES[type(value)]} into Go value of type {wanted}"


def _check_that_there_is(namespace: str, name: Any, table: SubscribeTable) -> None:
    if not isinstance(name, str):
        raise _bad("expected subscription name as first argument")
    if namespace not in table.namespaces or name not in table.kinds:
        raise _Refused(METHOD_NOT_FOUND, f'no "{name[:_MAX_NAME_CHARACTERS]}" subscription in {namespace} namespace')


def _arguments(params: bytes) -> list[Any]:
    if len(params) > MAX_PARAMS_BYTES:
        raise _bad(f"params: longer than {MAX_PARAMS_BYTES} bytes")
    try:
        read = msgspec.json.decode(params)
    except UNREADABLE as error:
        raise _bad("params: expected an array of plain JSON values") from error
    if not isinstance(read, list):
        raise _bad("non-array args")
    return read


def _at_most(further: Sequence[Any], most: int) -> None:
    if len(further) > most:
        raise _bad(f"too many arguments, want at most {most + 1}")


def _folded(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members by name in lower case: Go's decoder takes `Address` for `address`."""
    return {name.lower(): value for name, value in members.items()}


def _flag(arguments: list[Any]) -> bool:
    _at_most(arguments, 1)
    flag = arguments[0] if arguments else None
    if flag is not None and not isinstance(flag, bool):
        raise _argument(_mismatch(flag, "bool"))
    return bool(flag)


def _logs(namespace: str, arguments: list[Any], table: SubscribeTable, replay: Replay) -> Topic:
    if not arguments:
        raise _bad("missing value for required argument 1")
    _at_most(arguments, 1)
    said = {} if arguments[0] is None else arguments[0]
    if not isinstance(said, dict):
        raise _argument(_mismatch(said, "filters.input"))
    members = _folded(said)
    found = LogFilter.of(_addresses(members.get("address")), _topics(members.get("topics")))
    return Topic(LOGS, namespace, filter=found, from_block=_first_block(members, table, replay))


def _addresses(said: Any) -> list[str]:
    if said is None:
        return []
    if isinstance(said, str):
        if fault := _hex_fault(said, 20, "address"):
            raise _argument(f"invalid address: {fault}")
        return [said]
    if not isinstance(said, list):
        raise _argument("invalid addresses in query")
    if len(said) > MAX_ADDRESSES_OF_A_FILTER:
        raise _argument(f"address: {len(said)} addresses, at most {MAX_ADDRESSES_OF_A_FILTER} are taken")
    for position, one in enumerate(said):
        if not isinstance(one, str):
            raise _argument(f"non-string address at index {position}")
        if fault := _hex_fault(one, 20, "address"):
            raise _argument(f"invalid address at index {position}: {fault}")
    return said


def _topics(said: Any) -> list[list[str]]:
    if said is None:
        return []
    if not isinstance(said, list):
        raise _argument(_mismatch(said, "[]interface {}"))
    if len(said) > MAX_POSITIONS:
        raise _argument("exceed max topics")
    return [_alternatives(position, one) for position, one in enumerate(said)]


def _alternatives(position: int, said: Any) -> list[str]:
    """The topics of one position; none stand for every topic, as does a null among them."""
    many = said if isinstance(said, list) else [] if said is None else [said]
    if len(many) > MAX_ALTERNATIVES:
        raise _argument(f"topics[{position}]: {len(many)} topics, at most {MAX_ALTERNATIVES} are taken")
    found = []
    for one in many:
        if one is None:
            return []
        if not isinstance(one, str):
            raise _argument("invalid topic(s)")
        if fault := _hex_fault(one, 32, "topic"):
            raise _argument(fault)
        found.append(one)
    return found


def _hex_fault(text: str, size: int, what: str) -> str:
    """What Go says about a text that is not so many bytes in hex; empty when it is."""
    if not text:
        return "empty hex string"
    digits = text[2:]
    if text[:2] not in ("0x", "0X"):
        return "hex string without 0x prefix"
    if not _HEX.fullmatch(digits):
        return "invalid hex string"
    if len(digits) % 2:
        return "hex string of odd length"
    if len(digits) != 2 * size:
        return f"hex has invalid length {len(digits) // 2} after decoding; expected {size} for {what}"
    return ""


def _first_block(members: dict[str, Any], table: SubscribeTable, replay: Replay) -> int | None:
    """The block from which logs are sent again; None: new ones only. A subscription has no last block."""
    first, last = members.get("fromblock"), members.get("toblock")
    if members.get("blockhash") is not None:
        if first is not None or last is not None:
            raise _argument("cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other")
        return None
    if not _live(last):
        number = _block(last, "toBlock")
        if not _live(first) and number < _block(first, "fromBlock"):
            raise _Refused(*table.range_error)
        raise _argument('toBlock: expected none or "latest", because a subscription has no last block')
    return _from_block(first, replay)


def _from_block(said: Any, replay: Replay) -> int | None:
    if _live(said):
        return None
    number = _block(said, "fromBlock")
    if replay.head < 0:
        raise _Refused(-32000, "fromBlock: no node has told its head yet, so nothing can be sent again: try later")
    if number > replay.head + MAX_BLOCKS_ABOVE:
        raise _argument(
            f"fromBlock: {hex(number)} is more than {MAX_BLOCKS_ABOVE} blocks above the head, which is "
            f"{hex(replay.head)} here"
        )
    if number < replay.oldest:
        raise _argument(
            f"fromBlock: {hex(number)} is more than {replay.most} blocks (http.websocket.replay) below the head; the "
            f"oldest block that may be named now is {hex(replay.oldest)}"
        )
    return number


def _live(said: Any) -> bool:
    return said is None or (isinstance(said, str) and said in _LIVE_TAGS)


def _block(said: Any, field: str) -> int:
    if said == "earliest":
        return 0
    if not isinstance(said, str) or not _HEX_NUMBER.fullmatch(said):
        raise _argument(f'{field}: expected a number like "0x1a", "earliest" or "latest"')
    return int(said, 16)
