"""The view as a value."""

from __future__ import annotations

from rpcaccel.core.plan.chain_snapshot import ChainSnapshot


def test_a_chain_is_known_once_its_id_is() -> None:
    assert not ChainSnapshot(head=5).known
    assert ChainSnapshot(eth_chain_id=0).known
    assert not ChainSnapshot(eth_chain_id=0, genesis=None).known, "the chain may be another one under the same id"
    assert not ChainSnapshot(eth_chain_id=0, block_one=None).known, "it may be another one with the same block 0"


def test_a_block_is_settled_once_it_is_final_and_no_hidden_machine_is_so_far_behind() -> None:
    assert ChainSnapshot(head=100, final=100, doubt=30).settled == 70
    assert ChainSnapshot(head=100, final=40, doubt=30).settled == 40
    assert ChainSnapshot(head=100, final=100).settled == 100
