"""Which members a block, a transaction or a receipt is hashed with, and in which order.

A chain names the forms that it has in its table ([chain.provable]); what the forms are is said here once. Sources:
yellow paper section 4, EIP-155, EIP-1559, EIP-2718, EIP-2930, EIP-4788, EIP-4844, EIP-4895, EIP-7685, EIP-7702; the OP
stack's deposit specification; Harmony's block/v3/header.go and core/types/transaction.go.
"""

from __future__ import annotations

from msgspec import Struct

_FEES = "chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList"
TRANSACTIONS: dict[str, tuple[str, ...]] = {
    form: tuple(members.split())
    for form, members in {
        "0x0": "nonce gasPrice gas to value input v r s",
        "0x1": "chainId nonce gasPrice gas to value input accessList yParity r s",
        "0x2": f"{_FEES} yParity r s",
        "0x3": f"{_FEES} maxFeePerBlobGas blobVersionedHashes yParity r s",
        "0x4": f"{_FEES} authorizationList yParity r s",
        "0x7e": "sourceHash from to mint value gas isSystemTx input",
        "harmony": "nonce gasPrice gas shardID toShardID to value input v r s",
    }.items()
}
"""The members of a transaction of each type, in the order in which they are hashed. Behind a type other than 0x0 and
Harmony's own, the list stands behind a byte that names the type."""


class HashedHeader(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header that a chain's blocks are named by the hash of."""

    members: tuple[str, ...] = ()
    """The members of a block that are hashed, in their order; empty where an answer does not show them all."""
    later: tuple[str, ...] = ()
    """Members that forks added at the end: a block has a part of these, from the first on."""
    other_seals: tuple[str, ...] = ()
    """Members that a block has only where its chain sealed, and hashed, blocks in another form than `members`."""
    encoded_by: str = ""
    """The method that gives the header of a block by number as it is hashed, in hex; empty where there is none."""
    positions: tuple[str, ...] = ()
    """The names that the first members of the encoded header have in blocks; an empty text where they have none."""


class ProofForm(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the answers of a chain can be proved: the table [chain.provable]."""

    header: HashedHeader = HashedHeader()
    transactions: tuple[str, ...] = ()
    """The types of transactions (TRANSACTIONS) that the chain's root of transactions is made of; empty: its
    transactions and receipts are not provable."""
    state_method: str = ""
    """The method that proves an account and places of its storage (EIP-1186), whose params are the address, the places
    and the block; empty where the chain's nodes have none."""
    receipts_method: str = ""
    """The method that gives all receipts of a block, whose param is its number or its hash; empty where there is
    none."""
    false_log_hashes: bool = False
    """Do nodes keep, in the logs of blocks that they proposed, block hashes that the blocks do not have?"""
