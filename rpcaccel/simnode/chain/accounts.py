"""Computes what accounts hold at a block: balance, nonce, code, storage and the results of calls.

Each is a closed form of the block number and differs from block to block, so that an answer from another height than
the one asked for is caught.
"""

from __future__ import annotations

from rpcaccel.simnode.chain.blocks import ACCOUNTS, CONTRACT_FROM, CONTRACT_GAS, GAS_PRICE, TRANSFER_GAS, VALUE
from rpcaccel.simnode.chain.sim_chain import Branch

REVERT = bytes.fromhex("deadbeef")
"""A call whose data starts with this reverts with the reason "simulated"."""
BULK = bytes.fromhex("5a5a5a5a")
"""The selector of a call that answers as many bytes as the 32-byte number behind it says."""
REASON = "simulated"


class Reverted(Exception):
    """The call reverts, with the reason REASON."""

    data = "0x08c379a0" + f"{32:064x}" + f"{len(REASON):064x}" + REASON.encode().hex().ljust(64, "0")
    """The data that geth adds to the error: Error(string) of the reason."""


def balance(branch: Branch, address: bytes, number: int) -> int:
    """Atto that `address` holds after block `number`; it moves with every block and every fork."""
    make = branch.generator
    seed = int.from_bytes(make.digest(b"balance", address, size=16), "big")
    total = 10**27 + seed % (9 * 10**27) + number * (seed % 10**15 | 1) + branch.fork_of(number)
    if address in make.accounts:
        total += _transfers(branch, make.accounts.index(address), number)
    for tx in branch.sent.touching.get(address, ()):
        if tx.number <= number:
            total -= (tx.sender == address) * (tx.value + tx.gas_used * tx.gas_price)
            total += (tx.to == address) * tx.value
    return total


def _transfers(branch: Branch, account: int, number: int) -> int:
    make = branch.generator
    sent, before = make.sent_by(account, number), (account - 1) % ACCOUNTS
    received = 0 if make.calls_contract(before) else make.sent_by(before, number)
    if make.calls_contract(account):
        early = make.sent_by(account, min(number, CONTRACT_FROM))
        fees = early * TRANSFER_GAS + (sent - early) * CONTRACT_GAS
        return received * VALUE - fees * GAS_PRICE
    return (received - sent) * VALUE - sent * TRANSFER_GAS * GAS_PRICE


def nonce(branch: Branch, address: bytes, number: int) -> int:
    """Transactions that `address` has sent up to block `number`."""
    make = branch.generator
    count = sum(1 for tx in branch.sent.touching.get(address, ()) if tx.sender == address and tx.number <= number)
    if address in make.accounts:
        count += make.sent_by(make.accounts.index(address), number)
    elif address in make.delegators:
        count += make.staked_by(make.delegators.index(address), number)
    return count


def code(branch: Branch, address: bytes, number: int) -> bytes:
    """The code of `address` at block `number`; empty for an account."""
    make = branch.generator
    created = any(tx.created == address and tx.number <= number for tx in branch.sent.touching.get(address, ()))
    if not created and (address != make.contract or number < CONTRACT_FROM):
        return b""
    return bytes.fromhex("6080604052348015600f57600080fd5b50") + make.digest(b"code", address, size=64)


def storage(branch: Branch, address: bytes, slot: int, number: int) -> bytes:
    """The word in `slot`; for a contract it names the block like the answer of `call`."""
    if not code(branch, address, number):
        return bytes(32)
    return _word(branch, number, b"storage", address, slot)


def _word(branch: Branch, number: int, *parts: bytes | int) -> bytes:
    stamp = branch.fork_of(number).to_bytes(2, "big") + number.to_bytes(8, "big")
    return branch.generator.digest(*parts, size=22) + stamp


def call(branch: Branch, to: bytes | None, data: bytes, number: int) -> bytes:
    """The result of a contract call: a word whose last eight bytes are the block number.

    Raises Reverted for REVERT. An account, or a contract called with no data, answers nothing.
    """
    if to is None or not data or not code(branch, to, number):
        return b""
    if data.startswith(REVERT):
        raise Reverted
    if data.startswith(BULK):
        size = min(int.from_bytes(data[4:36], "big"), 8 << 20)
        return (_word(branch, number, b"bulk") * (size // 32 + 1))[:size]
    return _word(branch, number, b"call", to, data)


def gas_price(number: int) -> int:
    """Atto per gas at a head. The price names the head, so that a stale answer shows."""
    return GAS_PRICE + number
