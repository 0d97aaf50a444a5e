"""Shows blocks, transactions, receipts and logs in four dialects: v1, v2, eth (Harmony's) and geth.

The facts of a block or transaction are gathered once; a form names the members that a dialect shows, in its order.
Shapes, order and sizes are those of a real Harmony node's answers (docs/harmony.md section 9).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from rpcaccel.core.hashing.bloom import bloom_of
from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.blocks import GAS_PRICE, CommitteeSlot, Generator, Tx
from rpcaccel.simnode.chain.sim_chain import Block, Branch
from rpcaccel.simnode.methods.registry import text

View = dict[str, Any]

ZERO_HASH = "0x" + "00" * 32
ZERO_ADDRESS = "0x" + "00" * 20
EMPTY_ROOT = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
NO_UNCLES = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
GAS_LIMIT = 80_000_000

_WRITTEN_FORMS = {
    ("block", "harmony"): "number viewID epoch hash parentHash nonce mixHash logsBloom stateRoot miner difficulty "
    "extraData size gasLimit gasUsed vrf vrfProof timestamp transactionsRoot receiptsRoot uncles transactions "
    "transactionsInEthHash stakingTransactions signers",
    ("block", "eth"): "number hash parentHash nonce mixHash sha3Uncles logsBloom stateRoot miner difficulty extraData "
    "size gasLimit gasUsed vrf vrfProof timestamp transactionsRoot receiptsRoot uncles transactions signers",
    ("block", "geth"): "number hash parentHash nonce mixHash sha3Uncles logsBloom stateRoot miner difficulty extraData "
    "size gasLimit gasUsed timestamp transactionsRoot receiptsRoot uncles transactions baseFeePerGas withdrawals "
    "withdrawalsRoot",
    ("transaction", "harmony"): "blockHash blockNumber from timestamp gas gasPrice hash ethHash input nonce to "
    "transactionIndex value shardID toShardID v r s",
    ("transaction", "eth"): "blockHash blockNumber from timestamp gas gasPrice hash input nonce to transactionIndex "
    "value v r s",
    ("transaction", "geth"): "blockHash blockNumber from gas gasPrice hash input nonce to transactionIndex value v r s "
    "chainId type maxFeePerGas maxPriorityFeePerGas accessList",
    ("staking transaction", "harmony"): "blockHash blockNumber from gas gasPrice hash msg nonce r s timestamp "
    "transactionIndex type v",
    ("pushed header", "eth"): "parentHash sha3Uncles nonce miner stateRoot transactionsRoot receiptsRoot logsBloom "
    "difficulty number gasLimit gasUsed timestamp extraData mixHash hash",
    (
        "pushed header",
        "geth",
    ): "parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom "
    "difficulty number gasLimit gasUsed timestamp extraData mixHash nonce baseFeePerGas withdrawalsRoot blobGasUsed "
    "excessBlobGas parentBeaconBlockRoot requestsHash blockAccessListHash slotNumber hash",
    ("receipt", "harmony"): "blockHash blockNumber contractAddress cumulativeGasUsed effectiveGasPrice from gasUsed "
    "logs logsBloom root shardID status to transactionHash transactionIndex",
    ("receipt", "eth"): "blockHash blockNumber contractAddress cumulativeGasUsed effectiveGasPrice from gasUsed logs "
    "logsBloom status to transactionHash transactionIndex",
    ("receipt", "geth"): "blockHash blockNumber contractAddress cumulativeGasUsed effectiveGasPrice from gasUsed logs "
    "logsBloom status to transactionHash transactionIndex type",
}
"""The members of each view in a dialect's order; those that an object has no fact for are left out."""
_FORMS = {key: tuple(names.split()) for key, names in _WRITTEN_FORMS.items()}
_BARE = frozenset({"shardID", "toShardID"})
"""Numbers that every dialect writes bare."""
_HEX = frozenset({"v", "r", "s", "type", "chainId"})
"""Numbers that every dialect writes in hex."""


class Shown(Struct, frozen=True):
    """The parts of a block that a caller wants to see."""

    full: bool = False
    signers: bool = False
    staking: bool = False


def _written(name: str, value: Any, version: str) -> Any:
    """A fact as a dialect writes it: a number bare or in hex, an address (20 bytes) in Harmony's letters or in hex."""
    if type(value) is int:
        return hex(value) if name in _HEX or (version != "v2" and name not in _BARE) else value
    if isinstance(value, bytes):
        return to_one(value) if len(value) == 20 and version in ("v1", "v2") else to_hex(value)
    return value


def _view(what: str, version: str, facts: View) -> View:
    """The members of a form, written in its dialect."""
    form = _FORMS.get((what, version)) or _FORMS[what, "harmony"]
    return {name: _written(name, facts[name], version) for name in form if name in facts}


def tx_hash(version: str, tx: Tx) -> str:
    return to_hex(tx.hash if version in ("v1", "v2") else tx.eth_hash)


def block_text(branch: Branch, block: Block, version: str, shown: Shown) -> bytes:
    """The text of a block, which its branch remembers."""
    key = (block.number, block.fork, len(block.txs), version, shown)
    written: bytes = branch.remember(key, lambda: text(block_object(branch, block, version, shown)))
    return written


def block_object(branch: Branch, block: Block, version: str, shown: Shown) -> View:
    make, number, geth = branch.generator, block.number, version == "geth"
    staking = block.staking if shown.staking else ()
    facts: View = {
        "number": number, "viewID": number, "epoch": block.epoch, "timestamp": block.timestamp,
        "hash": block.hash, "parentHash": block.parent, "sha3Uncles": NO_UNCLES, "uncles": [],
        "nonce": "0x0000000000000000", "difficulty": "0x0", "extraData": "0x", "size": 800 + 259 * len(block.txs),
        "mixHash": make.digest(b"randao", block.fork, number) if geth else ZERO_HASH,
        "logsBloom": bloom(make, block.txs),
        "miner": make.leader(number).address,
        "gasLimit": "0x1c9c380" if geth else GAS_LIMIT - number % 100_003,
        "gasUsed": block.gas_used,
        "vrf": make.digest(b"vrf", block.fork, number),
        "vrfProof": vrf_proof(make, block),
        "stateRoot": make.digest(b"state", block.fork, number),
        "transactionsRoot": _root(make, b"transactions", block),
        "receiptsRoot": _root(make, b"receipts", block),
        "transactions": [tx_hash(version, tx) for tx in block.txs],
        "transactionsInEthHash": [to_hex(tx.eth_hash) for tx in block.txs],
        "stakingTransactions": [to_hex(tx.hash) for tx in staking],
        "baseFeePerGas": 1_000_000_000 + number % 1000, "withdrawals": [], "withdrawalsRoot": EMPTY_ROOT,
    }  # fmt: skip
    if shown.full:
        del facts["transactionsInEthHash"]
        facts["transactions"] = [transaction(branch, tx, block, version) for tx in block.txs]
        facts["stakingTransactions"] = [staking_transaction(branch, tx, block, version) for tx in staking]
    if shown.signers:
        facts["signers"] = [to_one(slot.address) for slot in signers(branch, number)]
    zeros = {"nonce": 0, "difficulty": 0} if version in ("v1", "v2") else {}
    return _view("block", version, facts) | zeros


def _root(make: Generator, of: bytes, block: Block) -> str:
    if not block.txs and not block.staking:
        return EMPTY_ROOT
    return to_hex(make.digest(of, block.fork, block.number, len(block.txs)))


def bloom(make: Generator, txs: Iterable[Tx]) -> str:
    """The bloom of the logs that transactions left."""
    words = {word for tx in txs if tx.log_data is not None for word in (make.contract, *_topics(make, tx))}
    return to_hex(bloom_of(words))


def _topics(make: Generator, tx: Tx) -> tuple[bytes, ...]:
    return bytes.fromhex(TRANSFER[2:]), tx.sender.rjust(32, b"\0"), make.accounts[0].rjust(32, b"\0")


def vrf_proof(make: Generator, block: Block) -> bytes:
    """The VRF proof of a block, 96 bytes."""
    return make.digest(b"vrf proof", block.fork, block.number, size=64) + make.digest(b"vrf end", block.number)


def signers(branch: Branch, number: int) -> list[CommitteeSlot]:
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


def _tx_facts(branch: Branch, tx: Tx, block: Block | None, version: str) -> View:
    """The facts of a transaction; `block` is None while it is pending."""
    pending = {"blockHash": ZERO_HASH, "blockNumber": None, "timestamp": 0, "transactionIndex": 0}
    if version in ("eth", "geth"):
        pending |= {"blockHash": None, "transactionIndex": None}
    mined = block and {"blockHash": block.hash, "blockNumber": block.number, "timestamp": block.timestamp}
    return {
        **({**mined, "transactionIndex": tx.index} if mined else pending),
        "from": tx.sender, "to": tx.to, "value": tx.value, "input": tx.data, "nonce": tx.nonce,
        "gas": tx.gas, "gasPrice": tx.gas_price, "hash": tx_hash(version, tx), "ethHash": tx.eth_hash,
        "v": tx.v, "r": tx.r, "s": tx.s, "type": tx.type,
        "shardID": branch.spec.shard, "toShardID": tx.to_shard, "chainId": branch.spec.signer_chain_id,
    }  # fmt: skip


def transaction(branch: Branch, tx: Tx, block: Block | None, version: str) -> View:
    """A transaction; `block` is None while it is pending."""
    facts = _tx_facts(branch, tx, block, version)
    if tx.type == 2:
        facts |= {"maxFeePerGas": tx.gas_price, "maxPriorityFeePerGas": tx.priority_fee, "accessList": []}
    return _view("transaction", version, facts)


def staking_transaction(branch: Branch, tx: Tx, block: Block | None, version: str) -> View:
    """A staking transaction as v1 and v2 show it."""
    message = {"amount": tx.amount, "delegatorAddress": tx.sender, "validatorAddress": tx.validator}
    own = {"type": tx.staking, "msg": {name: _written(name, value, version) for name, value in message.items()}}
    return _view("staking transaction", version, _tx_facts(branch, tx, block, version) | own)


def receipt(branch: Branch, tx: Tx, block: Block, version: str) -> View:
    left = log(branch, tx, block, version)
    facts = {
        **_tx_facts(branch, tx, block, version),
        "contractAddress": to_hex(tx.created) if tx.created else None if version in ("eth", "geth") else ZERO_ADDRESS,
        "cumulativeGasUsed": tx.gas_used if tx.staking else sum(one.gas_used for one in block.txs[: tx.index + 1]),
        "effectiveGasPrice": tx.gas_price or GAS_PRICE,
        "gasUsed": tx.gas_used,
        "logs": [left] if left else [],
        "logsBloom": bloom(branch.generator, [tx]),
        "root": "0x", "status": 1, "transactionHash": tx_hash(version, tx),
    }  # fmt: skip
    return _view("receipt", version, facts)


def trace(branch: Branch, tx: Tx, block: Block) -> View:
    """The one trace of a transaction, in the form of OpenEthereum, where blocks are numbers and not text."""
    facts = transaction(branch, tx, block, "geth")
    called = {"callType": "call", "to": facts["to"], "input": facts["input"]}
    action = {"from": facts["from"], "gas": facts["gas"], "value": facts["value"]}
    return {
        "action": action | called if facts["to"] else action | {"init": facts["input"]},
        "blockHash": facts["blockHash"], "blockNumber": block.number,
        "result": {"gasUsed": hex(tx.gas_used), "output": "0x"}, "subtraces": 0, "traceAddress": [],
        "transactionHash": facts["hash"], "transactionPosition": tx.index,
        "type": "call" if facts["to"] else "create",
    }  # fmt: skip


def pushed_header(branch: Branch, block: Block, version: str) -> View:
    """A newHeads notification. geth has null for members of forks that are not active. Harmony's differs from the
    block: no uncles hash, and the miner is the address of the leader's BLS key."""
    view = block_object(branch, block, version, Shown())
    if version == "geth":
        return {name: view.get(name) for name in _FORMS["pushed header", "geth"]}
    view |= {"sha3Uncles": ZERO_HASH, "miner": key_address(branch, block)}
    own = {"viewID": block.number, "epoch": block.epoch, "shardID": branch.spec.shard}
    return {name: view[name] for name in _FORMS["pushed header", "eth"]} | own


def key_address(branch: Branch, block: Block) -> str:
    """The address of the BLS key with which the leader proposed a block of Harmony."""
    leader = branch.generator.leader(block.number)
    return to_hex(branch.generator.digest(b"key address", leader.key, size=20))


def log(branch: Branch, tx: Tx, block: Block, version: str) -> View | None:
    """The one log a transaction left, if it left one; logs are 0x hex in every dialect."""
    if tx.log_data is None:
        return None
    make = branch.generator
    before = sum(1 for other in block.txs[: tx.index] if other.log_data is not None)
    return {
        "address": to_hex(make.contract),
        "topics": [to_hex(topic) for topic in _topics(make, tx)],
        "data": to_hex(tx.log_data),
        "blockNumber": hex(block.number),
        "transactionHash": tx_hash(version, tx),
        "transactionIndex": hex(tx.index),
        "blockHash": to_hex(block.hash),
        **({"blockTimestamp": hex(block.timestamp)} if version == "geth" else {}),
        "logIndex": hex(before),
        "removed": False,
    }
