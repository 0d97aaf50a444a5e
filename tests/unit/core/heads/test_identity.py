import pytest

from rpcaccel.core.heads.identity import (
    Claims,
    ExpectedIdentity,
    IdentityCheck,
    NodeTrial,
    judge,
    most_said,
    tried,
    wanted_of,
)

HARMONY = ExpectedIdentity(eth_chain_id=1666600000, shard=0)


def test_a_node_that_says_what_is_wanted_is_right() -> None:
    assert judge(Claims(1666600000, 1, 0), HARMONY) == IdentityCheck(True)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (Claims(1666600001, 1, 1), "it serves chain id 1666600001, not 1666600000"),
        (Claims(None, 1, 1), "it serves shard 1, not 0"),
    ],
)
def test_a_node_of_another_chain_or_shard_is_wrong_and_it_is_said(claims: Claims, why: str) -> None:
    assert judge(claims, HARMONY) == IdentityCheck(False, why)


def test_a_node_that_says_only_a_part_is_judged_by_that() -> None:
    assert judge(Claims(shard=0), HARMONY).right is True


def test_a_node_that_says_nothing_is_neither_right_nor_wrong() -> None:
    assert judge(Claims(), HARMONY) == IdentityCheck(None, "it does not say which chain it serves")


def test_the_id_with_the_most_weight_behind_it_wins_and_the_first_on_a_tie() -> None:
    assert most_said([(7, 1), (8, 2), (None, 9), (7, 2)]) == 7
    assert most_said([(8, 1), (7, 1)]) == 8
    assert most_said([(None, 1)]) is None


def test_a_chain_that_began_with_another_block_is_another_chain_and_one_that_does_not_say_may_be_right() -> None:
    wanted = ExpectedIdentity(1, genesis="0x" + "a" * 64)
    assert judge(Claims(1, genesis="0x" + "a" * 64), wanted).right is True
    assert judge(Claims(1), wanted).right is True
    verdict = judge(Claims(1, genesis="0x" + "b" * 64), wanted)
    assert (verdict.right, "another chain" in verdict.why) == (False, True)


def test_a_chain_begun_anew_with_the_same_block_0_is_another_one_and_one_that_tells_no_block_1_may_be_right() -> None:
    wanted = ExpectedIdentity(1, genesis="0x" + "a" * 64, block_one="0x" + "b" * 64)
    assert judge(Claims(1, genesis=wanted.genesis, block_one=wanted.block_one), wanted).right is True
    assert judge(Claims(1, genesis=wanted.genesis), wanted).right is True
    assert judge(Claims(1, genesis=wanted.genesis, block_one="0x" + "c" * 64), wanted) == IdentityCheck(
        False, "its block 1 is 0xcccccccc…, that of the network 0xbbbbbbbb…: another chain, or the same one begun anew"
    )
    assert judge(Claims(1, block_one="0x" + "c" * 64), ExpectedIdentity(1)).right is True


def test_block_1_is_that_of_most_nodes_of_the_chain_that_began_with_the_same_block_0() -> None:
    ours, anew, theirs = ("0x" + letter * 64 for letter in "abc")
    said = [
        (Claims(7, genesis=ours), 4.0),
        (Claims(7, genesis=theirs, block_one=theirs), 3.0),
        (Claims(7, genesis=ours, block_one=anew), 1.0),
        (Claims(7, genesis=ours, block_one=ours), 2.0),
    ]
    assert wanted_of(said, None, None) == ExpectedIdentity(7, None, ours, ours)


def test_what_nodes_have_to_serve_is_what_the_settings_say_and_else_what_most_of_the_right_ones_do() -> None:
    ours, theirs = "0x" + "a" * 64, "0x" + "b" * 64
    said = [
        (Claims(1666600001, shard=1, genesis=theirs), 9.0),
        (Claims(1666600000, shard=0, genesis=ours), 2.0),
        (Claims(1666700000, shard=0, genesis=theirs), 1.0),
        (Claims(shard=0, genesis=theirs), 1.0),
    ]
    assert wanted_of(said, None, 0) == ExpectedIdentity(1666600000, 0, ours)
    assert wanted_of(said, 1666700000, 0) == ExpectedIdentity(1666700000, 0, theirs)
    assert wanted_of([], None, None) == ExpectedIdentity()


RIGHT = Claims(1666600000, shard=0)


def test_a_node_of_the_right_chain_is_told_with_its_lag() -> None:
    found = tried(RIGHT, HARMONY, head=95, latency=0.25, served=100)
    assert found == NodeTrial(answering=True, chain_ok=True, head=95, chain_id=1666600000, latency=0.25, lag=5)
    assert tried(RIGHT, HARMONY, head=101, served=100).lag == 0
    assert tried(RIGHT, HARMONY, head=101).lag is None


def test_another_chain_is_said_also_of_a_node_that_tells_no_head() -> None:
    other = Claims(1, shard=None)
    for found in (tried(other, HARMONY, head=7, served=100), tried(other, HARMONY, fault="no such method")):
        assert (found.chain_ok, found.chain_id) == (False, 1)
        assert found.note == "it serves chain id 1, not 1666600000"


def test_a_node_without_a_head_does_not_answer_and_says_why() -> None:
    found = tried(None, HARMONY, served=100, fault="no answer within 5 s")
    assert found == NodeTrial(answering=False, note="no answer within 5 s")
    assert tried(RIGHT, HARMONY, fault="it answers its head with an error").note == "it answers its head with an error"


def test_what_cannot_be_compared_is_said() -> None:
    assert tried(Claims(), HARMONY, head=7).note == "it does not say which chain it serves"
    found = tried(Claims(1), ExpectedIdentity(), head=7)
    assert found.chain_ok is None
    assert found.note == "no node of the network has told its chain yet: nothing to compare with"
