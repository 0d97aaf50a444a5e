"""Reads the block hashes that logs name, to find those that the blocks do not have.

A node of Harmony that proposed a block executes it before the block has its hash, and keeps the hash of that moment in
the block's logs for ever. Each transaction of such a block has logs with another false hash; everything else in them is
right (docs/harmony.md section 6). A false hash is therefore no sign of a fork. In a receipt, the hash of the receipt
itself is the right one; for a list of logs, the hash of each block must be known from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import LogsForm
from rpcaccel.core.wire.json_text import UNREADABLE


class _Log(Struct, gc=False):
    blockHash: str | None = None
    blockNumber: str | int | None = None


class _Receipt(Struct, gc=False):
    blockHash: str | None = None
    logs: tuple[_Log, ...] | None = None


class _Criteria(Struct, gc=False):
    blockHash: str | None = None


_logs = msgspec.json.Decoder(tuple[_Log, ...] | None).decode
_receipt = msgspec.json.Decoder(_Receipt | None).decode
_receipts = msgspec.json.Decoder(tuple[_Receipt, ...] | None).decode
_criteria = msgspec.json.Decoder(tuple[_Criteria, ...]).decode


class NamedHashes(Struct, frozen=True):
    """The block hashes in the logs of one result."""

    false: bool = False
    """Does a log certainly name a hash that its block does not have?"""
    unproven: dict[int, str] = {}
    """By block number, the hashes in lower case that only the block itself can prove."""


NOTHING = NamedHashes()


def named_hashes(plan: Plan, result: bytes) -> NamedHashes:
    """The hashes that the logs in a result name; NOTHING when the result cannot be read or its rule names no logs."""
    form: LogsForm = plan.rule.logs
    try:
        if form == "receipt":
            receipt = _receipt(result)
            return NOTHING if receipt is None else _in_receipts((receipt,))
        if form == "receipts":
            return _in_receipts(_receipts(result) or ())
        return _in_list(_logs(result) or (), _asked_hash(plan)) if form == "list" else NOTHING
    except (*UNREADABLE, ValueError):
        return NOTHING


def _in_receipts(receipts: Iterable[_Receipt]) -> NamedHashes:
    false = any(
        log.blockHash is not None
        and receipt.blockHash is not None
        and log.blockHash.lower() != receipt.blockHash.lower()
        for receipt in receipts
        for log in receipt.logs or ()
    )
    return NamedHashes(false)


def _in_list(logs: Iterable[_Log], asked: str) -> NamedHashes:
    named: dict[int, str] = {}
    for log in logs:
        if log.blockHash is None or log.blockNumber is None:
            continue
        said, number = log.blockHash.lower(), int(str(log.blockNumber), 0)
        if said != (asked or named.setdefault(number, said)):
            return NamedHashes(false=True)
    return NOTHING if asked else NamedHashes(unproven=named)


def _asked_hash(plan: Plan) -> str:
    """The hash of the one block whose logs are asked for, in lower case; empty when they are asked for by numbers."""
    if plan.block is not None:
        return ""
    criteria = _criteria(plan.params)
    return (criteria[0].blockHash or "").lower() if criteria else ""
