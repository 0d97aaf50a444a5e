"""Harmony's transaction methods: lookups, counts, receipts, the pool and sending."""

from __future__ import annotations

from typing import Any

from . import lookup, views
from .blocks import Tx
from .chain import Block
from .methods_blocks import CRASHED, account, known
from .references import block_hash, number
from .registry import Asked, Registry, call_object, failed, string, text, uint
from .sending import HARMONY_TEXTS, send
from .tables import CHAIN, HARMONY, not_v2_or_v1
from .views import hex0


def _sorted(value: dict[str, Any]) -> bytes:
    """A StructuredResponse: keys in alphabetical order."""
    return text(dict(sorted(value.items())))


def _at_height(asked: Asked, reference: int) -> Block:
    height = known(asked, reference)
    if height is None:
        raise failed(CRASHED)
    return asked.block_at(height)


def _of_hash(asked: Asked, sealed: bytes) -> Block:
    block = asked.branch.by_hash(sealed, asked.head)
    if block is None:
        raise failed(CRASHED)
    return block


@HARMONY.add("getTransactionByHash", block_hash, spaces=CHAIN)
def get_transaction_by_hash(asked: Asked, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    if found is not None and not found[0].staking:
        return _sorted(views.transaction(asked.branch, found[0], found[1], asked.version))
    waiting = lookup.pooled(asked, sealed)
    return b"null" if waiting is None else _sorted(views.transaction(asked.branch, waiting, None, asked.version))


@HARMONY.add("getStakingTransactionByHash", block_hash, spaces=CHAIN)
def get_staking_transaction_by_hash(asked: Asked, sealed: bytes) -> bytes:
    not_v2_or_v1(asked)
    found = lookup.mined(asked, sealed)
    if found is None or not found[0].staking:
        return b"null"
    return _sorted(views.staking_transaction(found[0], found[1], asked.version))


@HARMONY.add("getTransactionReceipt", block_hash, spaces=CHAIN)
def get_transaction_receipt(asked: Asked, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    if found is None or (asked.version == "eth" and found[0].staking):
        return b"null"
    return _sorted(views.receipt(asked.branch, found[0], found[1], asked.version))


@HARMONY.add("getBlockReceipts", block_hash, spaces=CHAIN)
def get_block_receipts(asked: Asked, sealed: bytes) -> bytes:
    block = _of_hash(asked, sealed)
    txs = block.txs if asked.version == "eth" else (*block.txs, *block.staking)
    receipts = (views.receipt(asked.branch, tx, block, asked.version) for tx in txs)
    return text([dict(sorted(receipt.items())) for receipt in receipts])


@HARMONY.add("getCXReceiptByHash", block_hash, spaces=CHAIN)
def get_cx_receipt(asked: Asked, sealed: bytes) -> bytes:  # noqa: ARG001 - no transaction crosses shards here
    return b"null"


@HARMONY.add("getBlockTransactionCountByNumber", number, spaces=CHAIN)
def count_by_number(asked: Asked, reference: int) -> bytes:
    return text(asked.number(len(_at_height(asked, reference).txs)))


@HARMONY.add("getBlockTransactionCountByHash", block_hash, spaces=CHAIN)
def count_by_hash(asked: Asked, sealed: bytes) -> bytes:
    return text(asked.number(len(_of_hash(asked, sealed).txs)))


@HARMONY.add("getBlockStakingTransactionCountByNumber", number, spaces=CHAIN)
def staking_count_by_number(asked: Asked, reference: int) -> bytes:
    return text(asked.number(len(_at_height(asked, reference).staking)))


@HARMONY.add("getBlockStakingTransactionCountByHash", block_hash, spaces=CHAIN)
def staking_count_by_hash(asked: Asked, sealed: bytes) -> bytes:
    return text(asked.number(len(_of_hash(asked, sealed).staking)))


@HARMONY.add("getTransactionByBlockNumberAndIndex", number, uint, spaces=CHAIN)
def by_number_and_index(asked: Asked, reference: int, index: int) -> bytes:
    return _nth(asked, _at_height(asked, reference), index)


@HARMONY.add("getTransactionByBlockHashAndIndex", block_hash, uint, spaces=CHAIN)
def by_hash_and_index(asked: Asked, sealed: bytes, index: int) -> bytes:
    return _nth(asked, _of_hash(asked, sealed), index)


def _nth(asked: Asked, block: Block, index: int) -> bytes:
    if index >= len(block.txs):
        return b"null"
    return _sorted(views.transaction(asked.branch, block.txs[index], block, asked.version))


@HARMONY.add("getStakingTransactionByBlockNumberAndIndex", number, uint, spaces=CHAIN)
def staking_by_number_and_index(asked: Asked, reference: int, index: int) -> bytes:
    not_v2_or_v1(asked)
    return _nth_staking(asked, _at_height(asked, reference), index)


@HARMONY.add("getStakingTransactionByBlockHashAndIndex", block_hash, uint, spaces=CHAIN)
def staking_by_hash_and_index(asked: Asked, sealed: bytes, index: int) -> bytes:
    not_v2_or_v1(asked)
    return _nth_staking(asked, _of_hash(asked, sealed), index)


def _nth_staking(asked: Asked, block: Block, index: int) -> bytes:
    if index >= len(block.staking):
        return b"null"
    return _sorted(views.staking_transaction(block.staking[index], block, asked.version))


# -- the explorer's index -----------------------------------------------------------------------------------------

HISTORY = 100
"""Newest blocks that the simulated explorer index looks through: enough for a client, and bounded."""


def _history(asked: Asked, who: str, *, staking: bool) -> list[tuple[Tx, Block]]:
    if not asked.local.knobs.explorer:
        raise failed("explorer service not started")
    address = account(who)
    found: list[tuple[Tx, Block]] = []
    for height in range(max(0, asked.head - HISTORY), asked.head + 1):
        block = asked.block_at(height)
        txs = block.staking if staking else block.txs
        found += [(tx, block) for tx in txs if address in (tx.sender, tx.to, tx.validator)]
    return found


@HARMONY.add("getTransactionsCount", string, string, spaces=CHAIN)
def get_transactions_count(asked: Asked, who: str, which: str) -> bytes:  # noqa: ARG001
    return text(len(_history(asked, who, staking=False)))


@HARMONY.add("getStakingTransactionsCount", string, string, spaces=CHAIN)
def get_staking_transactions_count(asked: Asked, who: str, which: str) -> bytes:  # noqa: ARG001
    return text(len(_history(asked, who, staking=True)))


def _page(value: dict[str, Any], found: list[tuple[Tx, Block]]) -> list[tuple[Tx, Block]]:
    if value.get("order") == "DESC":
        found.reverse()
    size = int(value.get("pageSize") or 1000)
    start = int(value.get("pageIndex") or 0) * size
    return found[start : start + size]


@HARMONY.add("getTransactionsHistory", call_object, spaces=CHAIN)
def get_transactions_history(asked: Asked, value: dict[str, Any]) -> bytes:
    page = _page(value, _history(asked, str(value.get("address")), staking=False))
    shown: list[Any] = [hex0(tx.hash) for tx, _ in page]
    if value.get("fullTx"):
        shown = [dict(sorted(views.transaction(asked.branch, tx, b, asked.version).items())) for tx, b in page]
    return text({"transactions": shown})


@HARMONY.add("getStakingTransactionsHistory", call_object, spaces=CHAIN)
def get_staking_history(asked: Asked, value: dict[str, Any]) -> bytes:
    if not asked.local.knobs.explorer:
        return b"null"  # without an error, unlike the others
    page = _page(value, _history(asked, str(value.get("address")), staking=True))
    shown: list[Any] = [hex0(tx.hash) for tx, _ in page]
    if value.get("fullTx"):
        shown = [views.staking_transaction(tx, block, asked.version) for tx, block in page]
    return text({"staking_transactions": [] if asked.version == "eth" else shown})


# -- the pool and sending -----------------------------------------------------------------------------------------


@HARMONY.add("sendRawTransaction sendRawStakingTransaction", string, spaces=CHAIN)
def send_raw_transaction(asked: Asked, encoded: str) -> bytes:
    tx = send(asked, encoded, HARMONY_TEXTS)
    return text(hex0(tx.eth_hash if asked.version == "eth" else tx.hash))


@HARMONY.add("pendingTransactions", spaces=CHAIN, limiter="pending")
def pending_transactions(asked: Asked) -> bytes:
    return text([views.transaction(asked.branch, tx, None, asked.version) for tx in lookup.pending(asked)])


@HARMONY.add("getPoolStats", spaces=CHAIN)
def get_pool_stats(asked: Asked) -> bytes:
    return text({"executable-count": len(lookup.pending(asked)), "non-executable-count": 0})


@HARMONY.add("getCurrentTransactionErrorSink", spaces=CHAIN)
def get_error_sink(asked: Asked) -> bytes:
    return text(list(asked.local.sink))


def _nothing(registry: Registry) -> None:
    names = "pendingStakingTransactions getCurrentStakingErrorSink getPendingCXReceipts getCurrentBadBlocks accounts"
    registry.add(names, spaces=CHAIN)(lambda asked: b"[]")  # noqa: ARG005
    registry.add("getNumPendingCXReceipts getNumPendingCrossLinks", spaces=CHAIN)(lambda asked: b"0")  # noqa: ARG005
    registry.add("resendCx", block_hash, spaces=CHAIN)(lambda asked, sealed: b"false")  # noqa: ARG005


_nothing(HARMONY)
