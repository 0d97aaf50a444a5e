"""The block and header methods, with their answers above the head (docs/harmony.md sections 6, 7 and 11)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rpcaccel.simnode.chain.addresses import parse, to_hex, to_one
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods import json_views as views
from rpcaccel.simnode.methods.arguments import FINALIZED, LATEST, PENDING, SAFE, BlockHash, Reference
from rpcaccel.simnode.methods.json_views import Shown, View
from rpcaccel.simnode.methods.registry import CRASHED, MethodCall, RpcError, both, chain, geth, not_v2_or_v1

BLOCKS_LIMIT = 1024


def known(call: MethodCall, reference: int) -> int | None:
    """The height a reference names, None above the head (a pending or negative one counts as above on Harmony)."""
    if call.geth and reference < 0:
        depth = call.spec.finality_depth
        return max(0, call.head - {SAFE: depth // 2, FINALIZED: depth}.get(reference, 0))
    if reference == LATEST:
        return call.head
    return reference if 0 <= reference <= call.head else None


def at_height(call: MethodCall, reference: int) -> Block:
    """The block that a reference names. Raises RpcError above the head."""
    height = known(call, reference)
    if height is None:
        raise RpcError("requested block number greater than current block number")
    return call.block_at(height)


def height_of(call: MethodCall, reference: Reference) -> int | None:
    """The height a BlockNumberOrHash names, None above the head. Raises RpcError as the node does."""
    if reference is None:
        raise RpcError("invalid arguments; neither block nor hash specified")
    if isinstance(reference, BlockHash):
        block = call.branch.by_hash(reference.hash, call.head)
        if block is None:
            raise RpcError("header for hash not found" if call.geth else "Header is not found")
        return block.number
    if reference == PENDING and not call.geth:
        raise RpcError("not implemented")
    return known(call, reference)


def account(who: str | bytes) -> bytes:
    """An address argument, refused in the node's words; the reader of geth's has read it already."""
    if isinstance(who, bytes):
        return who
    try:
        return parse(who)
    except ValueError:
        raise RpcError(f"invalid address: {who}") from None


def _options(call: MethodCall, value: Any) -> Shown:
    """The second argument of the block methods: a bool for hmy and eth, an object for hmyv2."""
    if call.geth and not isinstance(value, bool):
        raise RpcError("invalid argument 1: json: cannot unmarshal non-boolean into Go value of type bool", -32602)
    if isinstance(value, bool):
        if call.version == "v2":
            raise RpcError("json: cannot unmarshal bool into Go value of type common.BlockArgs")
        return Shown(full=value, staking=True)
    if isinstance(value, dict) or (value is None and call.version == "v2"):
        return Shown(*(bool((value or {}).get(name)) for name in ("fullTx", "withSigners", "inclStaking")))
    raise RpcError("invalid type for block arguments")


def _show(call: MethodCall, block: Block, shown: Shown) -> bytes:
    """The block's text; signers need the block after it."""
    if shown.signers and block.number == 0:
        raise RpcError("mismatching bitmap lengths expectedBitmapLength 1 providedBitmapLength 0")
    if shown.signers and block.number >= call.head:
        raise RpcError(f"getSignerData: block number {block.number + 1} not found")
    return views.block_text(call.branch, block, call.version, shown)


@both("getBlockByNumber", args.number, args.anything, limiter="chain")
def get_block_by_number(call: MethodCall, reference: int, wanted: Any) -> Any:
    return _block(call, reference, _options(call, wanted))


def _block(call: MethodCall, reference: int, shown: Shown) -> Any:
    if reference == PENDING:
        if not call.geth:
            raise RpcError("pending block number not implemented")
        view = views.block_object(call.branch, call.block_at(call.head + 1), "geth", Shown())
        return view | {"hash": None, "nonce": None, "miner": None}
    if call.is_eth and known(call, reference) is None:
        return b"null"
    return _show(call, at_height(call, reference), shown)


@both("getBlockByHash", args.block_hash, args.anything, limiter="chain")
def get_block_by_hash(call: MethodCall, sealed: bytes, wanted: Any) -> bytes | None:
    shown = _options(call, wanted)
    block = call.branch.by_hash(sealed, call.head)
    return None if block is None else _show(call, block, shown)


def _required(wanted: Any) -> Any:
    """The options of a ...New method, whose handler crashes without an object of them."""
    if not isinstance(wanted, dict):
        raise RpcError(CRASHED)
    return wanted


chain("getBlockByNumberNew", args.number, args.anything, limiter="chain")(
    lambda call, number, wanted: get_block_by_number(call, number, _required(wanted))
)
chain("getBlockByHashNew", args.block_hash, args.anything, limiter="chain")(
    lambda call, sealed, wanted: get_block_by_hash(call, sealed, _required(wanted))
)


@chain("getBlocks", args.number, args.number, args.anything, limiter="chain", optional=1)
def get_blocks(call: MethodCall, start: int, end: int, wanted: Any = None) -> bytes:
    end = call.head if end == LATEST else end
    if end >= start and end - start > BLOCKS_LIMIT:
        raise RpcError(f"GetBlocks query must be smaller than size {BLOCKS_LIMIT}")
    # A start of -1 is the tag latest: a real node answers the head first, and then blocks 0, 1, 2 and so on.
    heights = range(start, min(end, call.head) + 1)
    if heights and wanted is None:
        raise RpcError(CRASHED)
    shown = _options(call, wanted if wanted is not None else {})
    return b"[" + b",".join(_block(call, height, shown) for height in heights) + b"]"


def _signed(call: MethodCall, reference: int, show: Callable[..., Any]) -> list[Any]:
    """The slots that signed a block, each as `show` gives it."""
    if reference == PENDING:
        raise RpcError("cannot get signer keys for pending blocks")
    if reference == 0 or reference >= call.head:
        return []
    if reference < 0:
        raise RpcError(f"getSignerData: block number {call.head + 1} not found")
    return [show(slot) for slot in views.signers(call.branch, reference)]


@chain("isBlockSigner", args.number, args.string)
def is_block_signer(call: MethodCall, reference: int, who: str) -> bool:
    if reference == 0:
        return False
    height = at_height(call, reference).number
    if height == call.head:
        raise RpcError(f"getSignerData: block number {height + 1} not found")
    address = account(who)
    return any(slot.address == address for slot in views.signers(call.branch, height))


def _commit_signature(call: MethodCall, block: Block) -> bytes:
    return call.make.digest(b"commit", block.fork, block.number, size=64) + call.make.digest(b"sig")


def _header(call: MethodCall, block: Block) -> View:
    """HeaderInformation: the same in every namespace."""
    linked = block.number % 4 == 3 and call.spec.shard == 0
    return {
        "blockHash": to_hex(block.hash),
        "blockNumber": block.number,
        "crossLinks": [_cross_link(call, block.number - 3)] if linked else [],
        "epoch": block.epoch,
        "lastCommitBitmap": views.bitmap(call.branch, block.number),
        "lastCommitSig": _commit_signature(call, block).hex(),
        "leader": to_one(call.make.leader(block.number).address),
        "shardID": call.spec.shard,
        "timestamp": datetime.fromtimestamp(block.timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
        "unixtime": block.timestamp,
        "viewID": block.number,
        "vrf": call.make.digest(b"vrf", block.fork, block.number).hex(),
        "vrfProof": views.vrf_proof(call.make, block).hex(),
    }


def _cross_link(call: MethodCall, height: int) -> View:
    """A block of shard 1 as the beacon chain records it."""
    return {
        "block-number": height,
        "epoch-number": call.spec.epoch_of(max(0, height)),
        "hash": to_hex(call.make.digest(b"shard 1", height)),
        "shard-id": 1,
        "signature": (call.make.digest(b"link", height, size=64) + call.make.digest(b"end", height)).hex(),
        "signature-bitmap": "3f",
        "view-id": height,
    }


@chain("getHeaderByNumber", args.number, limiter="chain")
def get_header_by_number(call: MethodCall, reference: int) -> View | None:
    if call.is_eth and known(call, reference) is None:
        return None
    return _header(call, at_height(call, reference))


@chain("getHeaderByNumberRLPHex", args.number, limiter="chain")
def get_header_rlp(call: MethodCall, reference: int) -> str:
    block = at_height(call, reference)
    return "f90399" + block.parent.hex() + block.hash.hex() + f"{block.number:016x}" + bytes(800).hex()


_FULL_HEADER = (
    "epoch extraData gasLimit gasUsed logsBloom mixHash number parentHash receiptsRoot stateRoot timestamp "
    "transactionsRoot viewID"
)
"""The members that a full header has as the block has them."""


@chain("getFullHeader", args.number)
def get_full_header(call: MethodCall, reference: int) -> View:
    not_v2_or_v1(call)
    block = at_height(call, reference)
    view = views.block_object(call.branch, block, call.version, Shown())
    proof = views.vrf_proof(call.make, block)
    members = {name: view[name] for name in _FULL_HEADER.split()} | {
        **dict.fromkeys(("crossLink", "shardState", "slashes", "vdf"), "0x"),
        **dict.fromkeys(("incomingReceiptsRoot", "outgoingReceiptsRoot"), views.EMPTY_ROOT),
        "lastCommitBitmap": "0x" + views.bitmap(call.branch, block.number),
        "lastCommitSignature": to_hex(_commit_signature(call, block)),
        "miner": views.key_address(call.branch, block),
        "shardID": call.spec.shard,
        "vrf": to_hex(call.make.digest(b"vrf", block.fork, block.number) + proof),
    }
    return dict(sorted(members.items()))


@chain("getLatestChainHeaders")
def get_latest_chain_headers(call: MethodCall) -> View:
    block = call.block_at(call.head)
    view = views.block_object(call.branch, block, "eth", Shown())
    for gone in ("size", "vrf", "vrfProof", "uncles", "transactions"):
        del view[gone]
    view |= {"epoch": block.epoch, "shardID": call.spec.shard, "viewID": block.number}
    view = dict(sorted(view.items()))
    return {"beacon-chain-header": view, "shard-chain-header": view}


@geth("feeHistory", args.anything, args.number, args.anything, optional=1)
def fee_history(call: MethodCall, count: Any, newest: int, percentiles: Any = None) -> View:
    last = known(call, newest)
    if last is None:
        raise RpcError(f"request beyond head block: requested {newest}, head {call.head}")
    wanted = min(int(str(count), 0), last + 1, 1024)
    heights = range(last - wanted + 1, last + 1)
    view: View = {
        "oldestBlock": hex(last - wanted + 1),
        "baseFeePerGas": [hex(1_000_000_000 + height % 1000) for height in (*heights, last + 1)],
        "gasUsedRatio": [round(call.block_at(height).gas_used / 30_000_000, 6) for height in heights],
    }
    return view | ({"reward": [[hex(10**9)] * len(percentiles) for _ in heights]} if percentiles else {})


both("blockNumber")(lambda call: call.number(call.head))
geth("getUncleCountByBlockNumber", args.number)(lambda call, height: None if known(call, height) is None else "0x0")
chain("latestHeader", limiter="chain")(lambda call: _header(call, call.block_at(call.head)))
chain("getLeader")(lambda call: to_one(call.make.leader(call.head).address))
chain("getEpoch")(lambda call: call.number(call.spec.epoch_of(call.head)))
chain("isLastBlock", args.uint, beacon=True)(lambda call, at: call.spec.epoch_last_block(call.spec.epoch_of(at)) == at)
chain("epochLastBlock", args.uint, beacon=True)(lambda call, epoch: call.spec.epoch_last_block(epoch))
chain("getBlockSigners", args.number)(lambda call, at: _signed(call, at, lambda slot: to_one(slot.address)))
chain("getBlockSignerKeys", args.number)(lambda call, at: _signed(call, at, lambda slot: slot.key.hex()))
chain("getLastCrossLinks", limiter="chain", beacon=True)(lambda call: [_cross_link(call, max(0, call.head - 5))])
