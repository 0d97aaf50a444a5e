"""The transaction methods: lookups, counts, receipts, the pool, and sending.

A signed transaction that is sent is checked, taken or refused as a node does (docs/harmony.md section 5).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.raw_tx import RawTransaction, intrinsic_gas, read
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import json_views, lookup
from rpcaccel.simnode.methods.block_args import (
    BlockHash,
    Reference,
    block_hash,
    geth_number,
    geth_number_or_hash,
    number,
)
from rpcaccel.simnode.methods.block_methods import CRASHED, account, known
from rpcaccel.simnode.methods.json_views import GAS_LIMIT, hex0
from rpcaccel.simnode.methods.registry import (
    CHAIN,
    HARMONY,
    MethodCall,
    call_object,
    failed,
    geth,
    not_v2_or_v1,
    string,
    text,
    uint,
)

MAX_BYTES = 128 * 1024


class Texts(Struct, frozen=True):
    """The error texts in which kinds of nodes differ."""

    known: str = "known transaction"
    finalized: str = "transaction already finalized"
    chain_id: str = "blockchain chain id:{ours}, given {given}: invalid chain id for signer"
    nonce: str = "nonce too low"
    funds: str = "insufficient funds for gas * price + value"
    min_price: int = 10**9


HARMONY_TEXTS = Texts()
GETH_TEXTS = Texts(
    known="already known",
    finalized="nonce too low: next nonce {next}, tx nonce {nonce}",
    chain_id="invalid chain id for signer: have {given} want {ours}",
    nonce="nonce too low: next nonce {next}, tx nonce {nonce}",
    funds="insufficient funds for gas * price + value",
    min_price=1,
)


def send(asked: MethodCall, encoded: str) -> Tx:
    """Pool the transaction; it is mined in the next block. Raises RpcError as the node does."""
    texts = GETH_TEXTS if asked.version == "geth" else HARMONY_TEXTS
    try:
        raw = read(bytes.fromhex(encoded.removeprefix("0x")))
    except ValueError as error:
        raise failed(str(error)) from None
    known = asked.chain.sent.get(raw.hash)
    if known is not None:
        asked.local.arrived.setdefault(raw.hash, asked.local.clock.now())
        facts = {"next": raw.nonce + 1, "nonce": raw.nonce}
        raise failed((texts.finalized if asked.visible(known) else texts.known).format(**facts))
    refusal = _refusal(asked, raw, texts)
    if refusal:
        reason, keep = refusal
        if keep:
            _remember_refusal(asked, raw, reason)
        raise failed(reason)
    asked.local.arrived[raw.hash] = asked.local.clock.now()
    return asked.chain.add(raw)


def _refusal(asked: MethodCall, raw: RawTransaction, texts: Texts) -> tuple[str, bool] | None:
    """(reason, whether it shows in the error sink), None when the transaction is fine."""
    spec = asked.branch.spec
    if raw.chain_id not in (None, spec.signer_chain_id, spec.network_id):
        mine = spec.network_id if spec.kind == "harmony" else spec.signer_chain_id
        return texts.chain_id.format(ours=mine, given=raw.chain_id), False
    reason = _nonce_refusal(asked, raw, texts) or _cost_refusal(asked, raw, texts)
    return (reason, True) if reason else None


def _nonce_refusal(asked: MethodCall, raw: RawTransaction, texts: Texts) -> str:
    following = accounts.nonce(asked.chain, asked.branch, raw.sender, asked.chain.head + 1)
    if raw.nonce < accounts.nonce(asked.chain, asked.branch, raw.sender, asked.head):
        return texts.nonce.format(next=following, nonce=raw.nonce)
    return "replacement transaction underpriced" if raw.nonce < following else ""


def _cost_refusal(asked: MethodCall, raw: RawTransaction, texts: Texts) -> str:
    held = accounts.balance(asked.chain, asked.branch, raw.sender, asked.head)
    refusals = {
        "oversized data": len(raw.data) > MAX_BYTES,
        "transaction underpriced": raw.gas_price < texts.min_price,
        "intrinsic gas too low": raw.gas < intrinsic_gas(raw),
        "exceeds block gas limit": raw.gas > GAS_LIMIT,
        texts.funds: raw.value + raw.gas * raw.gas_price > held,
    }
    return next((reason for reason, refused in refusals.items() if refused), "")


def _remember_refusal(asked: MethodCall, raw: RawTransaction, reason: str) -> None:
    now = asked.branch.spec.timestamp(asked.head)
    shown = raw.harmony_hash(asked.branch.spec.shard)
    asked.local.sink.append({"error-message": reason, "time-at-rejection": now, "tx-hash-id": hex0(shown)})


def _sorted(value: dict[str, Any]) -> bytes:
    """A StructuredResponse: keys in alphabetical order."""
    return text(dict(sorted(value.items())))


def _block(asked: MethodCall, reference: Reference | bytes) -> Block | None:
    """The block of a height or a hash. Without one the handler of a Harmony node crashes, and geth answers null."""
    if reference is None:
        raise failed("invalid arguments; neither block nor hash specified")
    if isinstance(reference, int):
        height = known(asked, reference)
        block = None if height is None else asked.block_at(height)
    else:
        sealed = reference.hash if isinstance(reference, BlockHash) else reference
        block = asked.branch.by_hash(sealed, asked.head)
    if block is None and asked.version != "geth":
        raise failed(CRASHED)
    return block


@HARMONY.add("getTransactionByHash", block_hash, spaces=CHAIN)
@geth("getTransactionByHash", block_hash)
def get_transaction_by_hash(asked: MethodCall, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    if found is not None and not found[0].staking:
        return _sorted(json_views.transaction(asked.branch, found[0], found[1], asked.version))
    waiting = lookup.pooled(asked, sealed)
    return b"null" if waiting is None else _sorted(json_views.transaction(asked.branch, waiting, None, asked.version))


@HARMONY.add("getStakingTransactionByHash", block_hash, spaces=CHAIN)
def get_staking_transaction_by_hash(asked: MethodCall, sealed: bytes) -> bytes:
    not_v2_or_v1(asked)
    found = lookup.mined(asked, sealed)
    if found is None or not found[0].staking:
        return b"null"
    return _sorted(json_views.staking_transaction(found[0], found[1], asked.version))


@HARMONY.add("getTransactionReceipt", block_hash, spaces=CHAIN)
@geth("getTransactionReceipt", block_hash)
def get_transaction_receipt(asked: MethodCall, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    if found is None or (asked.version == "eth" and found[0].staking) or asked.lies("dropped_receipts"):
        return b"null"
    asked.local.read_receipts(found[1].number)
    return text(_receipt(asked, *found))


def _receipt(asked: MethodCall, tx: Tx, block: Block) -> dict[str, Any]:
    """A receipt as this node has it, with its members in order."""
    view = json_views.receipt(asked.branch, tx, block, asked.version)
    view["logs"] = [lookup.as_stored(asked, tx, entry) for entry in view["logs"]]
    return dict(sorted(view.items()))


@HARMONY.add("getBlockReceipts", block_hash, spaces=CHAIN)
@geth("getBlockReceipts", geth_number_or_hash)
def get_block_receipts(asked: MethodCall, reference: Reference | bytes) -> bytes:
    block = _block(asked, reference)
    if block is None:
        return b"null"
    txs = block.txs if asked.is_eth else (*block.txs, *block.staking)
    if asked.local.read_receipts(block.number):
        raise failed(CRASHED)
    receipts = [_receipt(asked, tx, block) for tx in txs]
    if receipts and asked.lies("dropped_receipts"):
        del receipts[block.number % len(receipts)]
    return text(receipts)


def count(asked: MethodCall, reference: Reference | bytes) -> bytes:
    block = _block(asked, reference)
    return text(None if block is None else asked.number(len(block.txs)))


def staking_count(asked: MethodCall, reference: Reference | bytes) -> bytes:
    block = _block(asked, reference)
    return text(asked.number(len(block.staking) if block else 0))


def transaction_at(asked: MethodCall, reference: Reference | bytes, index: int) -> bytes:
    block = _block(asked, reference)
    if block is None or index >= len(block.txs):
        return b"null"
    return _sorted(json_views.transaction(asked.branch, block.txs[index], block, asked.version))


def staking_transaction_at(asked: MethodCall, reference: Reference | bytes, index: int) -> bytes:
    not_v2_or_v1(asked)
    block = _block(asked, reference)
    if block is None or index >= len(block.staking):
        return b"null"
    return _sorted(json_views.staking_transaction(block.staking[index], block, asked.version))


for named, reader, geths in (("Number", number, geth_number), ("Hash", block_hash, block_hash)):
    HARMONY.add(f"getBlockTransactionCountBy{named}", reader, spaces=CHAIN)(count)
    HARMONY.add(f"getBlockStakingTransactionCountBy{named}", reader, spaces=CHAIN)(staking_count)
    HARMONY.add(f"getTransactionByBlock{named}AndIndex", reader, uint, spaces=CHAIN)(transaction_at)
    HARMONY.add(f"getStakingTransactionByBlock{named}AndIndex", reader, uint, spaces=CHAIN)(staking_transaction_at)
    geth(f"getBlockTransactionCountBy{named}", geths)(count)
    geth(f"getTransactionByBlock{named}AndIndex", geths, geth_number)(transaction_at)


# -- the explorer's index -----------------------------------------------------------------------------------------

HISTORY = 100
"""Newest blocks that the simulated explorer index looks through: enough for a client, and bounded."""


def _history(asked: MethodCall, who: str, *, staking: bool) -> list[tuple[Tx, Block]]:
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
def get_transactions_count(asked: MethodCall, who: str, which: str) -> bytes:  # noqa: ARG001
    return text(len(_history(asked, who, staking=False)))


@HARMONY.add("getStakingTransactionsCount", string, string, spaces=CHAIN)
def get_staking_transactions_count(asked: MethodCall, who: str, which: str) -> bytes:  # noqa: ARG001
    return text(len(_history(asked, who, staking=True)))


def _page(value: dict[str, Any], found: list[tuple[Tx, Block]]) -> list[tuple[Tx, Block]]:
    if value.get("order") == "DESC":
        found.reverse()
    size = int(value.get("pageSize") or 1000)
    start = int(value.get("pageIndex") or 0) * size
    return found[start : start + size]


@HARMONY.add("getTransactionsHistory", call_object, spaces=CHAIN)
def get_transactions_history(asked: MethodCall, value: dict[str, Any]) -> bytes:
    page = _page(value, _history(asked, str(value.get("address")), staking=False))
    shown: list[Any] = [hex0(tx.hash) for tx, _ in page]
    if value.get("fullTx"):
        shown = [dict(sorted(json_views.transaction(asked.branch, tx, b, asked.version).items())) for tx, b in page]
    return text({"transactions": shown})


@HARMONY.add("getStakingTransactionsHistory", call_object, spaces=CHAIN)
def get_staking_history(asked: MethodCall, value: dict[str, Any]) -> bytes:
    if not asked.local.knobs.explorer:
        return b"null"  # without an error, unlike the others
    page = _page(value, _history(asked, str(value.get("address")), staking=True))
    shown: list[Any] = [hex0(tx.hash) for tx, _ in page]
    if value.get("fullTx"):
        shown = [json_views.staking_transaction(tx, block, asked.version) for tx, block in page]
    return text({"staking_transactions": [] if asked.version == "eth" else shown})


# -- the pool and sending -----------------------------------------------------------------------------------------


@HARMONY.add("sendRawTransaction sendRawStakingTransaction", string, spaces=CHAIN)
@geth("sendRawTransaction", string)
def send_raw_transaction(asked: MethodCall, encoded: str) -> bytes:
    tx = send(asked, encoded)
    return text(hex0(tx.eth_hash if asked.is_eth else tx.hash))


@HARMONY.add("pendingTransactions", spaces=CHAIN, limiter="pending")
def pending_transactions(asked: MethodCall) -> bytes:
    return text([json_views.transaction(asked.branch, tx, None, asked.version) for tx in lookup.pending(asked)])


@HARMONY.add("getPoolStats", spaces=CHAIN)
def get_pool_stats(asked: MethodCall) -> bytes:
    return text({"executable-count": len(lookup.pending(asked)), "non-executable-count": 0})


@HARMONY.add("getCurrentTransactionErrorSink", spaces=CHAIN)
def get_error_sink(asked: MethodCall) -> bytes:
    return text(list(asked.local.sink))


HARMONY.fixed(
    "pendingStakingTransactions getCurrentStakingErrorSink getPendingCXReceipts getCurrentBadBlocks accounts",
    b"[]",
    spaces=CHAIN,
)
HARMONY.fixed("getNumPendingCXReceipts getNumPendingCrossLinks", b"0", spaces=CHAIN)
HARMONY.fixed("getCXReceiptByHash", b"null", block_hash, spaces=CHAIN)  # no transaction crosses shards here
HARMONY.fixed("resendCx", b"false", block_hash, spaces=CHAIN)
