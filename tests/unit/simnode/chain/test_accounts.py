from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import parse, to_hex, to_one
from rpcaccel.simnode.chain.blocks import ACCOUNTS, GAS_PRICE
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain

CHAIN = harmony_chain(200)
BRANCH, MAKE = CHAIN.branch, CHAIN.generator


@given(st.binary(min_size=20, max_size=20), st.integers(0, 2**40))
def test_a_balance_differs_from_block_to_block(address: bytes, number: int) -> None:
    held = accounts.balance(BRANCH, address, number)
    assert held > 10**26
    assert held != accounts.balance(BRANCH, address, number + 1)


@pytest.mark.parametrize("account", range(ACCOUNTS))
def test_generated_transactions_move_what_they_say(account: int) -> None:
    who = MAKE.accounts[account]
    drip = int.from_bytes(MAKE.digest(b"balance", who, size=16), "big") % 10**15 | 1
    for number in range(1, 60):
        moved = drip
        for tx in BRANCH.block(number).txs:
            moved -= (tx.value + tx.gas_used * GAS_PRICE) * (tx.sender == who)
            moved += tx.value * (tx.to == who)
        held = accounts.balance(BRANCH, who, number - 1)
        assert accounts.balance(BRANCH, who, number) == held + moved


@given(st.integers(5, 2**40), st.binary(min_size=1, max_size=40))
def test_a_call_answers_a_word_that_names_its_block(number: int, data: bytes) -> None:
    if data.startswith((accounts.REVERT, accounts.BULK)):
        return
    word = accounts.call(BRANCH, MAKE.contract, data, number)
    assert (len(word), int.from_bytes(word[-8:])) == (32, number)
    assert int.from_bytes(accounts.storage(BRANCH, MAKE.contract, 3, number)[-8:]) == number


def test_the_contract_has_no_code_before_it_is_there() -> None:
    assert accounts.code(BRANCH, MAKE.contract, 4) == b""
    assert len(accounts.code(BRANCH, MAKE.contract, 5)) > 64
    assert accounts.call(BRANCH, MAKE.contract, b"\1", 4) == b""
    assert accounts.call(BRANCH, None, b"\1", 50) == accounts.call(BRANCH, MAKE.contract, b"", 50) == b""
    assert accounts.storage(BRANCH, MAKE.accounts[0], 0, 50) == bytes(32)


def test_calls_can_revert_and_can_be_large() -> None:
    with pytest.raises(accounts.Reverted):
        accounts.call(BRANCH, MAKE.contract, accounts.REVERT, 50)
    wanted = accounts.BULK + (100_000).to_bytes(32, "big")
    assert len(accounts.call(BRANCH, MAKE.contract, wanted, 50)) == 100_000


def test_a_fork_is_seen_in_balances_and_calls() -> None:
    chain = ethereum_chain(50)
    old, make = chain.branch, chain.generator
    new = chain.reorg(2)
    for number, differs in ((48, False), (50, True)):
        pairs = [accounts.call(branch, make.contract, b"\1", number) for branch in (old, new)]
        held = [accounts.balance(branch, make.accounts[0], number) for branch in (old, new)]
        assert [len(set(pairs)) == 2, len(set(held)) == 2] == [differs, differs]


ONE = "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3"
HEX = "0xA5241513DA9F4463F1d4874b548dFBAC29D91f34"


def test_both_spellings_name_one_account() -> None:
    assert parse(ONE) == parse(HEX)
    assert to_one(parse(HEX)) == ONE
    assert to_hex(parse(ONE)) == HEX.lower()


@given(st.binary(min_size=20, max_size=20))
def test_an_address_survives_both_spellings(address: bytes) -> None:
    assert parse(to_one(address)) == parse(to_hex(address)) == address


@pytest.mark.parametrize("text", ["zzz", "", "0x12", ONE[:-1] + "4", ONE.replace("one1", "two1"), ONE[:-1] + "b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller words it
        parse(text)
