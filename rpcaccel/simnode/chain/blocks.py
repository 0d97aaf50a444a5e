"""Makes the blocks and transactions of a simulated chain when they are asked for.

Every block is a pure function of (spec, fork, number). Nothing is stored, so block 50,000,000 costs what block 5 costs,
and two nodes cannot disagree. Hashes carry the (fork, number, index) that they stand for in masked form, so that any
hash can be followed back without an index.
"""

from __future__ import annotations

import struct
from functools import cached_property
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

Kind = Literal["harmony", "ethereum"]

ACCOUNTS = 8
"""Accounts that send the generated transactions, round robin."""
VALUE = 503_000_000_000_000_003
"""Atto moved by each generated plain transfer."""
GAS_PRICE = 100_000_000_000
TRANSFER_GAS = 21_000
CONTRACT_GAS = 51_234
CONTRACT_FROM = 5
"""The block from which the generated contract has code."""
STAKING_EVERY, STAKING_AT = 16, 5
"""Block n holds one staking transaction when n % STAKING_EVERY == STAKING_AT."""
_PER_CYCLE = (0, 1, 3)


class ChainSpec(Struct, frozen=True, kw_only=True):
    """The parameters of a chain. Equal specs are equal chains, in any process."""

    seed: int = 1
    kind: Kind = "harmony"
    shard: int = 0
    network_id: int = 2
    """Harmony's own chain id (equal on all shards); on an EVM chain the network id."""
    eth_chain_id: int = 1_666_700_000
    """The id a signer uses, without the shard, which is added on Harmony."""
    block_time: float = 2.0
    """Seconds between blocks."""
    epoch_length: int = 16
    """Blocks in an epoch; on a localnet epoch e ends at block 4 + 16 e."""
    committee: int = 9
    """Signing slots of the shard; about 180 on the main network."""
    validators: int = 4
    density: int = 1
    """Transactions in block n: density * (n % 3)."""
    genesis: float = 1_700_000_000.0
    """Unix seconds of block 0."""
    finality_depth: int = 64
    """Blocks between head and the `finalized` tag, EVM chains only."""

    @property
    def signer_chain_id(self) -> int:
        """The chain id that eth_chainId answers."""
        return self.eth_chain_id + (self.shard if self.kind == "harmony" else 0)

    @property
    def first_epoch_end(self) -> int:
        """The last block of epoch 0."""
        return self.epoch_length // 4

    def epoch_of(self, number: int) -> int:
        return max(0, -((self.first_epoch_end - number) // self.epoch_length))

    def epoch_last_block(self, epoch: int) -> int:
        return self.first_epoch_end + epoch * self.epoch_length

    def timestamp(self, number: int) -> int:
        """Unix seconds, whole: two blocks may share one when the block time is below a second."""
        return int(self.genesis + number * self.block_time)


class Tx(Struct, frozen=True, kw_only=True):
    """A transaction in a block, generated or sent by a client."""

    number: int
    """The block of the transaction; -1 while the transaction waits in the pool."""
    index: int
    hash: bytes
    eth_hash: bytes
    sender: bytes
    to: bytes | None
    value: int
    nonce: int
    gas: int
    gas_price: int
    gas_used: int
    data: bytes = b""
    v: int = 27
    r: int = 0
    s: int = 0
    to_shard: int = 0
    staking: str = ""
    """The directive ("Delegate") of a staking transaction."""
    amount: int = 0
    validator: bytes = b""
    log_data: bytes | None = None
    """The data of the transaction's only log, a Transfer; None when there is no log."""
    created: bytes | None = None
    """The address of the contract that the transaction created."""
    type: int = 0
    priority_fee: int = 0


class CommitteeSlot(Struct, frozen=True):
    """One signing key of a committee, and the address that is paid for it."""

    key: bytes
    address: bytes
    external: bool


class Generator:
    """The pure functions of one spec."""

    def __init__(self, spec: ChainSpec) -> None:
        self.spec = spec
        self._key = f"{spec.seed}/{spec.kind}/{spec.shard}/{spec.network_id}".encode()[:64]

    def digest(self, *parts: bytes | int, size: int = 32) -> bytes:
        """`size` (<= 64) bytes that depend on the spec and `parts` alone."""
        text = b"|".join(part if isinstance(part, bytes) else b"%d" % part for part in parts)
        return blake2b(text, key=self._key, digest_size=size).digest()

    def draw(self, *parts: bytes | int) -> float:
        """A number in [0, 1) that depends on the spec and `parts` alone: a multiple of 2**-32."""
        return int.from_bytes(self.digest(*parts, size=4), "big") / 2**32

    def seal(self, tag: bytes, number: int, fork: int, index: int = 0) -> bytes:
        """A 32-byte hash that `open` follows back. `tag` is one byte."""
        payload = tag + struct.pack(">QHH", number, fork, index)[1:]
        core = self.digest(b"core", payload, size=20)
        mask = self.digest(b"mask", core, size=12)
        return core + bytes(a ^ b for a, b in zip(payload, mask, strict=True))

    def open(self, tag: bytes, sealed: bytes) -> tuple[int, int, int] | None:
        """(number, fork, index) of a hash that `seal` made with this tag, else None."""
        core = sealed[:20]
        mask = self.digest(b"mask", core, size=12)
        payload = bytes(a ^ b for a, b in zip(sealed[20:], mask, strict=True))
        if payload[:1] != tag or self.digest(b"core", payload, size=20) != core:
            return None
        number, fork, index = struct.unpack(">QHH", b"\0" + payload[1:])
        return number, fork, index

    @cached_property
    def accounts(self) -> tuple[bytes, ...]:
        return tuple(self.digest(b"account", i, size=20) for i in range(ACCOUNTS))

    @cached_property
    def validators(self) -> tuple[bytes, ...]:
        return tuple(self.digest(b"validator", i, size=20) for i in range(self.spec.validators))

    @cached_property
    def delegators(self) -> tuple[bytes, ...]:
        """Accounts that delegate, and send the staking transactions."""
        return tuple(self.digest(b"delegator", i, size=20) for i in range(4))

    @cached_property
    def contract(self) -> bytes:
        """The generated contract: a call to it answers a word that names the block (see accounts.call)."""
        return self.digest(b"contract", size=20)

    @cached_property
    def members(self) -> tuple[CommitteeSlot, ...]:
        """The keys from which committees are taken; external validators have the first ones."""
        names = max(1, self.spec.committee - 1)
        members = []
        for i in range(self.spec.committee + 3):
            key = self.digest(b"bls", i, size=48)
            external = i < self.spec.validators
            address = self.validators[i] if external else self.digest(b"harmony slot", i % names, size=20)
            members.append(CommitteeSlot(key, address, external))
        return tuple(members)

    def committee(self, epoch: int) -> tuple[CommitteeSlot, ...]:
        """The slots that sign in `epoch`, in order of their bit; it turns by one member each epoch."""
        members = self.members
        return tuple(members[(epoch + i) % len(members)] for i in range(self.spec.committee))

    def leader(self, number: int) -> CommitteeSlot:
        """The slot that proposed block `number`."""
        slots = self.committee(self.spec.epoch_of(number))
        return slots[number % len(slots)]

    def commit_bits(self, fork: int, number: int) -> int:
        """The slots that signed block `number` (bit i for slot i), which are always more than two thirds."""
        absent = self.digest(b"absent", fork, number)
        slots = self.spec.committee
        spare = (slots - 1) // 3
        bits = (1 << slots) - 1
        for i in range(slots):
            if spare and absent[i % 32] + i < 40:
                bits &= ~(1 << i)
                spare -= 1
        return bits

    def count_in(self, number: int) -> int:
        """Generated plain transactions in block `number`."""
        return self.spec.density * (number % 3)

    def count_to(self, number: int) -> int:
        """Generated plain transactions in blocks 0..number."""
        return self.spec.density * (3 * (number // 3) + _PER_CYCLE[number % 3])

    def sent_by(self, account: int, number: int) -> int:
        """Generated transactions account `account` has sent up to block `number`: its nonce."""
        return max(0, -((account - self.count_to(number)) // ACCOUNTS))

    def staked_by(self, delegator: int, number: int) -> int:
        """Staking transactions delegator `delegator` has sent up to block `number`."""
        return max(0, -((delegator - self.staking_turns(number)) // len(self.delegators)))

    def staking_turns(self, number: int) -> int:
        """Staking transactions in blocks 0..number; turn t is sent by delegator t % D to validator t % V."""
        return (number - STAKING_AT) // STAKING_EVERY + 1 if number >= STAKING_AT else 0

    @staticmethod
    def calls_contract(account: int) -> bool:
        """Whether this account's transactions are calls of the contract (and leave a log)."""
        return account % 4 == 3

    def _signature(self, *parts: bytes | int) -> tuple[int, int]:
        signed = self.digest(*parts, size=64)
        return int.from_bytes(signed[:32], "big"), int.from_bytes(signed[32:], "big")

    def transaction(self, fork: int, number: int, index: int) -> Tx:
        """The generated plain transaction at `index` of block `number`."""
        sequence = self.count_to(number) - self.count_in(number) + index
        account = sequence % ACCOUNTS
        calls = self.calls_contract(account) and number > CONTRACT_FROM
        to = self.contract if calls else self.accounts[(account + 1) % ACCOUNTS]
        r, s = self._signature(b"signature", fork, number, index)
        data = bytes.fromhex("a9059cbb") + self.accounts[0].rjust(32, b"\0") + number.to_bytes(32, "big")
        return Tx(
            number=number,
            index=index,
            hash=self.seal(b"t", number, fork, index),
            eth_hash=self.seal(b"e", number, fork, index),
            sender=self.accounts[account],
            to=to,
            value=0 if self.calls_contract(account) else VALUE,
            nonce=sequence // ACCOUNTS,
            gas=100_000 if calls else TRANSFER_GAS,
            gas_price=GAS_PRICE,
            gas_used=CONTRACT_GAS if calls else TRANSFER_GAS,
            data=data if calls else b"",
            v=27 + number % 2,
            r=r,
            s=s,
            to_shard=self.spec.shard,
            log_data=number.to_bytes(32, "big") if calls else None,
        )

    def staking_transaction(self, fork: int, number: int) -> Tx | None:
        if self.spec.kind != "harmony" or self.spec.shard or number % STAKING_EVERY != STAKING_AT:
            return None
        turn = number // STAKING_EVERY
        r, s = self._signature(b"staking signature", fork, number)
        return Tx(
            number=number,
            index=0,
            hash=self.seal(b"s", number, fork),
            eth_hash=self.seal(b"S", number, fork),
            sender=self.delegators[turn % len(self.delegators)],
            to=None,
            value=0,
            nonce=turn // len(self.delegators),
            gas=50_000,
            gas_price=GAS_PRICE,
            gas_used=25_000,
            r=r,
            s=s,
            v=40,
            staking="Delegate",
            amount=100 * 10**18,
            validator=self.validators[turn % len(self.validators)],
        )
