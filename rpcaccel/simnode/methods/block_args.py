"""Reads the block references of calls as nodes do, with the nodes' own error texts (docs/harmony.md section 6).

There are three readers, as in Harmony's Go types: `number` (ByNumber methods, all namespaces), `number_or_hash` (call,
getCode and the like) and `hex_or_tag` (getLogs fields, and every number argument of geth).
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw, Struct

LATEST, PENDING, FINALIZED, SAFE = -1, -2, -3, -4
_TAGS = {"latest": LATEST, "earliest": 0, "pending": PENDING}
_GETH_TAGS = {**_TAGS, "finalized": FINALIZED, "safe": SAFE}
_INT64 = 2**63 - 1
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


def _as_go_reads(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Members as Go's decoder fills a struct: in any case, and the last of several counts."""
    return {_FIELDS.get(name.casefold(), name): value for name, value in pairs}


def decoded(raw: bytes | str) -> Any:
    """Any JSON value, objects as Go reads them into structs."""
    return json.loads(raw, object_pairs_hook=_as_go_reads)


class BlockHash(Struct, frozen=True):
    """A reference by hash."""

    hash: bytes


Reference = int | BlockHash | None
"""A number (tags are negative), a hash, or None where the argument was null."""


def number(raw: Raw) -> int:
    """Harmony's BlockNumber: 26, "26", "0x1a", -1 = latest, -2 = pending; "0x0026" is decimal 26."""
    text = bytes(raw).decode().strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if text in _TAGS:
        return _TAGS[text]
    text = text.lower()
    digits = text.removeprefix("0x")
    if text != digits and digits and (digits == "0" or digits[0] != "0") and _is_hex(digits):
        return _checked(int(digits, 16), digits)
    sign = digits[:1] in ("-", "+")
    if not digits[sign:].isdigit() or not digits.isascii():
        raise UnreadableArgument(f"strconv.ParseInt: parsing {json.dumps(digits)}: invalid syntax")
    return _checked(int(digits), digits)


def _checked(value: int, digits: str) -> int:
    if value > _INT64:
        raise UnreadableArgument(f'strconv.ParseInt: parsing "{digits}": value out of range')
    return value


def _is_hex(text: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in text)


def hex_or_tag(text: str, *, geth: bool = False) -> int:
    """A "0x1a" number without leading zeros, or a tag; go-ethereum's own BlockNumber."""
    tags = _GETH_TAGS if geth else _TAGS
    if text in tags:
        return tags[text]
    if not text:
        raise UnreadableArgument("empty hex string")
    if text[:2] not in ("0x", "0X"):
        raise UnreadableArgument("hex string without 0x prefix")
    digits = text[2:]
    if not digits:
        raise UnreadableArgument('hex string "0x"')
    if digits[0] == "0" and digits != "0":
        raise UnreadableArgument("hex number with leading zero digits")
    if not _is_hex(digits):
        raise UnreadableArgument("invalid hex string")
    if len(digits) > 16:
        raise UnreadableArgument("hex number > 64 bits")
    value = int(digits, 16)
    if value > _INT64:
        raise UnreadableArgument("block number larger than int64")
    return value


def block_hash(raw: Raw) -> bytes:
    """A 32-byte hash argument (Go's common.Hash)."""
    return fixed_bytes(raw, 32, "common.Hash")


def fixed_bytes(raw: Raw, size: int, name: str) -> bytes:
    """A 0x text of exactly `size` bytes, refused in the words of Go's `name`."""
    text = bytes(raw).decode().strip()
    if text[:1] != '"':
        raise UnreadableArgument(f"json: cannot unmarshal non-string into Go value of type {name}")
    text = text[1:-1]
    if not text:
        raise UnreadableArgument(f"json: cannot unmarshal empty hex string into Go value of type {name}")
    if text[:2] not in ("0x", "0X"):
        raise UnreadableArgument(f"json: cannot unmarshal hex string without 0x prefix into Go value of type {name}")
    digits = text[2:]
    if len(digits) % 2:
        raise UnreadableArgument(f"json: cannot unmarshal hex string of odd length into Go value of type {name}")
    if not _is_hex(digits):
        raise UnreadableArgument(f"json: cannot unmarshal invalid hex string into Go value of type {name}")
    if len(digits) != 2 * size:
        raise UnreadableArgument(f"hex string has length {len(digits)}, want {2 * size} for {name}")
    return bytes.fromhex(digits)


def number_or_hash(raw: Raw) -> Reference:
    """Harmony's BlockNumberOrHash: 26, "0x1a", tags, -1, a 32-byte hash, or the EIP-1898 object."""
    text = bytes(raw).decode().strip()
    if text[:1] == '"':
        return _text_or_hash(text[1:-1], geth=False)
    if text == "null":
        return None
    if text[:1] == "{":
        return _object(text, geth=False)
    if text in ("true", "false"):
        raise UnreadableArgument("json: cannot unmarshal bool into Go value of type int64")
    if text[:1] == "[":
        raise UnreadableArgument("json: cannot unmarshal array into Go value of type int64")
    try:
        value = int(text)
    except ValueError:
        raise UnreadableArgument(f"json: cannot unmarshal number {text} into Go value of type int64") from None
    if abs(value) > _INT64:
        raise UnreadableArgument(f"json: cannot unmarshal number {text} into Go value of type int64")
    return value


def optional_number_or_hash(raw: Raw) -> Reference:
    """A pointer to Harmony's BlockNumberOrHash: null counts as missing, and means latest."""
    return LATEST if bytes(raw).strip() == b"null" else number_or_hash(raw)


def geth_number(raw: Raw) -> int:
    """geth's BlockNumber, and its hexutil.Uint: a hex number or a tag."""
    text = bytes(raw).decode().strip()
    return hex_or_tag(text[1:-1] if text[:1] == '"' else text, geth=True)


def geth_address(raw: Raw) -> bytes:
    """geth's common.Address."""
    return fixed_bytes(raw, 20, "common.Address")


def geth_number_or_hash(raw: Raw) -> Reference:
    """go-ethereum's BlockNumberOrHash: text, tags (finalized and safe too), a hash, or the EIP-1898 object."""
    text = bytes(raw).decode().strip()
    if text == "null":  # a pointer: null counts as missing
        return LATEST
    if text[:1] == "{":
        return _object(text, geth=True)
    if text[:1] != '"':
        raise UnreadableArgument(f"json: cannot unmarshal {_kind(text)} into Go value of type string")
    return _text_or_hash(text[1:-1], geth=True)


def _kind(text: str) -> str:
    return {"t": "bool", "f": "bool", "n": "null", "[": "array"}.get(text[:1], "number")


def _text_or_hash(text: str, *, geth: bool) -> Reference:
    if len(text) == 66 and text[:2] == "0x":
        return BlockHash(fixed_bytes(Raw(json.dumps(text).encode()), 32, "common.Hash"))
    return hex_or_tag(text, geth=geth)


def _object(text: str, *, geth: bool) -> Reference:
    value = decoded(text)
    by_hash, by_number = value.get("blockHash"), value.get("blockNumber")
    if by_hash is not None and by_number is not None:
        raise UnreadableArgument("cannot specify both BlockHash and BlockNumber, choose one or the other")
    if by_hash is not None:
        return BlockHash(fixed_bytes(Raw(json.dumps(by_hash).encode()), 32, "common.Hash"))
    if by_number is None:
        return None
    return hex_or_tag(by_number if isinstance(by_number, str) else str(by_number), geth=geth)
