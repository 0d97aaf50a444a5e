"""The verdict on a node that is tried before it is added."""

from __future__ import annotations

from rpcaccel.core.heads.identity import Claims, ExpectedIdentity
from rpcaccel.core.heads.node_trial import NodeTrial, tried

WANTED = ExpectedIdentity(eth_chain_id=1666600000, shard=0)
RIGHT = Claims(1666600000, shard=0)


def test_a_node_of_the_right_chain_is_told_with_its_lag() -> None:
    found = tried(RIGHT, WANTED, head=95, latency=0.25, served=100)
    assert found == NodeTrial(answering=True, chain_ok=True, head=95, chain_id=1666600000, latency=0.25, lag=5)
    assert tried(RIGHT, WANTED, head=101, served=100).lag == 0
    assert tried(RIGHT, WANTED, head=101).lag is None


def test_another_chain_is_said_also_of_a_node_that_tells_no_head() -> None:
    other = Claims(1, shard=None)
    for found in (tried(other, WANTED, head=7, served=100), tried(other, WANTED, fault="no such method")):
        assert (found.chain_ok, found.chain_id) == (False, 1)
        assert found.note == "it serves chain id 1, not 1666600000"


def test_a_node_without_a_head_does_not_answer_and_says_why() -> None:
    found = tried(None, WANTED, served=100, fault="no answer within 5 s")
    assert found == NodeTrial(answering=False, note="no answer within 5 s")
    assert tried(RIGHT, WANTED, fault="it answers its head with an error").note == "it answers its head with an error"


def test_what_cannot_be_compared_is_said() -> None:
    assert tried(Claims(), WANTED, head=7).note == "it does not say which chain it serves"
    found = tried(Claims(1), ExpectedIdentity(), head=7)
    assert found.chain_ok is None
    assert found.note == "no node of the network has told its chain yet: nothing to compare with"
