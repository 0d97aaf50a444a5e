"""Finds transactions and logs on the part of a chain that a node can see."""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.sim_chain import Block
from rpcaccel.simnode.methods import json_views
from rpcaccel.simnode.methods.registry import MethodCall

LOGS_LIMIT = 1024


def mined(asked: MethodCall, sealed: bytes) -> tuple[Tx, Block] | None:
    """The transaction of either hash and its block, if a block this node has holds it."""
    tx = asked.branch.generated_tx(sealed, asked.head)
    if tx is None:
        tx = asked.chain.sent.get(sealed)
        if tx is None or tx.number > asked.head:
            return None
        # A node on an older branch does not know what was mined on the newer one.
        if not any(other.hash == tx.hash for other in asked.block_at(tx.number).txs):
            return None
    return tx, asked.block_at(tx.number)


def pending(asked: MethodCall) -> list[Tx]:
    """Transactions that wait in this node's pool: those sent here, and others once gossip has brought them."""
    local = asked.local
    now = local.clock.now()
    waiting = [tx for tx in asked.chain.recent.values() if tx.number > asked.head]
    gossip = local.knobs.gossip
    if not gossip:
        return waiting
    known = []
    for tx in waiting:
        first_seen = local.heard.setdefault(tx.eth_hash, now)
        if tx.eth_hash in local.arrived or now - first_seen >= gossip:
            known.append(tx)
    return known


def pooled(asked: MethodCall, sealed: bytes) -> Tx | None:
    """The waiting transaction of either hash, as far as this node knows it."""
    return next((tx for tx in pending(asked) if sealed in (tx.hash, tx.eth_hash)), None)


def logs(asked: MethodCall, first: int, last: int, criteria: dict[str, Any], version: str) -> list[dict[str, Any]]:
    """The logs of blocks first..last that fit `address` and `topics`."""
    found = []
    for height in range(first, last + 1):
        block = asked.block_at(height)
        for tx in block.txs:
            if tx.log_data is None:
                continue
            entry = json_views.log(asked.branch, tx, block, version)
            if entry is not None and fits(entry, criteria):
                found.append(as_stored(asked, tx, entry))
    return found


def as_stored(asked: MethodCall, tx: Tx, entry: dict[str, Any]) -> dict[str, Any]:
    """A log as this node has it: with a block hash of its own for each transaction where the node proposed the
    block."""
    if asked.proposed(tx.number):
        entry["blockHash"] = json_views.hex0(asked.branch.generator.digest(b"unsealed", tx.hash))
    return entry


def fits(entry: dict[str, Any], criteria: dict[str, Any]) -> bool:
    """Whether a log passes a filter's address and topics, by go-ethereum's rules."""
    addresses = criteria.get("address") or []
    if isinstance(addresses, str):
        addresses = [addresses]
    if addresses and entry["address"] not in {address.lower() for address in addresses}:
        return False
    topics = criteria.get("topics") or []
    if len(topics) > len(entry["topics"]):
        return False
    for wanted, topic in zip(topics, entry["topics"], strict=False):
        choices = [wanted] if isinstance(wanted, str) else wanted or []
        if choices and topic not in {choice.lower() for choice in choices}:
            return False
    return True
