from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.probe_state import UNSURE_EVERY, ProbeState
from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity
from rpcaccel.core.heads.probe_schedule import ProbeSchedule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure


class Silent:
    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        raise NotImplementedError

    async def close(self) -> None:
        return None


def probed(**settings: object) -> ProbeState:
    node = NodeSettings.model_validate({"id": "a", "url": "http://127.0.0.1:1", **settings})
    return ProbeState(node, Silent(), ProbeSchedule(BlockPace(2.0), 0.0))


def test_a_node_counts_once_it_has_said_what_it_serves() -> None:
    node = probed()
    before = node.counts
    node.claims = Claims(7)
    node.judge(ExpectedIdentity(7))
    assert (before, node.counts) == (False, True)


def test_a_node_that_cannot_say_what_it_serves_is_taken_on_trust_and_it_is_said() -> None:
    node = probed()
    node.claims = Claims()
    node.judge(ExpectedIdentity(7))
    assert node.counts
    assert node.note(0.0, None, 45.0) == "it does not say which chain it serves"


def test_a_wrong_or_draining_node_does_not_count() -> None:
    node = probed()
    node.claims = Claims(8)
    node.judge(ExpectedIdentity(7))
    assert not node.counts
    assert node.note(0.0, None, 45.0) == "it serves chain id 8, not 7"
    node = probed(drain=True)
    node.claims = Claims(7)
    node.judge(ExpectedIdentity(7))
    assert not node.counts


def test_what_it_serves_is_asked_at_first_now_and_then_and_after_it_was_away() -> None:
    node = probed()
    assert node.due(0.0, 60.0)
    node.claims, node.checked_at = Claims(), 0.0
    node.judge(ExpectedIdentity(7))
    assert (node.due(UNSURE_EVERY - 1, 60.0), node.due(UNSURE_EVERY, 60.0)) == (False, True)
    node.claims = Claims(7)
    node.judge(ExpectedIdentity(7))
    assert not node.due(59.0, 60.0)
    assert node.due(60.0, 60.0)
    node.fail("gone")
    assert node.due(1.0, 60.0)


def test_a_fault_is_told_with_how_often_in_a_row() -> None:
    node = probed()
    node.fail("no connection")
    assert node.note(0.0, None, 45.0) == "no connection"
    node.fail("no connection")
    assert node.note(0.0, None, 45.0) == "no connection (2 times in a row)"
    assert (node.looked_at, node.answering) == (True, False)
    node.see(5, 0.1, 1.0)
    assert (node.looked_at, node.answering) == (True, True)
    assert node.note(1.0, 0, 45.0) == ""


def test_a_head_that_stands_while_others_move_is_told() -> None:
    node = probed()
    node.see(5, 0.1, 10.0)
    node.see(5, 0.1, 60.0)
    assert node.note(60.0, 0, 45.0) == ""
    assert node.note(60.0, 3, 45.0) == "its head has not moved for 50 s"
    assert repr(node) == "<ProbeState a head 5, 0 fails, right: None>"


def test_roles_that_a_node_does_not_say_are_those_it_said_before_unless_it_was_away() -> None:
    node = probed()
    node.claim(Claims(7, says={"explorer": True}), 0.0, one_is_final=True)
    node.claim(Claims(7), 60.0, one_is_final=True)
    assert node.claims == Claims(7, says={"explorer": True})
    node.fail("gone")
    node.claim(Claims(7), 61.0, one_is_final=True)
    assert node.claims == Claims(7), "it may have come back as something else"


def test_a_block_1_that_was_told_once_stays_until_the_chain_has_none_or_began_with_another_block() -> None:
    node, told = probed(), Claims(7, genesis="0xa", block_one="0xb")
    node.claim(told, 0.0, one_is_final=True)
    node.claim(Claims(7), 60.0, one_is_final=True)
    assert (node.claims, node.early) == (told, False)
    node.claim(told, 120.0, one_is_final=None)
    assert (node.claims, node.early) == (told, True), "the node did not tell its head"
    node.claim(told, 180.0, one_is_final=False)
    assert (node.claims, node.early) == (Claims(7, genesis="0xa"), True)
    node.claim(told, 240.0, one_is_final=True)
    node.claim(Claims(7, genesis="0xc"), 300.0, one_is_final=True)
    assert node.claims == Claims(7, genesis="0xc")
