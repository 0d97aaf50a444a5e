"""The cache never lies: whatever happens, in whatever order, every answer is one that a truthful node gives.

What can happen stands in `tests/support/dataplane/truth.py`, what must hold in `witness.py`; the world, in
`world.py`. tests/deep/truth goes on for longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rpcaccel.core.replies.failure import FailureKind
from tests.support.dataplane.asked import draw
from tests.support.dataplane.truth import SHORT_STORMS, tell_stories, weather
from tests.support.dataplane.witness import FORKING, Witness


def test_no_answer_is_ever_a_lie() -> None:
    tell_stories(5)


@pytest.mark.parametrize("storm", SHORT_STORMS)
def test_no_answer_is_a_lie_in_a_storm(storm: int) -> None:
    weather(storm)


# -- stories: what the machines are slow to come upon ------------------------------------------------------------

BALANCE, BLOCK, RECEIPT, TRANSACTION, SIGNERS, CANONICAL = 1, 4, 7, 8, 11 + 4, 11 + 1
"""Which call of `asked.py`."""


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    try:
        made.look_at_everything()
    finally:
        made.world.close()


def test_the_calls_of_the_stories_are_those_they_are_called(witness: Witness) -> None:
    chain = witness.world.chains["one"]
    called = (BALANCE, BLOCK, RECEIPT, TRANSACTION, SIGNERS)
    assert [draw("one", chain, which, 0, 0, 0).method for which in called] == [
        *("eth_getBalance", "eth_getBlockByNumber", "eth_getTransactionReceipt"),
        *("eth_getTransactionByHash", "hmyv2_getBlockSigners"),
    ]


@pytest.mark.parametrize(("which", "offset"), [(RECEIPT, 1), (SIGNERS, 0)])
def test_who_comes_after_a_new_head_is_not_told_what_a_node_said_before_it(
    witness: Witness, which: int, offset: int
) -> None:
    witness.call(0, "one", which, offset, 0, 0)
    while witness.world.shared.reads:
        witness.redis(0, write=False)
    (sent,) = witness.world.sent
    sent.arrive()
    witness.advance("one", 1)
    witness.look("one")
    witness.call_again(0, 0)
    witness.world.let_through()
    witness.look_at_everything()
    assert witness.seen["node"] == 2


def test_a_change_of_settings_hides_no_reorganisation_from_a_call_under_way(witness: Witness) -> None:
    witness.call(0, FORKING, BALANCE, -1, 0, 1)
    (sent,) = witness.world.sent
    sent.arrive()
    witness.adopt(frozenset(), {}, 2)
    witness.reorganise(4, 0)
    witness.look(FORKING)
    witness.world.let_through()


@pytest.mark.parametrize("which", [BALANCE, TRANSACTION])
def test_a_host_that_was_started_anew_reads_nothing_of_an_abandoned_branch_out_of_redis(
    witness: Witness, which: int
) -> None:
    witness.call(0, FORKING, which, -1, 0, 1)
    witness.world.let_through()
    witness.look_at_everything()
    while witness.world.shared.writes:
        witness.redis(0, write=True)
    witness.reorganise(4, 0)
    witness.look(FORKING)
    witness.restart(1)
    witness.call_again(1, 0)
    witness.world.let_through()


@pytest.mark.parametrize("which", [BALANCE, RECEIPT, TRANSACTION])
def test_what_was_kept_at_a_head_is_gone_when_another_branch_has_the_same_head(witness: Witness, which: int) -> None:
    witness.call(0, FORKING, which, -1, 0, 0)
    witness.world.let_through()
    witness.look_at_everything()
    assert witness.seen["kept"]
    witness.reorganise(3, 0)
    witness.look(FORKING)


def test_a_node_of_another_chain_is_asked_nothing_before_it_is_found_out(witness: Witness) -> None:
    world, host = witness.world, witness.world.hosts[0]
    wrong = world.settings.networks["two"].nodes[0]
    one = world.settings.networks["one"]
    mixed = one.model_copy(update={"nodes": (wrong, *one.nodes)})
    networks = {**world.settings.networks, "one": mixed}
    host.adopt_settings(world.settings.model_copy(update={"networks": networks}), 2)
    for _ in range(5):
        task = world.start(host.ask("one", b'{"id":1,"method":"hmyv2_getShardID","params":[]}'))
        world.let_through()
        assert task.result().body == b'{"jsonrpc":"2.0","id":1,"result":0}'


def test_who_asked_for_a_number_gets_that_block_though_another_asked_for_the_latest(witness: Witness) -> None:
    witness.call(0, FORKING, BLOCK, 0, 3, 0)  # latest
    witness.call(0, FORKING, BLOCK, 0, 0, 0)  # the same block by its number
    witness.reorganise(2, 6)
    witness.advance(FORKING, 1)
    witness.look(FORKING)
    witness.world.let_through()


def test_the_answer_of_a_node_ahead_is_not_kept_as_that_of_the_served_head(witness: Witness) -> None:
    witness.stall("one-0")
    witness.stall("one-1")
    witness.advance("one", 1)
    witness.look("one")
    for who in range(4):
        witness.call(0, "one", BALANCE, 0, 3, who)  # latest: the head before
        witness.call(0, "one", BALANCE, -1, 1, who)  # the same, by its number
        witness.world.let_through()


def test_an_answer_that_comes_after_its_branch_was_abandoned_is_asked_for_again(witness: Witness) -> None:
    witness.call(0, FORKING, BALANCE, -1, 0, 1)
    (sent,) = witness.world.sent
    sent.arrive()
    witness.reorganise(4, 0)
    witness.look(FORKING)
    witness.answer(0, back=True)
    assert len(witness.world.sent) == 1, "the node was asked once more"
    witness.world.let_through()
    witness.look_at_everything()
    assert witness.seen["node"] == 1


def test_a_receipt_that_waits_for_its_block_is_asked_for_again_when_its_branch_is_left_meanwhile(
    witness: Witness,
) -> None:
    witness.send(FORKING)
    witness.advance(FORKING, 1)  # the block of the transaction, which is not served yet
    witness.call(0, FORKING, RECEIPT, 0, 1, 0)
    witness.world.let_through()
    assert not witness.world.sent
    assert not witness.watched[0].task.done(), "the receipt waits for its block"
    witness.reorganise(3, 0)
    witness.look(FORKING)
    assert len(witness.world.sent) == 1, "the node was asked once more"
    witness.world.let_through()
    witness.look_at_everything()
    assert witness.seen["node"] == 1


def test_the_answer_of_a_node_that_was_found_on_another_branch_meanwhile_is_asked_for_again(witness: Witness) -> None:
    witness.call(0, FORKING, BLOCK, 1, 0, 0)  # above the served head, so that no reorganisation of what is served shows
    (sent,) = witness.world.sent
    witness.advance(FORKING, 1)
    sent.arrive()
    nodes = witness.world.nodes[FORKING]
    witness.reorganise(1, 1 << nodes.index(sent.node))
    witness.advance(FORKING, 1)
    for node in sorted(nodes, key=lambda node: node is sent.node) * 2:  # the others first: the branch is theirs
        witness.probe(0, node)
    witness.tell(0, FORKING)
    served = witness.world.hosts[0].state.networks[FORKING]
    assert served.view.fork_epoch == 0
    witness.answer(0, back=True)
    (again,) = witness.world.sent
    assert again.node is not sent.node
    witness.world.let_through()
    witness.look_at_everything()
    assert witness.seen["node"] == 1


@pytest.mark.parametrize("which", [CANONICAL, RECEIPT])
def test_what_names_no_number_does_not_follow_a_node_on_another_branch(witness: Witness, which: int) -> None:
    """A node that is left may lag, or be on another branch: up to its last sure block that makes no difference, but
    it answers about all that it has."""
    witness.call(0, FORKING, which, 0, 0, 1)
    witness.world.let_through()
    witness.look_at_everything()
    witness.reorganise(4, 0b010)
    witness.look(FORKING)
    witness.call_again(0, 0)
    (call,) = witness.watched
    while not call.task.done():
        witness.redis(0, write=False)
        for sent in witness.world.sent:
            if which == RECEIPT and sent.node.name != "three-1":
                sent.fail(FailureKind.CONNECT)
            else:
                sent.deliver()
        witness.world.clock.advance(1.0)
        witness.world.settle()


def test_an_answer_about_a_final_block_is_not_taken_from_a_node_that_is_sure_of_it_no_longer(witness: Witness) -> None:
    served = witness.world.hosts[0].state.networks[FORKING]
    plan = served.plan("eth_getBlockByNumber", b'["%b",false]' % hex(served.view.final).encode())
    assert plan.final
    assert not served.may_be_abandoned(plan, "three-1", served.view.fork_epoch - 1), "whatever was left above it"
    served.pool.nodes[1].head = -1
    assert served.may_be_abandoned(plan, "three-1", served.view.fork_epoch)


def test_an_answer_says_at_which_head_it_was_asked_for(witness: Witness) -> None:
    before = witness.world.hosts[0].state.networks["one"].view.head
    witness.call(0, "one", BALANCE, -1, 0, 1)
    witness.advance("one", 1)
    witness.look("one")
    task = witness.watched[0].task
    witness.world.let_through()
    assert task.result().outcomes[0].block == before
