from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain import raw_tx
from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.sim_chain import ByClock, ByHand, SimChain, WallClock
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain
from tests.support.manual_clock import ManualClock
from tests.support.wallet import signed


def transfer(chain_id: int, nonce: int = 0) -> raw_tx.RawTransaction:
    return raw_tx.read(bytes.fromhex(signed(chain_id, nonce=nonce)[2:]))


@given(st.integers(1, 2**40), st.integers(0, 3))
def test_each_block_names_its_parent_and_is_found_by_its_hash(number: int, reorgs: int) -> None:
    chain = ethereum_chain(2**40)
    for depth in range(reorgs):
        chain.reorg(2**39 + depth)
    branch = chain.branch
    block = branch.block(number)
    assert block.parent == branch.hash_of(number - 1)
    assert branch.by_hash(block.hash, number) == block
    assert branch.by_hash(block.hash, number - 1) is None
    for tx in block.txs:
        assert branch.generated_tx(tx.hash, number) == branch.generated_tx(tx.eth_hash, number) == tx


def test_equal_specs_are_equal_chains_and_other_seeds_are_not() -> None:
    one, same, other = SimChain(ChainSpec()), SimChain(ChainSpec()), SimChain(ChainSpec(seed=2))
    assert one.branch.block(77) == same.branch.block(77)
    assert one.branch.block(77).hash != other.branch.block(77).hash
    assert one.head == pytest.approx(same.head, abs=1)


def test_a_reorg_changes_the_hashes_above_it_and_none_below() -> None:
    chain = ethereum_chain(100)
    before = chain.branch
    after = chain.reorg(3)
    assert [after.hash_of(n) == before.hash_of(n) for n in (96, 97, 98, 100)] == [True, True, False, False]
    assert after.by_hash(before.hash_of(99), 100) is None
    assert chain.branch is after
    deeper = chain.reorg(10)
    assert deeper.turns == ((91, 2),)
    assert repr(deeper) == "<Branch ((91, 2),)>"


def test_a_sent_transaction_stands_in_the_next_block_and_moves_money() -> None:
    chain = harmony_chain(50)
    tx = chain.add(transfer(1_666_700_000))
    assert (tx.number, tx.hash == tx.eth_hash) == (51, False)
    assert tx in chain.branch.block(51).txs
    assert chain.sent.by_hash[tx.hash] is chain.sent.by_hash[tx.eth_hash]
    assert [t.index for t in chain.branch.block(51).txs] == list(range(len(chain.branch.block(51).txs)))


def test_a_reorg_mines_again_what_it_dropped() -> None:
    chain = ethereum_chain(50)
    tx = chain.add(transfer(1337))
    chain.advance(2)
    left = chain.branch
    chain.reorg(2)
    again = chain.sent.by_hash[tx.hash]
    assert (left.sent_tx(tx.hash, 52), left.sent_tx(tx.hash, 50)) == (tx, None), "the branch that was left has it still"
    assert (chain.branch.sent_tx(tx.hash, 52), chain.branch.sent_tx(tx.eth_hash, 53)) == (None, again)
    assert again.number == 53
    assert again in chain.branch.block(53).txs
    assert all(t.hash != tx.hash for t in chain.branch.block(51).txs)
    assert [t.number for t in chain.sent.touching[tx.sender]] == [53]


def test_only_newly_mined_transactions_may_still_be_in_a_pool() -> None:
    chain = harmony_chain(50)
    chain.add(transfer(1_666_700_000))
    chain.advance(300)
    late = chain.add(transfer(1_666_700_000, nonce=1))
    assert list(chain.sent.recent.values()) == [late]
    assert len(chain.sent.by_hash) == 4


def test_a_chain_that_moves_by_the_clock_is_not_moved_by_hand() -> None:
    with pytest.raises(TypeError, match="by the clock"):
        SimChain().advance()
    chain = SimChain(heads=ByHand(5))
    assert chain.advance(2) == chain.head == 7
    assert repr(chain) == "<SimChain harmony s0 seed 1 head 7>"


def test_the_caches_of_a_branch_are_bounded() -> None:
    branch = harmony_chain().branch
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    for number in (*range(5000), 4999, 0):
        assert branch.remember(("text", number), make, number) == number
    assert (made.count(4999), made.count(0)) == (1, 2)


def test_a_head_by_hand_ignores_skew() -> None:
    assert ByHand(7).head(5.0) == 7
    assert ByHand(7).due(5.0) is None


def test_a_head_by_clock_grows_by_one_each_block_time_and_later_for_the_skewed() -> None:
    clock = ManualClock(100.0)
    heads = ByClock(genesis=0.0, block_time=2.0, seconds=clock.now)
    assert (heads.head(), heads.head(0.3)) == (50, 49)
    assert [heads.due(), heads.due(0.3)] == pytest.approx([2.0, 0.3])
    clock.advance(1.9)
    assert heads.head() == 50
    clock.advance(0.1)
    assert heads.head() == 51
    assert ByClock(genesis=1e6, block_time=2.0, seconds=clock.now).head() == 0


async def test_by_default_the_head_follows_the_date() -> None:
    heads = ByClock(genesis=time.time() - 100.5, block_time=1.0)
    assert heads.head() in (100, 101)
    before = WallClock().now()
    await WallClock().sleep(0.001)
    assert WallClock().now() > before
