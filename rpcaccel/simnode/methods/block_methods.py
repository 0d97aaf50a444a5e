"""The block and header methods, with their answers above the head (docs/harmony.md sections 6, 7 and 11)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rpcaccel.simnode.chain.addresses import parse, to_one
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import json_views
from rpcaccel.simnode.methods.block_args import (
    FINALIZED,
    LATEST,
    PENDING,
    SAFE,
    BlockHash,
    Reference,
    block_hash,
    geth_number,
    number,
)
from rpcaccel.simnode.methods.json_views import Shown, hex0
from rpcaccel.simnode.methods.registry import (
    CHAIN,
    HARMONY,
    MethodCall,
    RpcError,
    anything,
    beacon_only,
    failed,
    geth,
    not_v2_or_v1,
    string,
    text,
    uint,
)

CRASHED = "method handler crashed"
BLOCKS_LIMIT = 1024


def known(asked: MethodCall, reference: int) -> int | None:
    """The height a reference names, None above the head (a pending or negative one counts as above on Harmony)."""
    if asked.version == "geth" and reference < 0:
        depth = asked.branch.spec.finality_depth
        return max(0, asked.head - {SAFE: depth // 2, FINALIZED: depth}.get(reference, 0))
    if reference == LATEST:
        return asked.head
    return reference if 0 <= reference <= asked.head else None


def at_height(asked: MethodCall, reference: int) -> Block:
    """The block that a reference names. Raises RpcError above the head."""
    height = known(asked, reference)
    if height is None:
        raise failed("requested block number greater than current block number")
    return asked.block_at(height)


def height_of(asked: MethodCall, reference: Reference) -> int | None:
    """The height a BlockNumberOrHash names, None above the head. Raises RpcError as the node does."""
    if reference is None:
        raise failed("invalid arguments; neither block nor hash specified")
    if isinstance(reference, BlockHash):
        block = asked.branch.by_hash(reference.hash, asked.head)
        if block is None:
            raise failed("header for hash not found" if asked.version == "geth" else "Header is not found")
        return block.number
    if reference == PENDING and asked.version != "geth":
        raise failed("not implemented")
    return known(asked, reference)


def options(asked: MethodCall, value: Any) -> Shown:
    """The second argument of the block methods: a bool for hmy and eth, an object for hmyv2."""
    if asked.version == "geth" and not isinstance(value, bool):
        raise RpcError(-32602, "invalid argument 1: json: cannot unmarshal non-boolean into Go value of type bool")
    if isinstance(value, bool):
        if asked.version == "v2":
            raise failed("json: cannot unmarshal bool into Go value of type common.BlockArgs")
        return Shown(full=value, staking=True)
    if isinstance(value, dict):
        return Shown(*(bool(value.get(name)) for name in ("fullTx", "withSigners", "inclStaking")))
    if value is None and asked.version == "v2":
        return Shown()
    raise failed("invalid type for block arguments")


def show(asked: MethodCall, block: Block, shown: Shown) -> bytes:
    """The block's text; signers need the block after it."""
    if shown.signers and block.number == 0:
        raise failed("mismatching bitmap lengths expectedBitmapLength 1 providedBitmapLength 0")
    if shown.signers and block.number >= asked.head:
        raise failed(f"getSignerData: block number {block.number + 1} not found")
    return json_views.block_text(asked.branch, block, asked.version, shown)


@HARMONY.add("blockNumber", spaces=CHAIN)
@geth("blockNumber")
def block_number(asked: MethodCall) -> bytes:
    return text(asked.number(asked.head))


@HARMONY.add("getBlockByNumber", number, anything, spaces=CHAIN, limiter="chain")
@geth("getBlockByNumber", geth_number, anything)
def get_block_by_number(asked: MethodCall, reference: int, wanted: Any) -> bytes:
    shown = options(asked, wanted)
    return _block(asked, reference, shown)


@HARMONY.add("getBlockByNumberNew", number, anything, spaces=CHAIN, limiter="chain")
def get_block_by_number_new(asked: MethodCall, reference: int, wanted: Any) -> bytes:
    if not isinstance(wanted, dict):
        raise failed(CRASHED)
    return _block(asked, reference, options(asked, wanted))


def _block(asked: MethodCall, reference: int, shown: Shown) -> bytes:
    if reference == PENDING and asked.version == "geth":
        view = json_views.block_object(asked.branch, asked.block_at(asked.head + 1), "geth", Shown())
        return text(view | {"hash": None, "nonce": None, "miner": None})
    if reference == PENDING:
        raise failed("pending block number not implemented")
    if asked.is_eth and known(asked, reference) is None:
        return b"null"
    return show(asked, at_height(asked, reference), shown)


@HARMONY.add("getBlockByHash", block_hash, anything, spaces=CHAIN, limiter="chain")
@geth("getBlockByHash", block_hash, anything)
def get_block_by_hash(asked: MethodCall, sealed: bytes, wanted: Any) -> bytes:
    shown = options(asked, wanted)
    block = asked.branch.by_hash(sealed, asked.head)
    return b"null" if block is None else show(asked, block, shown)


@HARMONY.add("getBlockByHashNew", block_hash, anything, spaces=CHAIN, limiter="chain")
def get_block_by_hash_new(asked: MethodCall, sealed: bytes, wanted: Any) -> bytes:
    if not isinstance(wanted, dict):
        raise failed(CRASHED)
    return get_block_by_hash(asked, sealed, wanted)


@HARMONY.add("getBlocks", number, number, anything, spaces=CHAIN, limiter="chain", optional=1)
def get_blocks(asked: MethodCall, start: int, end: int, wanted: Any = None) -> bytes:
    end = asked.head if end == LATEST else end
    if end >= start and end - start > BLOCKS_LIMIT:
        raise failed(f"GetBlocks query must be smaller than size {BLOCKS_LIMIT}")
    # A start of -1 is the tag latest: a real node answers the head first, and then blocks 0, 1, 2 and so on.
    pieces = [height for height in range(start, end + 1) if height <= asked.head]
    if pieces and wanted is None:
        raise failed(CRASHED)
    shown = options(asked, wanted if wanted is not None else {})
    return b"[" + b",".join(_block(asked, height, shown) for height in pieces) + b"]"


@HARMONY.add("getBlockSigners", number, spaces=CHAIN)
def get_block_signers(asked: MethodCall, reference: int) -> bytes:
    return _signers(asked, reference, keys=False)


@HARMONY.add("getBlockSignerKeys", number, spaces=CHAIN)
def get_block_signer_keys(asked: MethodCall, reference: int) -> bytes:
    return _signers(asked, reference, keys=True)


def _signers(asked: MethodCall, reference: int, *, keys: bool) -> bytes:
    if reference == PENDING:
        raise failed("cannot get signer keys for pending blocks")
    if reference == 0 or reference >= asked.head:
        return b"[]"
    if reference < 0:
        raise failed(f"getSignerData: block number {asked.head + 1} not found")
    slots = json_views.signers(asked.branch, reference)
    return text([slot.key.hex() if keys else to_one(slot.address) for slot in slots])


@HARMONY.add("isBlockSigner", number, string, spaces=CHAIN)
def is_block_signer(asked: MethodCall, reference: int, who: str) -> bytes:
    if reference == 0:
        return b"false"
    height = at_height(asked, reference).number
    if height == asked.head:
        raise failed(f"getSignerData: block number {height + 1} not found")
    address = account(who)
    return text(any(slot.address == address for slot in json_views.signers(asked.branch, height)))


def account(who: str | bytes) -> bytes:
    """An address argument, refused in the node's words; the reader of geth's has read it already."""
    if isinstance(who, bytes):
        return who
    try:
        return parse(who)
    except ValueError:
        raise failed(f"invalid address: {who}") from None


@HARMONY.add("getLeader", spaces=CHAIN)
def get_leader(asked: MethodCall) -> bytes:
    return text(to_one(asked.branch.generator.leader(asked.head).address))


@HARMONY.add("getEpoch", spaces=CHAIN)
def get_epoch(asked: MethodCall) -> bytes:
    return text(asked.number(asked.branch.spec.epoch_of(asked.head)))


@HARMONY.add("isLastBlock", uint, spaces=CHAIN, beacon=True)
def is_last_block(asked: MethodCall, height: int) -> bytes:
    spec = asked.branch.spec
    return text(spec.epoch_last_block(spec.epoch_of(height)) == height)


@HARMONY.add("epochLastBlock", uint, spaces=CHAIN, beacon=True)
def epoch_last_block(asked: MethodCall, epoch: int) -> bytes:
    return text(asked.branch.spec.epoch_last_block(epoch))


def header(asked: MethodCall, block: Block) -> dict[str, Any]:
    """HeaderInformation: the same in every namespace."""
    make, branch = asked.branch.generator, asked.branch
    return {
        "blockHash": hex0(block.hash),
        "blockNumber": block.number,
        "crossLinks": [cross_link(asked, block.number - 3)] if block.number % 4 == 3 and _beacon(asked) else [],
        "epoch": block.epoch,
        "lastCommitBitmap": json_views.bitmap(branch, block.number),
        "lastCommitSig": (make.digest(b"commit", block.fork, block.number, size=64) + make.digest(b"sig")).hex(),
        "leader": to_one(make.leader(block.number).address),
        "shardID": branch.spec.shard,
        "timestamp": datetime.fromtimestamp(block.timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
        "unixtime": block.timestamp,
        "viewID": block.number,
        "vrf": make.digest(b"vrf", block.fork, block.number).hex(),
        "vrfProof": json_views.vrf_proof(make, block).hex(),
    }


def _beacon(asked: MethodCall) -> bool:
    return beacon_only(asked.branch.spec)


def cross_link(asked: MethodCall, height: int) -> dict[str, Any]:
    """A block of shard 1 as the beacon chain records it."""
    make = asked.branch.generator
    return {
        "block-number": height,
        "epoch-number": asked.branch.spec.epoch_of(max(0, height)),
        "hash": hex0(make.digest(b"shard 1", height)),
        "shard-id": 1,
        "signature": (make.digest(b"link", height, size=64) + make.digest(b"end", height)).hex(),
        "signature-bitmap": "3f",
        "view-id": height,
    }


@HARMONY.add("latestHeader", spaces=CHAIN, limiter="chain")
def latest_header(asked: MethodCall) -> bytes:
    return text(header(asked, asked.block_at(asked.head)))


@HARMONY.add("getHeaderByNumber", number, spaces=CHAIN, limiter="chain")
def get_header_by_number(asked: MethodCall, reference: int) -> bytes:
    if asked.is_eth and known(asked, reference) is None:
        return b"null"
    return text(header(asked, at_height(asked, reference)))


@HARMONY.add("getHeaderByNumberRLPHex", number, spaces=CHAIN, limiter="chain")
def get_header_rlp(asked: MethodCall, reference: int) -> bytes:
    block = at_height(asked, reference)
    return text("f90399" + block.parent.hex() + block.hash.hex() + f"{block.number:016x}" + bytes(800).hex())


@HARMONY.add("getFullHeader", number, spaces=CHAIN)
def get_full_header(asked: MethodCall, reference: int) -> bytes:
    not_v2_or_v1(asked)
    return text(_full_header(asked, at_height(asked, reference)))


def _full_header(asked: MethodCall, block: Block) -> dict[str, Any]:
    make, branch = asked.branch.generator, asked.branch
    return {
        "crossLink": "0x",
        "epoch": asked.number(block.epoch),
        "extraData": "0x",
        "gasLimit": asked.number(json_views.GAS_LIMIT - block.number % 100_003),
        "gasUsed": asked.number(block.gas_used),
        "incomingReceiptsRoot": json_views.EMPTY_ROOT,
        "lastCommitBitmap": "0x" + json_views.bitmap(branch, block.number),
        "lastCommitSignature": hex0(make.digest(b"commit", block.fork, block.number, size=64) + make.digest(b"sig")),
        "logsBloom": json_views.bloom(make, block),
        "miner": json_views.key_address(branch, block),
        "mixHash": json_views.ZERO_HASH,
        "number": asked.number(block.number),
        "outgoingReceiptsRoot": json_views.EMPTY_ROOT,
        "parentHash": hex0(block.parent),
        "receiptsRoot": json_views.root(make, b"receipts", block),
        "shardID": branch.spec.shard,
        "shardState": "0x",
        "slashes": "0x",
        "stateRoot": hex0(make.digest(b"state", block.fork, block.number)),
        "timestamp": asked.number(block.timestamp),
        "transactionsRoot": json_views.root(make, b"transactions", block),
        "vdf": "0x",
        "viewID": asked.number(block.number),
        "vrf": hex0(make.digest(b"vrf", block.fork, block.number) + json_views.vrf_proof(make, block)),
    }


@HARMONY.add("getLatestChainHeaders", spaces=CHAIN)
def get_latest_chain_headers(asked: MethodCall) -> bytes:
    block = asked.block_at(asked.head)
    view = json_views.block_object(asked.branch, block, "eth", Shown())
    for gone in ("size", "vrf", "vrfProof", "uncles", "transactions"):
        del view[gone]
    view |= {"epoch": block.epoch, "shardID": asked.branch.spec.shard, "viewID": block.number}
    view = dict(sorted(view.items()))
    return text({"beacon-chain-header": view, "shard-chain-header": view})


@HARMONY.add("getLastCrossLinks", spaces=CHAIN, limiter="chain", beacon=True)
def get_last_cross_links(asked: MethodCall) -> bytes:
    return text([cross_link(asked, max(0, asked.head - 5))])
