from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.blocks import ChainSpec, Generator

heights = st.integers(0, 2**40)


@pytest.mark.parametrize(("number", "epoch"), [(0, 0), (4, 0), (5, 1), (20, 1), (21, 2), (26, 2), (178, 11), (406, 26)])
def test_epochs_end_where_a_localnet_ends_them(number: int, epoch: int) -> None:
    assert ChainSpec().epoch_of(number) == epoch


@given(heights)
def test_the_last_block_of_an_epoch_is_followed_by_the_next_epoch(number: int) -> None:
    spec = ChainSpec()
    last = spec.epoch_last_block(spec.epoch_of(number))
    assert last >= number
    assert spec.epoch_of(last) + 1 == spec.epoch_of(last + 1)


@given(heights, st.integers(0, 100), st.integers(0, 100))
def test_a_sealed_hash_is_followed_back_and_only_under_its_tag(number: int, fork: int, index: int) -> None:
    make = Generator(ChainSpec())
    sealed = make.seal(b"t", number, fork, index)
    assert len(sealed) == 32
    assert make.open(b"t", sealed) == (number, fork, index)
    assert make.open(b"b", sealed) is None
    assert Generator(ChainSpec(seed=2)).open(b"t", sealed) is None


def test_a_foreign_hash_leads_nowhere() -> None:
    assert Generator(ChainSpec()).open(b"b", b"\x11" * 32) is None


def test_nonces_of_generated_transactions_count_up_and_agree_with_the_closed_form() -> None:
    make, sent = Generator(ChainSpec(density=2)), Counter[bytes]()
    staked = Counter[bytes]()
    for number in range(60):
        for index in range(make.count_in(number)):
            tx = make.transaction(0, number, index)
            assert tx.nonce == sent[tx.sender]
            sent[tx.sender] += 1
        staking = make.staking_transaction(0, number)
        if staking:
            assert staking.nonce == staked[staking.sender]
            staked[staking.sender] += 1
        assert [make.sent_by(i, number) for i in range(8)] == [sent[account] for account in make.accounts]
        assert [make.staked_by(i, number) for i in range(4)] == [staked[who] for who in make.delegators]


@given(heights, st.integers(1, 250))
def test_more_than_two_thirds_sign_each_block(number: int, committee: int) -> None:
    make = Generator(ChainSpec(committee=committee))
    bits = make.commit_bits(0, number)
    assert bits.bit_length() <= committee
    assert 3 * bits.bit_count() > 2 * committee or committee == bits.bit_count()


def test_other_shards_and_evm_chains_hold_no_staking_transactions() -> None:
    assert Generator(ChainSpec(shard=1)).staking_transaction(0, 21) is None
    assert Generator(ChainSpec(kind="ethereum")).staking_transaction(0, 21) is None
    assert ChainSpec(shard=1).signer_chain_id == ChainSpec().signer_chain_id + 1


def test_committees_turn_with_the_epoch_and_their_leader_is_a_member() -> None:
    make = Generator(ChainSpec())
    assert make.committee(3) != make.committee(4)
    assert make.leader(100) in make.committee(make.spec.epoch_of(100))
