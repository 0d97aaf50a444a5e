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
A, B, C = ("0x" + letter * 64 for letter in "abc")
BEGUN = ExpectedIdentity(1, genesis=A, block_one=B)


@pytest.mark.parametrize(
    ("claims", "wanted", "right", "why"),
    [
        (Claims(1666600000, 1, 0), HARMONY, True, ""),
        (Claims(1666600001, 1, 1), HARMONY, False, "it serves chain id 1666600001, not 1666600000"),
        (Claims(None, 1, 1), HARMONY, False, "it serves shard 1, not 0"),
        (Claims(shard=0), HARMONY, True, ""),  # by the part that it tells
        (Claims(), HARMONY, None, "it does not say which chain it serves"),
        (Claims(1, genesis=A, block_one=B), BEGUN, True, ""),
        (Claims(1, genesis=A), BEGUN, True, ""),
        (Claims(1), BEGUN, True, ""),
        (Claims(1, genesis=B), BEGUN, False, "its chain begins with block 0xbbbbbbbb…, that of the network with "
                                             "0xaaaaaaaa…: another chain"),
        (Claims(1, genesis=A, block_one=C), BEGUN, False, "its block 1 is 0xcccccccc…, that of the network "
                                                          "0xbbbbbbbb…: another chain, or the same one begun anew"),
        (Claims(1, block_one=C), ExpectedIdentity(1), True, ""),
    ],
)  # fmt: skip
def test_a_node_is_judged_by_what_it_tells(
    claims: Claims, wanted: ExpectedIdentity, right: bool | None, why: str
) -> None:
    assert judge(claims, wanted) == IdentityCheck(right, why)


def test_the_id_with_the_most_weight_behind_it_wins_and_the_first_on_a_tie() -> None:
    assert most_said([(7, 1), (8, 2), (None, 9), (7, 2)]) == 7
    assert most_said([(8, 1), (7, 1)]) == 8
    assert most_said([(None, 1)]) is None


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
