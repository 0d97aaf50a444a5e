"""What an examination says, and what follows from it as the head moves on."""

from __future__ import annotations

from rpcaccel.core.heads.examination import STATE_WINDOW, Examination, PeerAgreement, outcome

PRUNED = Examination(at=1.0, head=1000, state_from=872)


def test_the_state_that_a_pruned_node_keeps_moves_with_its_head() -> None:
    assert PRUNED.state_below(1000) == 872
    assert PRUNED.state_below(5000) == 4872
    assert PRUNED.state_below(990) == 872, "a head that goes back shows no older state"


def test_a_node_with_a_long_past_keeps_it() -> None:
    examination = Examination(at=1.0, head=10**7, state_from=10**7 - STATE_WINDOW - 1)
    assert examination.state_below(2 * 10**7) == examination.state_from


def test_what_is_whole_or_not_known_bounds_nothing() -> None:
    for oldest in (0, None):
        assert Examination(at=1.0, head=1000, state_from=oldest).state_below(5000) == 0


def test_a_node_that_has_just_started_is_expected_to_keep_as_much_as_every_node_soon() -> None:
    """geth has the state of the blocks since its start, and comes to 128."""
    restarted = Examination(at=1.0, head=1000, state_from=995)
    assert restarted.state_below(1000) == 995
    assert restarted.state_below(1100) == 995
    assert restarted.state_below(5000) == 4872


def test_an_archive_is_a_role_that_the_state_of_a_long_chain_shows() -> None:
    examination = Examination(at=1.0, head=STATE_WINDOW + 1, state_from=0, roles={"explorer": False})
    assert examination.shown == {"explorer": False, "archive": True}
    assert Examination(at=1.0, head=STATE_WINDOW, state_from=0).shown == {}, "a node that prunes may keep as much"
    assert PRUNED.shown == {"archive": False}
    assert Examination(at=1.0).shown == {}


def test_an_examination_is_told_in_sentences() -> None:
    examination = Examination(
        at=1.0,
        seconds=2.5,
        calls=98,
        head=1000,
        state_from=872,
        logs_from=0,
        range_most=99,
        range_tried=1024,
        batch_tried=64,
        traces=False,
        roles={"explorer": True, "auth": False},
        agreement=PeerAgreement(13, 1, "eth_getBlockByNumber at block 7: result.hash: 0x1 against 0x2"),
        faults=("something was not found out",),
    )
    assert list(examination.sentences()) == [
        "it has the state of blocks from 872 on, 128 below its head",
        "it has the logs of every block",
        "it gives logs for at most 100 blocks at once",
        "it answers every batch tried (up to 64 calls)",
        "it traces no transactions by debug methods",
        "it is an explorer node",
        "12 of 13 answers agree with other nodes: eth_getBlockByNumber at block 7: result.hash: 0x1 against 0x2",
        "something was not found out",
    ]
    assert outcome(examination).startswith("the node is examined (98 calls in 2.5 s): it has the state of blocks from")


def test_bounds_that_are_not_there_have_their_sentences() -> None:
    said = list(Examination(at=1.0, head=5, batch_most=1, batch_tried=64, range_tried=0).sentences())
    assert said == [
        "from which block on it has state is not known",
        "from which block on it has logs is not known",
        "it gives logs for every range tried (up to 1 block at once)",
        "it takes no batches",
    ]
    assert "it answers batches of at most 16 calls" in Examination(at=1.0, batch_most=16, batch_tried=64).sentences()
