"""The methods of a geth-like node that are not about accounts.

Such a node has optional block arguments, finalized and safe tags, error data on reverts, and geth's error texts.
Source: go-ethereum's eth API (docs/harmony.md section 11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from rpcaccel.simnode.chain import accounts as state
from rpcaccel.simnode.chain.raw_tx import keccak256
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import filter_methods, json_views, lookup
from rpcaccel.simnode.methods.block_args import (
    FINALIZED,
    LATEST,
    PENDING,
    SAFE,
    BlockHash,
    Reference,
    block_hash,
    fixed_bytes,
    geth_number_or_hash,
    hex_or_tag_raw,
)
from rpcaccel.simnode.methods.json_views import Shown, hex0
from rpcaccel.simnode.methods.node_methods import eth_chain_id
from rpcaccel.simnode.methods.registry import (
    ETH,
    ETHEREUM,
    GETH_VERSION,
    MethodCall,
    Reader,
    RpcError,
    Run,
    anything,
    call_object,
    failed,
    string,
    text,
)
from rpcaccel.simnode.methods.transaction_methods import GETH_TEXTS, send


def number(raw: Raw) -> int:
    """geth's BlockNumber."""
    return hex_or_tag_raw(raw, geth=True)


def address(raw: Raw) -> bytes:
    """geth's common.Address."""
    return fixed_bytes(raw, 20, "common.Address")


def index(raw: Raw) -> int:
    """geth's hexutil.Uint."""
    return hex_or_tag_raw(raw, geth=True)


def height_of(asked: MethodCall, reference: Reference) -> int | None:
    """The height a reference names, None above the head."""
    if reference is None:
        raise failed("invalid arguments; neither block nor hash specified")
    if isinstance(reference, BlockHash):
        block = asked.branch.by_hash(reference.hash, asked.head)
        if block is None:
            raise failed("header for hash not found")
        return block.number
    depth = asked.branch.spec.finality_depth
    back = {LATEST: 0, PENDING: 0, SAFE: depth // 2, FINALIZED: depth}
    if reference < 0:
        return max(0, asked.head - back[reference])
    return reference if reference <= asked.head else None


def serve(names: str, *readers: Reader, optional: int = 0) -> Callable[[Run], Run]:
    """Register a function in the eth namespace of a geth-like node."""
    return ETHEREUM.add(names, *readers, spaces=ETH, optional=optional)


@serve("blockNumber")
def block_number(asked: MethodCall) -> bytes:
    return text(hex(asked.head))


@serve("chainId")
def chain_id(asked: MethodCall) -> bytes:
    return text(hex(eth_chain_id(asked)))


@ETHEREUM.add("net_version", spaces={"": "geth"})
def net_version(asked: MethodCall) -> bytes:
    return text(str(eth_chain_id(asked)))


@ETHEREUM.add("net_peerCount", spaces={"": "geth"})
def peer_count(asked: MethodCall) -> bytes:
    return text(hex(asked.local.peers))


@ETHEREUM.add("net_listening", spaces={"": "geth"})
def listening(asked: MethodCall) -> bytes:  # noqa: ARG001
    return b"true"


@ETHEREUM.add("web3_clientVersion", spaces={"": "geth"})
def client_version(asked: MethodCall) -> bytes:  # noqa: ARG001
    return text(GETH_VERSION)


@ETHEREUM.add("web3_sha3", string, spaces={"": "geth"})
def sha3(asked: MethodCall, data: str) -> bytes:  # noqa: ARG001
    return text(hex0(keccak256(bytes.fromhex(data.removeprefix("0x")))))


@ETHEREUM.add("rpc_modules", spaces={"": "geth"})
def modules(asked: MethodCall) -> bytes:  # noqa: ARG001
    return text({"eth": "1.0", "net": "1.0", "rpc": "1.0", "web3": "1.0"})


@serve("syncing")
def syncing(asked: MethodCall) -> bytes:
    behind = asked.chain.head - asked.head
    if behind < 10:
        return b"false"
    return text({"startingBlock": "0x0", "currentBlock": hex(asked.head), "highestBlock": hex(asked.chain.head)})


@serve("accounts")
def accounts(asked: MethodCall) -> bytes:  # noqa: ARG001
    return b"[]"


@serve("getBlockByNumber", number, anything)
def get_block_by_number(asked: MethodCall, reference: int, full: Any) -> bytes:
    if reference == PENDING:
        return _pending_block(asked)
    height = height_of(asked, reference)
    return b"null" if height is None else _show(asked, asked.block_at(height), full)


def _pending_block(asked: MethodCall) -> bytes:
    view = json_views.block_object(asked.branch, asked.block_at(asked.head + 1), "geth", Shown())
    return text(view | {"hash": None, "nonce": None, "miner": None})


def _show(asked: MethodCall, block: Block, full: Any) -> bytes:
    if not isinstance(full, bool):
        raise RpcError(-32602, "invalid argument 1: json: cannot unmarshal non-boolean into Go value of type bool")
    return json_views.block_text(asked.branch, block, "geth", Shown(full=full))


@serve("getBlockByHash", block_hash, anything)
def get_block_by_hash(asked: MethodCall, sealed: bytes, full: Any) -> bytes:
    block = asked.branch.by_hash(sealed, asked.head)
    return b"null" if block is None else _show(asked, block, full)


@serve("getBlockReceipts", geth_number_or_hash)
def get_block_receipts(asked: MethodCall, reference: Reference) -> bytes:
    block = _block_or_none(asked, reference)
    if block is None:
        return b"null"
    return text([json_views.receipt(asked.branch, tx, block, "geth") for tx in block.txs])


def _block_or_none(asked: MethodCall, reference: Reference) -> Block | None:
    if isinstance(reference, BlockHash):
        return asked.branch.by_hash(reference.hash, asked.head)
    height = height_of(asked, reference)
    return None if height is None else asked.block_at(height)


def _transaction_at(asked: MethodCall, block: Block | None, at: int) -> bytes:
    if block is None or at >= len(block.txs):
        return b"null"
    return text(json_views.transaction(asked.branch, block.txs[at], block, "geth"))


@serve("getTransactionByBlockNumberAndIndex", number, index)
def by_number_and_index(asked: MethodCall, reference: int, at: int) -> bytes:
    return _transaction_at(asked, _block_or_none(asked, reference), at)


@serve("getTransactionByBlockHashAndIndex", block_hash, index)
def by_hash_and_index(asked: MethodCall, sealed: bytes, at: int) -> bytes:
    return _transaction_at(asked, asked.branch.by_hash(sealed, asked.head), at)


@serve("getBlockTransactionCountByNumber", number)
def count_by_number(asked: MethodCall, reference: int) -> bytes:
    block = _block_or_none(asked, reference)
    return text(None if block is None else hex(len(block.txs)))


@serve("getBlockTransactionCountByHash", block_hash)
def count_by_hash(asked: MethodCall, sealed: bytes) -> bytes:
    block = asked.branch.by_hash(sealed, asked.head)
    return text(None if block is None else hex(len(block.txs)))


@serve("getUncleCountByBlockNumber", number)
def uncles(asked: MethodCall, reference: int) -> bytes:
    return text(None if height_of(asked, reference) is None else "0x0")


@serve("getTransactionByHash", block_hash)
def get_transaction_by_hash(asked: MethodCall, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    if found is not None:
        return text(json_views.transaction(asked.branch, found[0], found[1], "geth"))
    waiting = lookup.pooled(asked, sealed)
    return text(None if waiting is None else json_views.transaction(asked.branch, waiting, None, "geth"))


@serve("getTransactionReceipt", block_hash)
def get_transaction_receipt(asked: MethodCall, sealed: bytes) -> bytes:
    found = lookup.mined(asked, sealed)
    return text(None if found is None else json_views.receipt(asked.branch, found[0], found[1], "geth"))


@serve("gasPrice")
def gas_price(asked: MethodCall) -> bytes:
    return text(hex(state.gas_price(asked.head)))


@serve("maxPriorityFeePerGas")
def max_priority_fee(asked: MethodCall) -> bytes:  # noqa: ARG001
    return text(hex(10**9))


@serve("feeHistory", anything, number, anything, optional=1)
def fee_history(asked: MethodCall, count: Any, newest: int, percentiles: Any = None) -> bytes:
    last = height_of(asked, newest)
    if last is None:
        raise failed(f"request beyond head block: requested {newest}, head {asked.head}")
    wanted = min(int(str(count), 0), last + 1, 1024)
    oldest = last - wanted + 1
    view: dict[str, Any] = {
        "oldestBlock": hex(oldest),
        "baseFeePerGas": [hex(1_000_000_000 + height % 1000) for height in range(oldest, last + 2)],
        "gasUsedRatio": [round(asked.block_at(h).gas_used / 30_000_000, 6) for h in range(oldest, last + 1)],
    }
    if percentiles:
        view["reward"] = [[hex(10**9)] * len(percentiles) for _ in range(wanted)]
    return text(view)


@serve("sendRawTransaction", string)
def send_raw_transaction(asked: MethodCall, encoded: str) -> bytes:
    return text(hex0(send(asked, encoded, GETH_TEXTS).eth_hash))


@ETHEREUM.add("txpool_status", spaces={"": "geth"})
def pool_status(asked: MethodCall) -> bytes:
    return text({"pending": hex(len(lookup.pending(asked))), "queued": "0x0"})


serve("getLogs", call_object)(filter_methods.get_logs)
serve("newFilter", call_object)(filter_methods.new_filter)
serve("newBlockFilter")(filter_methods.new_block_filter)
serve("newPendingTransactionFilter")(filter_methods.new_pending_filter)
serve("getFilterChanges", string)(filter_methods.get_filter_changes)
serve("getFilterLogs", string)(filter_methods.get_filter_logs)
serve("uninstallFilter", string)(filter_methods.uninstall_filter)
