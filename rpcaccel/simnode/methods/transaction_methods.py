"""The transaction methods: lookups, counts, receipts, the pool, and sending.

A signed transaction that is sent is checked, taken or refused as a node does (docs/harmony.md section 5).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.raw_tx import RawTransaction, intrinsic_gas, read
from rpcaccel.simnode.chain.shared_sends import NotShared
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods import json_views as views
from rpcaccel.simnode.methods.arguments import BlockHash, Reference
from rpcaccel.simnode.methods.block_methods import account, known
from rpcaccel.simnode.methods.json_views import GAS_LIMIT, View
from rpcaccel.simnode.methods.log_methods import as_stored
from rpcaccel.simnode.methods.registry import (
    CRASHED,
    MethodCall,
    RpcError,
    answers,
    both,
    chain,
    ethereum,
    geth,
    not_v2_or_v1,
)

MAX_DATA_BYTES = 128 * 1024
_NEXT = "nonce too low: next nonce {next}, tx nonce {nonce}"
_WORDS = {
    "known": ("known transaction", "already known"),
    "finalized": ("transaction already finalized", _NEXT),
    "chain id": (
        "blockchain chain id:{ours}, given {given}: invalid chain id for signer",
        "invalid chain id for signer: have {given} want {ours}",
    ),
    "nonce": ("nonce too low", _NEXT),
}
"""The error texts in which Harmony and geth differ."""
LEAST_GAS_PRICE = (10**9, 1)
"""Atto that Harmony and geth want for each gas."""


def send(call: MethodCall, encoded: str) -> Tx:
    """Pool the transaction, to be mined in the chain's next block. Raises RpcError as the node does, and where other
    processes of the chain cannot be told."""
    try:
        raw = read(bytes.fromhex(encoded.removeprefix("0x")))
    except ValueError as error:
        raise RpcError(str(error)) from None
    try:
        with call.chain.sending():
            return _take(call, raw)
    except NotShared as error:
        raise RpcError(str(error)) from None


def _take(call: MethodCall, raw: RawTransaction) -> Tx:
    """Check the transaction and add it to the chain. Raises RpcError, NotShared."""
    local = call.local
    sent = call.chain.sent.by_hash.get(raw.hash)
    if sent is not None:
        local.arrived.setdefault(raw.hash, local.clock.now())
        words = _WORDS["finalized" if sent.number <= call.head else "known"][call.geth]
        raise RpcError(words.format(next=raw.nonce + 1, nonce=raw.nonce))
    spec = call.spec
    if raw.chain_id not in (None, spec.signer_chain_id, spec.network_id):
        ours = spec.signer_chain_id if call.geth else spec.network_id
        raise RpcError(_WORDS["chain id"][call.geth].format(ours=ours, given=raw.chain_id))
    if refusal := _refusal(call, raw):
        shown, now = to_hex(raw.harmony_hash(spec.shard)), spec.timestamp(call.head)
        local.sink.append({"error-message": refusal, "time-at-rejection": now, "tx-hash-id": shown})
        raise RpcError(refusal)
    tx = call.chain.add(raw)
    local.arrived[raw.hash] = local.clock.now()
    return tx


def _refusal(call: MethodCall, raw: RawTransaction) -> str:
    """The first reason against a transaction, "" for none."""
    following = accounts.nonce(call.branch, raw.sender, call.chain.next_block)
    cost = raw.value + raw.gas * raw.gas_price
    refusals = (
        (_WORDS["nonce"][call.geth], raw.nonce < accounts.nonce(call.branch, raw.sender, call.head)),
        ("replacement transaction underpriced", raw.nonce < following),
        ("oversized data", len(raw.data) > MAX_DATA_BYTES),
        ("transaction underpriced", raw.gas_price < LEAST_GAS_PRICE[call.geth]),
        ("intrinsic gas too low", raw.gas < intrinsic_gas(raw)),
        ("exceeds block gas limit", raw.gas > GAS_LIMIT),
        ("insufficient funds for gas * price + value", cost > accounts.balance(call.branch, raw.sender, call.head)),
    )
    reason = next((reason for reason, refused in refusals if refused), "")
    return reason.format(next=following, nonce=raw.nonce)


def _block(call: MethodCall, reference: Reference | bytes) -> Block | None:
    """The block of a height or a hash. Without one the handler of a Harmony node crashes, and geth answers null."""
    if reference is None:
        raise RpcError("invalid arguments; neither block nor hash specified")
    if isinstance(reference, int):
        height = known(call, reference)
        block = None if height is None else call.block_at(height)
    else:
        sealed = reference.hash if isinstance(reference, BlockHash) else reference
        block = call.branch.by_hash(sealed, call.head)
    if block is None and not call.geth:
        raise RpcError(CRASHED)
    return block


def _shown(call: MethodCall, tx: Tx, block: Block | None) -> View:
    """A transaction of either kind: of Harmony as a StructuredResponse, with its members in alphabetical order; of geth
    as it stands in its block."""
    show = views.staking_transaction if tx.staking else views.transaction
    view = show(call.branch, tx, block, call.version)
    return view if call.geth else dict(sorted(view.items()))


@both("getTransactionByHash", args.block_hash)
def get_transaction_by_hash(call: MethodCall, sealed: bytes) -> View | None:
    found = call.mined(sealed)
    if found is not None and not found[0].staking:
        return _shown(call, *found)
    waiting = next((tx for tx in call.pending() if sealed in (tx.hash, tx.eth_hash)), None)
    return None if waiting is None else _shown(call, waiting, None)


@chain("getStakingTransactionByHash", args.block_hash)
def get_staking_transaction_by_hash(call: MethodCall, sealed: bytes) -> View | None:
    not_v2_or_v1(call)
    found = call.mined(sealed)
    return None if found is None or not found[0].staking else _shown(call, *found)


@both("getTransactionReceipt", args.block_hash)
def get_transaction_receipt(call: MethodCall, sealed: bytes) -> View | None:
    found = call.mined(sealed)
    if found is None or (call.version == "eth" and found[0].staking) or call.lies("dropped_receipts"):
        return None
    call.local.read_receipts(found[1].number)
    return _receipt(call, *found)


def _receipt(call: MethodCall, tx: Tx, block: Block) -> View:
    """A receipt as this node has it, with its members in order."""
    view = views.receipt(call.branch, tx, block, call.version)
    view["logs"] = [as_stored(call, tx, entry) for entry in view["logs"]]
    return dict(sorted(view.items()))


@chain("getBlockReceipts", args.block_hash)
@geth("getBlockReceipts", args.number_or_hash)
def get_block_receipts(call: MethodCall, reference: Reference | bytes) -> list[View] | None:
    block = _block(call, reference)
    if block is None:
        return None
    if call.local.read_receipts(block.number):
        raise RpcError(CRASHED)
    receipts = [_receipt(call, tx, block) for tx in (*block.txs, *(() if call.is_eth else block.staking))]
    if receipts and call.lies("dropped_receipts"):
        del receipts[block.number % len(receipts)]
    return receipts


def _held(block: Block, *, staking: bool) -> tuple[Tx, ...]:
    return block.staking if staking else block.txs


def count(call: MethodCall, reference: Reference | bytes, *, staking: bool = False) -> int | str | None:
    block = _block(call, reference)
    return None if block is None else call.number(len(_held(block, staking=staking)))


def transaction_at(call: MethodCall, reference: Reference | bytes, index: int, *, staking: bool = False) -> View | None:
    if staking:
        not_v2_or_v1(call)
    block = _block(call, reference)
    held = _held(block, staking=staking) if block else ()
    return None if block is None or index >= len(held) else _shown(call, held[index], block)


for _named, _reader in (("Number", args.number), ("Hash", args.block_hash)):
    both(f"getBlockTransactionCountBy{_named}", _reader)(count)
    both(f"getTransactionByBlock{_named}AndIndex", _reader, args.uint)(transaction_at)
    chain(f"getBlockStakingTransactionCountBy{_named}", _reader)(partial(count, staking=True))
    chain(f"getStakingTransactionByBlock{_named}AndIndex", _reader, args.uint)(partial(transaction_at, staking=True))


# -- the explorer's index -----------------------------------------------------------------------------------------

HISTORY_BLOCKS = 100
"""Newest blocks that the simulated explorer index looks through: enough for a client, and bounded."""


def _history(call: MethodCall, who: str, *, staking: bool) -> list[tuple[Tx, Block]]:
    if not call.knobs.explorer:
        raise RpcError("explorer service not started")
    address = account(who)
    blocks = [call.block_at(height) for height in range(max(0, call.head - HISTORY_BLOCKS), call.head + 1)]
    found = [(tx, block) for block in blocks for tx in _held(block, staking=staking)]
    return [(tx, block) for tx, block in found if address in (tx.sender, tx.to, tx.validator)]


def _page(call: MethodCall, value: View, *, staking: bool) -> list[Any]:
    """The page of a history that a query asks for: hashes, or whole transactions."""
    found = _history(call, str(value.get("address")), staking=staking)
    if value.get("order") == "DESC":
        found.reverse()
    size = int(value.get("pageSize") or 1000)
    start = int(value.get("pageIndex") or 0) * size
    return [_shown(call, *one) if value.get("fullTx") else to_hex(one[0].hash) for one in found[start : start + size]]


@chain("getTransactionsHistory", args.call_object)
def get_transactions_history(call: MethodCall, value: View) -> View:
    return {"transactions": _page(call, value, staking=False)}


@chain("getStakingTransactionsHistory", args.call_object)
def get_staking_history(call: MethodCall, value: View) -> View | None:
    if not call.knobs.explorer:
        return None  # without an error, unlike the others
    page = _page(call, value, staking=True)
    return {"staking_transactions": [] if call.version == "eth" else page}


chain("getTransactionsCount", args.string, args.string)(lambda call, who, _: len(_history(call, who, staking=False)))
chain("getStakingTransactionsCount", args.string, args.string)(
    lambda call, who, _: len(_history(call, who, staking=True))
)


# -- the pool and sending -----------------------------------------------------------------------------------------


@chain("sendRawTransaction sendRawStakingTransaction", args.string)
@geth("sendRawTransaction", args.string)
def send_raw_transaction(call: MethodCall, encoded: str) -> str:
    return views.tx_hash(call.version, send(call, encoded))


@chain("pendingTransactions", limiter="pending")
def pending_transactions(call: MethodCall) -> list[View]:
    return [views.transaction(call.branch, tx, None, call.version) for tx in call.pending()]


ethereum("status", spaces={"txpool": "geth"})(lambda call: {"pending": hex(len(call.pending())), "queued": "0x0"})
chain("getPoolStats")(lambda call: {"executable-count": len(call.pending()), "non-executable-count": 0})
chain("getCurrentTransactionErrorSink")(lambda call: list(call.local.sink))
chain("pendingStakingTransactions getCurrentStakingErrorSink getPendingCXReceipts getCurrentBadBlocks accounts")(
    answers("[]")
)
chain("getNumPendingCXReceipts getNumPendingCrossLinks")(answers("0"))
chain("getCXReceiptByHash", args.block_hash)(answers("null"))  # no transaction crosses shards here
chain("resendCx", args.block_hash)(answers("false"))
