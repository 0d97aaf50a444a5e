"""Writes blocks, transactions, receipts and logs as JSON in four dialects: v1, v2, eth (Harmony's) and geth.

Shapes, key order and sizes are those of a real Harmony node's answers (docs/harmony.md section 9).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.blocks import GAS_PRICE, Generator, Tx
from rpcaccel.simnode.chain.sim_chain import Block, Branch
from rpcaccel.simnode.methods.registry import text

ZERO_HASH = "0x" + "00" * 32
ZERO_ADDRESS = "0x" + "00" * 20
NO_BLOOM = "0x" + "00" * 256
EMPTY_ROOT = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
NO_UNCLES = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
GAS_LIMIT = 80_000_000


class Shown(Struct, frozen=True):
    """The parts of a block that a caller wants to see."""

    full: bool = False
    signers: bool = False
    staking: bool = False


def hex0(data: bytes) -> str:
    """Bytes as 0x text."""
    return "0x" + data.hex()


def _number(version: str, value: int) -> int | str:
    return value if version == "v2" else hex(value)


def _who(version: str, address: bytes | None) -> str | None:
    if address is None:
        return None
    return to_one(address) if version in ("v1", "v2") else to_hex(address)


def block_text(branch: Branch, block: Block, version: str, shown: Shown) -> bytes:
    """The text of a block, which its branch remembers."""
    key = (block.number, block.fork, len(block.txs), version, shown)
    return branch.remember(key, lambda: text(block_object(branch, block, version, shown)))


def block_object(branch: Branch, block: Block, version: str, shown: Shown) -> dict[str, Any]:
    """One block in a dialect's own key order."""
    make, eth = branch.generator, version in ("eth", "geth")
    view: dict[str, Any] = {"number": _number(version, block.number)}
    if not eth:
        view["viewID"] = view["number"]
        view["epoch"] = _number(version, block.epoch)
    view |= {
        "hash": hex0(block.hash),
        "parentHash": hex0(block.parent),
        "nonce": "0x0000000000000000" if eth else 0,
        "mixHash": ZERO_HASH,
    }
    if eth:
        view["sha3Uncles"] = NO_UNCLES
    view |= {
        "logsBloom": bloom(make, block),
        "stateRoot": hex0(make.digest(b"state", block.fork, block.number)),
        "miner": _who(version, make.leader(block.number).address),
        "difficulty": "0x0" if eth else 0,
        "extraData": "0x",
        "size": _number(version, 800 + 259 * len(block.txs)),
        "gasLimit": _number(version, GAS_LIMIT - block.number % 100_003),
        "gasUsed": _number(version, block.gas_used),
        "vrf": hex0(make.digest(b"vrf", block.fork, block.number)),
        "vrfProof": hex0(vrf_proof(make, block)),
        "timestamp": _number(version, block.timestamp),
        "transactionsRoot": root(make, b"transactions", block),
        "receiptsRoot": root(make, b"receipts", block),
        "uncles": [],
    }
    view["transactions"] = _transactions(branch, block, version, shown)
    if not eth:
        if not shown.full:
            view["transactionsInEthHash"] = [hex0(tx.eth_hash) for tx in block.txs]
        view["stakingTransactions"] = _staking(block, version, shown)
    if shown.signers:
        view["signers"] = [to_one(slot.address) for slot in signers(branch, block.number)]
    if version == "geth":
        del view["vrf"], view["vrfProof"]
        view |= {
            "baseFeePerGas": hex(1_000_000_000 + block.number % 1000),
            "gasLimit": "0x1c9c380",
            "mixHash": hex0(make.digest(b"randao", block.fork, block.number)),
            "withdrawals": [],
            "withdrawalsRoot": EMPTY_ROOT,
        }
    return view


def _transactions(branch: Branch, block: Block, version: str, shown: Shown) -> list[Any]:
    if shown.full:
        return [transaction(branch, tx, block, version) for tx in block.txs]
    return [hex0(tx.eth_hash if version in ("eth", "geth") else tx.hash) for tx in block.txs]


def _staking(block: Block, version: str, shown: Shown) -> list[Any]:
    if not shown.staking:
        return []
    if shown.full:
        return [staking_transaction(tx, block, version) for tx in block.staking]
    return [hex0(tx.hash) for tx in block.staking]


def root(make: Generator, of: bytes, block: Block) -> str:
    """The root of a block's transactions or receipts."""
    if not block.txs and not block.staking:
        return EMPTY_ROOT
    return hex0(make.digest(of, block.fork, block.number, len(block.txs)))


def bloom(make: Generator, block: Block) -> str:
    """The logs bloom of a block; all zeros without logs."""
    if not any(tx.log_data for tx in block.txs):
        return NO_BLOOM
    bits = int.from_bytes(make.digest(b"bloom", block.number, size=6), "big")
    return "0x" + hex(1 << bits % 2048 | 1 << bits // 2048 % 2048)[2:].rjust(512, "0")


def vrf_proof(make: Generator, block: Block) -> bytes:
    """The VRF proof of a block, 96 bytes."""
    return make.digest(b"vrf proof", block.fork, block.number, size=64) + make.digest(b"vrf end", block.number)


def signers(branch: Branch, number: int) -> list[Any]:
    """The slots that signed block `number`, as the bitmap in block number + 1 says."""
    make = branch.generator
    bits = make.commit_bits(branch.fork_of(number), number)
    return [slot for i, slot in enumerate(make.committee(branch.spec.epoch_of(number))) if bits >> i & 1]


def bitmap(branch: Branch, number: int) -> str:
    """The last-commit bitmap that block `number` carries, for the block before it: little-endian bytes."""
    if number == 0:
        return ""
    size = (branch.spec.committee + 7) // 8
    return branch.generator.commit_bits(branch.fork_of(number - 1), number - 1).to_bytes(size, "little").hex()


def transaction(branch: Branch, tx: Tx, block: Block | None, version: str) -> dict[str, Any]:
    """A transaction in block order of keys; `block` is None while it is pending."""
    eth = version in ("eth", "geth")
    waiting = None if eth else ZERO_HASH
    view: dict[str, Any] = {
        "blockHash": hex0(block.hash) if block else waiting,
        "blockNumber": _number(version, block.number) if block else None,
        "from": _who(version, tx.sender),
        "timestamp": _number(version, block.timestamp if block else 0),
        "gas": _number(version, tx.gas),
        "gasPrice": _number(version, tx.gas_price),
        "hash": hex0(tx.eth_hash if eth else tx.hash),
    }
    if not eth:
        view["ethHash"] = hex0(tx.eth_hash)
    pending_index = None if eth else _number(version, 0)
    view |= {
        "input": hex0(tx.data),
        "nonce": _number(version, tx.nonce),
        "to": _who(version, tx.to),
        "transactionIndex": _number(version, tx.index) if block else pending_index,
        "value": _number(version, tx.value),
    }
    if not eth:
        view |= {"shardID": branch.spec.shard, "toShardID": tx.to_shard}
    view |= {"v": hex(tx.v), "r": hex(tx.r), "s": hex(tx.s)}
    if version == "geth":
        del view["timestamp"]
        view |= {"chainId": hex(branch.spec.signer_chain_id), "type": hex(tx.type)}
        if tx.type == 2:
            fees = {"maxFeePerGas": hex(tx.gas_price), "maxPriorityFeePerGas": hex(tx.priority_fee)}
            view |= {**fees, "accessList": []}
    return view


def staking_transaction(tx: Tx, block: Block, version: str) -> dict[str, Any]:
    """A staking transaction as v1 and v2 show it."""
    return {
        "blockHash": hex0(block.hash),
        "blockNumber": _number(version, block.number),
        "from": to_one(tx.sender),
        "gas": _number(version, tx.gas),
        "gasPrice": _number(version, tx.gas_price),
        "hash": hex0(tx.hash),
        "msg": {
            "amount": _number(version, tx.amount),
            "delegatorAddress": to_one(tx.sender),
            "validatorAddress": to_one(tx.validator),
        },
        "nonce": _number(version, tx.nonce),
        "r": hex(tx.r),
        "s": hex(tx.s),
        "timestamp": _number(version, block.timestamp),
        "transactionIndex": _number(version, tx.index),
        "type": tx.staking,
        "v": hex(tx.v),
    }


_HARMONY_HEADER = (
    *("parentHash", "sha3Uncles", "nonce", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom"),
    *("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "hash"),
)
_GETH_HEADER = (
    *("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty"),
    *("number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce", "baseFeePerGas"),
    *("withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash"),
    *("blockAccessListHash", "slotNumber", "hash"),
)


def pushed_header(branch: Branch, block: Block, version: str) -> dict[str, Any]:
    """A newHeads notification. geth has null for members of forks that are not active. Harmony's differs from the
    block: no uncles hash, and the miner is the address of the leader's BLS key."""
    if version == "geth":
        view = block_object(branch, block, "geth", Shown())
        return {name: view.get(name) for name in _GETH_HEADER}
    view = block_object(branch, block, "eth", Shown())
    view |= {"sha3Uncles": ZERO_HASH, "miner": key_address(branch, block)}
    own = {"viewID": block.number, "epoch": block.epoch, "shardID": branch.spec.shard}
    return {name: view[name] for name in _HARMONY_HEADER} | own


def key_address(branch: Branch, block: Block) -> str:
    """The address of the BLS key with which the leader proposed a block of Harmony."""
    leader = branch.generator.leader(block.number)
    return to_hex(branch.generator.digest(b"key address", leader.key, size=20))


def log(branch: Branch, tx: Tx, block: Block, version: str) -> dict[str, Any] | None:
    """The one log a transaction left, if it left one; logs are 0x hex in every dialect."""
    if tx.log_data is None:
        return None
    before = sum(1 for other in block.txs[: tx.index] if other.log_data is not None)
    return {
        "address": to_hex(branch.generator.contract),
        "topics": [TRANSFER, hex0(tx.sender.rjust(32, b"\0")), hex0(branch.generator.accounts[0].rjust(32, b"\0"))],
        "data": hex0(tx.log_data),
        "blockNumber": hex(block.number),
        "transactionHash": hex0(tx.hash if version in ("v1", "v2") else tx.eth_hash),
        "transactionIndex": hex(tx.index),
        "blockHash": hex0(block.hash),
        **({"blockTimestamp": hex(block.timestamp)} if version == "geth" else {}),
        "logIndex": hex(before),
        "removed": False,
    }


def receipt(branch: Branch, tx: Tx, block: Block, version: str) -> dict[str, Any]:
    """The receipt of a mined transaction."""
    eth = version in ("eth", "geth")
    used = sum(other.gas_used for other in block.txs[: tx.index + 1]) if not tx.staking else tx.gas_used
    left = log(branch, tx, block, version)
    none_created = None if eth else ZERO_ADDRESS
    view: dict[str, Any] = {
        "blockHash": hex0(block.hash),
        "blockNumber": _number(version, block.number),
        "contractAddress": to_hex(tx.created) if tx.created else none_created,
        "cumulativeGasUsed": _number(version, used),
        "effectiveGasPrice": _number(version, tx.gas_price or GAS_PRICE),
        "from": _who(version, tx.sender),
        "gasUsed": _number(version, tx.gas_used),
        "logs": [left] if left else [],
        "logsBloom": bloom(branch.generator, block) if left else NO_BLOOM,
    }
    if not eth:
        view |= {"root": "0x", "shardID": branch.spec.shard}
    view |= {
        "status": _number(version, 1),
        "to": _who(version, tx.to),
        "transactionHash": hex0(tx.eth_hash if eth else tx.hash),
        "transactionIndex": _number(version, tx.index),
    }
    if version == "geth":
        view["type"] = hex(tx.type)
    return view
