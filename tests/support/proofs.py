"""Proves parts of a block at once, as the judges do in steps after they have read an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rpcaccel.core.proof import receipts, transactions
from rpcaccel.core.proof.encoding import NotProvable, items, member
from rpcaccel.core.stepwise import at_once

Json = Mapping[str, Any]


def prove_transaction(one: Json, types: Sequence[str]) -> bytes:
    """Prove a transaction by itself; return it as a root is made of it."""
    objects([one])
    as_hashed = transactions.encode_transaction(one, types)
    transactions.prove_named(one, as_hashed)
    return as_hashed.envelope


def prove_transactions(block: Json, types: Sequence[str]) -> None:
    """Prove the transactions of a block that shows them whole."""
    shown = objects(member(block, "transactions"))
    encodings = at_once(transactions.prove_root(shown, block, types))
    at_once(transactions.prove_repeated(shown, encodings, block))


def prove_receipts(shown: Any, block: Json) -> None:
    """Prove the receipts of a block that shows its transactions whole."""
    shown, whole = objects(shown), objects(member(block, "transactions"))
    for receipt in shown:
        objects(member(receipt, "logs"))
    for receipt in shown:
        at_once(receipts.prove_bloom(receipt, one_hash=True))
    if shown:
        at_once(receipts.prove_order(shown))
    blooms = [at_once(receipts.bloom_of_logs(one)) for one in shown]
    at_once(receipts.prove_root(shown, blooms, whole, block))
    for index, (receipt, bloom, transaction) in enumerate(zip(shown, blooms, whole, strict=True)):
        at_once(receipts.prove_repeated(receipt, bloom, transaction, block, index))


def objects(of: Any) -> list[Json]:
    """An array of objects."""
    if not all(isinstance(one, dict) for one in items(of, "an array")):
        raise NotProvable("an object is missing")
    found: list[Json] = of
    return found
