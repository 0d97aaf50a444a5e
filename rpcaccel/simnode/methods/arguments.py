"""Reads the arguments of calls as nodes do, with the nodes' own error texts (docs/harmony.md section 6).

There are three readers of block references, as in Harmony's Go types: `number` (ByNumber methods, all namespaces),
`number_or_hash` (call, getCode and the like) and `hex_or_tag` (getLogs fields, and every number argument of geth). A
reader takes the JSON text of an argument and whether the node is geth-like.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw, Struct

LATEST, PENDING, FINALIZED, SAFE = -1, -2, -3, -4
_TAGS = {"latest": LATEST, "earliest": 0, "pending": PENDING}
_GETH_TAGS = {**_TAGS, "finalized": FINALIZED, "safe": SAFE}
_INT64 = 2**63 - 1
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_FIELDS = {
    name.lower(): name
    for name in (
        *("from", "to", "gas", "gasPrice", "value", "data", "input", "nonce"),
        *("fromBlock", "toBlock", "blockHash", "blockNumber", "requireCanonical", "address", "topics"),
        *("fullTx", "withSigners", "inclStaking", "pageIndex", "pageSize", "order"),
    )
}


class UnreadableArgument(ValueError):
    """An argument that a node cannot read, which is error -32602 with `invalid argument N: ` and this text."""


class BlockHash(Struct, frozen=True):
    hash: bytes


Reference = int | BlockHash | None
"""A number (tags are negative), a hash, or None where the argument was null."""


def _unmarshal(what: object, go_type: str) -> UnreadableArgument:
    """The error of Go's decoder for a value that does not fit its type."""
    return UnreadableArgument(f"json: cannot unmarshal {what} into Go value of type {go_type}")


def go_kind(value: object) -> str:
    """The name of a JSON value's type in errors of Go's decoder."""
    kinds: dict[type, str] = {
        bool: "bool",
        str: "string",
        int: "number",
        float: "number",
        list: "array",
        dict: "object",
    }
    return kinds.get(type(value), "null")


def _as_go_reads(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Members as Go's decoder fills a struct: in any case, and the last of several counts."""
    return {_FIELDS.get(name.casefold(), name): value for name, value in pairs}


def anything(raw: Raw, geth: bool = False) -> Any:  # noqa: ARG001
    """Any JSON value, objects as Go reads them into structs."""
    return json.loads(bytes(raw), object_pairs_hook=_as_go_reads)


def string(raw: Raw, geth: bool = False) -> str:  # noqa: ARG001
    value = json.loads(bytes(raw))
    if not isinstance(value, str):
        raise _unmarshal(go_kind(value), "string")
    return value


def address(raw: Raw, geth: bool = False) -> str | bytes:
    """An address: geth's common.Address, and for Harmony a text that the method reads."""
    return fixed_bytes(raw, 20, "common.Address") if geth else string(raw, geth)


def uint(raw: Raw, geth: bool = False) -> int:
    """Harmony's transaction index, a whole number, bare or as text (5, "5", "0x5"); geth's hexutil.Uint."""
    if geth:
        return number(raw, geth)
    value = json.loads(bytes(raw))
    if isinstance(value, str):
        try:
            return int(value, 16) if value.startswith("0x") else int(value)
        except ValueError:
            raise UnreadableArgument(f"strconv.ParseInt: parsing {json.dumps(value)}: invalid syntax") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unmarshal(go_kind(value), "uint64")
    return value


def call_object(raw: Raw, geth: bool = False) -> dict[str, Any]:
    value = anything(raw, geth)
    if value is not None and not isinstance(value, dict):
        raise _unmarshal(go_kind(value), "rpc.CallArgs")
    return value or {}


def number(raw: Raw, geth: bool = False) -> int:
    """A BlockNumber. Harmony's: 26, "26", "0x1a", -1 = latest, -2 = pending; "0x0026" is decimal 26. geth's: a hex
    number or a tag."""
    text = bytes(raw).decode().strip()
    quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    if geth:
        return hex_or_tag(text[1:-1] if text[:1] == '"' else text, geth=True)
    text = text[1:-1] if quoted else text
    if text in _TAGS:
        return _TAGS[text]
    text = text.lower()
    digits = text.removeprefix("0x")
    if text != digits and digits and (digits == "0" or digits[0] != "0") and _HEX_DIGITS.issuperset(digits):
        value = int(digits, 16)
    elif digits.isascii() and digits[digits[:1] in ("-", "+") :].isdigit():
        value = int(digits)
    else:
        raise UnreadableArgument(f"strconv.ParseInt: parsing {json.dumps(digits)}: invalid syntax")
    if value > _INT64:
        raise UnreadableArgument(f'strconv.ParseInt: parsing "{digits}": value out of range')
    return value


def hex_or_tag(text: str, *, geth: bool = False) -> int:
    """A "0x1a" number without leading zeros, or a tag; go-ethereum's own BlockNumber."""
    tags = _GETH_TAGS if geth else _TAGS
    if text in tags:
        return tags[text]
    digits = text[2:]
    refusals = {
        "empty hex string": not text,
        "hex string without 0x prefix": text[:2] not in ("0x", "0X"),
        'hex string "0x"': not digits,
        "hex number with leading zero digits": digits[:1] == "0" and digits != "0",
        "invalid hex string": not _HEX_DIGITS.issuperset(digits),
        "hex number > 64 bits": len(digits) > 16,
    }
    _refuse(refusals)
    value = int(digits, 16)
    _refuse({"block number larger than int64": value > _INT64})
    return value


def _refuse(refusals: dict[str, bool]) -> None:
    """Raise the first of the errors that applies."""
    for words, applies in refusals.items():
        if applies:
            raise UnreadableArgument(words)


def block_hash(raw: Raw, geth: bool = False) -> bytes:  # noqa: ARG001
    """A 32-byte hash argument (Go's common.Hash)."""
    return fixed_bytes(raw, 32, "common.Hash")


def fixed_bytes(raw: Raw | bytes, size: int, name: str) -> bytes:
    """A 0x text of exactly `size` bytes, refused in the words of Go's `name`."""
    text = bytes(raw).decode().strip()
    written, digits = text[1:-1], text[3:-1]
    refusals = {
        "non-string": text[:1] != '"',
        "empty hex string": not written,
        "hex string without 0x prefix": written[:2] not in ("0x", "0X"),
        "hex string of odd length": len(digits) % 2 == 1,
        "invalid hex string": not _HEX_DIGITS.issuperset(digits),
    }
    _refuse({str(_unmarshal(words, name)): applies for words, applies in refusals.items()})
    _refuse({f"hex string has length {len(digits)}, want {2 * size} for {name}": len(digits) != 2 * size})
    return bytes.fromhex(digits)


def number_or_hash(raw: Raw, geth: bool = False) -> Reference:
    """A BlockNumberOrHash: a "0x1a" text, a tag, a 32-byte hash, the EIP-1898 object, and on Harmony 26 and -1. Null
    counts as missing on geth, which means latest."""
    text = bytes(raw).decode().strip()
    if text[:1] == "{":
        return _object(text, geth=geth)
    if len(text) == 68 and text[:3] == '"0x':
        return BlockHash(fixed_bytes(text.encode(), 32, "common.Hash"))
    if text[:1] == '"':
        return hex_or_tag(text[1:-1], geth=geth)
    if text == "null":
        return LATEST if geth else None
    kind = {"t": "bool", "f": "bool", "[": "array"}.get(text[:1], "number")
    if geth:
        raise _unmarshal(kind, "string")
    if kind != "number":
        raise _unmarshal(kind, "int64")
    if not text.removeprefix("-").isdigit() or abs(int(text)) > _INT64:
        raise _unmarshal(f"number {text}", "int64")
    return int(text)


def optional_number_or_hash(raw: Raw, geth: bool = False) -> Reference:
    """A pointer to a BlockNumberOrHash: null counts as missing, and means latest."""
    return LATEST if bytes(raw).strip() == b"null" else number_or_hash(raw, geth)


def _object(text: str, *, geth: bool) -> Reference:
    value = anything(Raw(text.encode()), geth)
    by_hash, by_number = value.get("blockHash"), value.get("blockNumber")
    if by_hash is not None and by_number is not None:
        raise UnreadableArgument("cannot specify both BlockHash and BlockNumber, choose one or the other")
    if by_hash is not None:
        return BlockHash(fixed_bytes(json.dumps(by_hash).encode(), 32, "common.Hash"))
    return None if by_number is None else hex_or_tag(str(by_number), geth=geth)
