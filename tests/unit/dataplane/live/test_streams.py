"""Whatever happens, every subscriber is sent what a perfect observer of the served branch would have sent.

What must hold stands in `tests/support/dataplane/live_observer.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rpcaccel.core.live.branch import BLOCK_TRIES, RESTARTED, ROOT_BLOCKS
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.core.wire.websocket_frames import CloseCode
from rpcaccel.dataplane.live import log_track, resumption
from rpcaccel.dataplane.live.follower import FALLEN_SECONDS
from rpcaccel.dataplane.live.held_logs import HeldLogs
from rpcaccel.dataplane.live.log_track import LOGS_LATE
from rpcaccel.dataplane.live.resumption import FAILED, MAX_UNREAD_BYTES
from tests.support.dataplane.live_observer import Judge
from tests.support.dataplane.live_tree import ADDRESSES, TOPICS
from tests.support.dataplane.live_world import LiveClient, LiveWorld
from tests.support.properties import examples

FILTERS = (LogFilter(), LogFilter.of(ADDRESSES[:1]), LogFilter.of((), [TOPICS[1:]]))
WANTED = st.sampled_from([(HEADS, None), *((LOGS, one) for one in FILTERS)])
WHICH = st.integers(0, 20)
GAPS = st.lists(st.integers(0, 3), max_size=3).map(lambda drawn: [one if len(drawn) > 1 else 0 for one in drawn])
"""Heights without a block below each new block: mostly none."""
NODES = st.sets(st.integers(0, 2), min_size=1)


class Streams(RuleBasedStateMachine):
    """Nodes lag, reorganise, die, lie and fall silent, heads move, and clients come, go and come back."""

    kind = "ethereum"

    def __init__(self) -> None:
        super().__init__()
        self.world = LiveWorld(self.kind, queue=0, held=HeldLogs(most=3000, portion=600))
        self.tip = self.world.tree.trunk
        self.tips = [self.tip]
        self.dead: set[int] = set()
        self.lied = False
        """Has a node given blocks of another branch? Where the head jumps far, it may be believed."""
        self.far_lie = ""
        """The tip of the branch of which all nodes gave blocks by number since the head jumped far."""
        self.rested = 0.0, 0
        """When everything had last been sent, and how many calls had been in vain by then."""

    def teardown(self) -> None:
        try:
            self.everything_arrives()
            assert self.world.held.bytes == 0
        finally:
            self.world.close()

    @invariant()
    def every_stream_is_one_of_the_served_branch(self) -> None:
        assert not self.world.errors, self.world.errors
        for client in list(self.world.clients):
            if client.judged < len(client.sink.sent):  # served heads that are added make nothing wrong
                Judge(self.world.tree, self.world.served, client, self.world.believable).look(at_rest=False)
                client.judged = len(client.sink.sent)
            if client.sink.closed:
                self._was_cut(client)

    def _was_cut(self, client: LiveClient) -> None:
        """A client may be sent away when no node gave what it wanted for long, when the head at which it came was left,
        or when it reads nothing; then it can come back and resume."""
        world, tree = self.world, self.world.tree
        ((code, words),) = client.sink.closed
        seconds = world.clock.now() - max(client.came_at, self.rested[0])
        vain = world.vain - max(client.vain_at, self.rested[1])
        lives = world.served[client.joined_at - 1 :]
        left = any(not tree.has(head, lives[0]) and not tree.has(lives[0], head) for head in lives)
        turned = world.last.fork_epoch > 0
        numbers = [tree.blocks[head].number for head in world.served]
        fell = self.kind == "harmony" and max(numbers) - min(numbers) > ROOT_BLOCKS and seconds >= FALLEN_SECONDS
        failed = seconds >= resumption.WAIT_SECONDS or (vain >= resumption.FETCH_TRIES and seconds >= 3.0)
        causes = {
            LOGS_LATE: seconds >= log_track.LOGS_SECONDS,
            FAILED: left or failed,
            RESTARTED: fell or self.lied or (turned and vain >= BLOCK_TRIES),
        }
        if code == CloseCode.TRY_LATER:
            assert client.sink.unread > MAX_UNREAD_BYTES
            assert seconds >= resumption.WAIT_SECONDS
        else:
            assert code == CloseCode.RESTART
            assert causes[words], f"closed after {seconds} s and {vain} calls in vain: {words}"
        world.clients.remove(client)

    # -- the chain ----------------------------------------------------------------------------------------------------

    def _moved(self, tip: str, nodes: set[int]) -> None:
        self.tip = tip
        self.tips = [*self.tips, tip][-6:]
        for which in nodes:
            self.world.nodes[which].tip = tip

    @initialize(wanted=st.lists(WANTED, min_size=1, max_size=3))
    def some_subscribe(self, wanted: list[tuple[str, LogFilter | None]]) -> None:
        for one in wanted:
            self.world.come(*one)

    @rule(blocks=st.integers(1, 3), nodes=NODES, gaps=GAPS)
    def advance(self, blocks: int, nodes: set[int], gaps: list[int]) -> None:
        self._moved(self.world.tree.grow(self.tip, blocks, gaps), nodes)

    @rule(nodes=NODES, hasty=st.booleans(), gaps=GAPS)
    def advance_and_tell(self, nodes: set[int], hasty: bool, gaps: list[int]) -> None:
        self._moved(self.world.tree.grow(self.tip, 1, gaps), nodes)
        if hasty:
            self.world.push(self.tip)
        self.world.tell(self.tip)

    @rule(far=st.integers(17, 90))
    def advance_far(self, far: int) -> None:
        self._moved(self.world.tree.grow(self.tip, far), {0, 1, 2})
        self.world.tell(self.tip)

    @precondition(lambda self: not any(node.lies for node in self.world.nodes))
    @rule(blocks=st.integers(1, 20))
    def advance_without_hash(self, blocks: int) -> None:
        tree, world = self.world.tree, self.world
        highest = max(tree.blocks[head].number for head in world.served)
        self._moved(tree.grow(self.tip, max(0, highest - tree.blocks[self.tip].number) + blocks), {0, 1, 2})
        world.tell(self.tip, hashed=False)
        world.calm()

    @precondition(lambda self: self.kind == "ethereum")
    @rule(depth=st.integers(1, 6), more=st.integers(-1, 2), nodes=NODES, told=st.booleans(), gaps=GAPS)
    def reorganise(self, depth: int, more: int, nodes: set[int], told: bool, gaps: list[int]) -> None:
        tree = self.world.tree
        low = tree.below(self.tip, tree.blocks[self.tip].number - depth)
        self._moved(tree.grow(low.hash, max(1, depth + more), gaps), nodes)
        if told:
            self.world.tell(self.tip)

    @rule(which=st.integers(0, 2), tip=WHICH, lag=st.integers(0, 2))
    def a_node_moves(self, which: int, tip: int, lag: int) -> None:
        tree, to = self.world.tree, self.tips[tip % len(self.tips)]
        block = tree.below(to, tree.blocks[to].number - lag)
        node = self.world.nodes[which]
        if self.kind == "ethereum" or block.number > node.head:  # where blocks are final, no node goes back
            node.tip = block.hash

    @rule(which=st.integers(0, 2))
    def a_node_is_followed(self, which: int) -> None:
        self.world.tell(self.world.nodes[which].tip)

    @rule(tip=WHICH, lag=st.integers(0, 3))
    def a_header_is_pushed(self, tip: int, lag: int) -> None:
        tree, to = self.world.tree, self.tips[tip % len(self.tips)]
        block = tree.below(to, tree.blocks[to].number - lag)
        self.world.push(block.hash)

    # -- the nodes ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.sent)
    @rule(which=st.lists(WHICH, min_size=1, max_size=6), lost=st.booleans())
    def some_calls_end(self, which: list[int], lost: bool) -> None:
        for one in which:
            call = self.world.sent[one % len(self.world.sent)]
            if lost or self.world.nodes.index(call.node) in self.dead:
                call.lose()
            else:
                call.deliver()
        self.world.settle()

    @rule()
    def calls_end(self) -> None:
        for _ in range(3):
            for call in self.world.sent:
                if self.world.nodes.index(call.node) not in self.dead:
                    call.deliver()
            self.world.settle()

    @rule(which=st.integers(0, 2))
    def a_node_dies_or_comes_back(self, which: int) -> None:
        self.dead ^= {which}

    @precondition(lambda self: self.kind == "ethereum")
    @rule(which=st.integers(0, 2), tip=WHICH)
    def a_node_lies_or_stops_it(self, which: int, tip: int) -> None:
        node = self.world.nodes[which]
        self.lied = True
        node.lies = "" if node.lies else self.tips[tip % len(self.tips)]

    @precondition(lambda self: self.kind == "ethereum")
    @rule(depth=st.integers(1, 20), far=st.integers(17, 90))
    def the_head_goes_far_while_all_nodes_lie(self, depth: int, far: int) -> None:
        self.everything_arrives()
        tree = self.world.tree
        low = tree.below(self.tip, tree.blocks[self.tip].number - depth)
        lies = tree.grow(low.hash, depth + far)
        for node in self.world.nodes:
            node.lies, node.forgets = lies, True
        self.lied, self.far_lie = True, lies
        self.advance_far(far)

    @precondition(lambda self: self.kind == "ethereum")
    @rule(which=st.integers(0, 2))
    def a_node_forgets_what_was_left_or_keeps_it(self, which: int) -> None:
        node = self.world.nodes[which]
        node.forgets ^= True
        if self.far_lie and not node.forgets:
            self.world.believable.append(self.far_lie)

    @rule()
    def settings_change(self) -> None:
        self.world.renew()

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.wait(seconds)

    # -- the clients --------------------------------------------------------------------------------------------------

    def _comes(self, kind: str, wanted: LogFilter | None, first: int | None = None) -> None:
        if self.kind == "ethereum" and not self.world.last.hash:
            self.world.tell(self.world.served[-1])  # a head without a hash cannot be told from one that replaces it
        self.world.come(kind, wanted, first)

    @rule(wanted=WANTED)
    def a_client_comes(self, wanted: tuple[str, LogFilter | None]) -> None:
        self._comes(*wanted)

    @rule(wanted=WANTED, missed=st.integers(0, 40))
    def a_client_resumes(self, wanted: tuple[str, LogFilter | None], missed: int) -> None:
        self._comes(*wanted, max(1, self.world.network.view.head - missed))

    @precondition(lambda self: self.world.clients)
    @rule(which=WHICH, back=st.booleans())
    def a_client_goes(self, which: int, back: bool) -> None:
        client = self.world.clients[which % len(self.world.clients)]
        self.world.go(client)
        head = self.world.network.view.head
        seen = client.results[-1:]
        if back and seen and not seen[0].get("removed"):
            number = int(seen[0].get("blockNumber") or seen[0]["number"], 16)
            self._comes(client.kind, client.filter, min(head, number) + 1)

    @precondition(lambda self: self.world.clients)
    @rule(which=WHICH)
    def a_client_reads_no_more_or_reads_again(self, which: int) -> None:
        sink = self.world.clients[which % len(self.world.clients)].sink
        sink.unread = 0 if sink.unread else MAX_UNREAD_BYTES + 1

    @precondition(lambda self: self.world.clients)
    @rule(which=WHICH, more=st.integers(1, 9))
    def a_client_will_read_only_a_little_more(self, which: int, more: int) -> None:
        self.world.clients[which % len(self.world.clients)].sink.stalls_in = more

    @rule()
    def everything_arrives(self) -> None:
        self.dead.clear()
        blocks = self.world.tree.blocks
        # A client waits for the block that was served when it came, unless another one of that number replaces it.
        came = max((blocks[self.world.served[one.joined_at - 1]].number for one in self.world.clients), default=0)
        self.tip = self.world.tree.grow(self.tip, max(1, came - blocks[self.tip].number))
        for node in self.world.nodes:
            node.lies, node.tip = "", self.tip
        for client in self.world.clients:
            client.sink.unread = client.sink.stalls_in = 0
        self.world.tell(self.tip)
        self.world.calm()
        for client in list(self.world.clients):
            if not client.sink.closed:
                Judge(self.world.tree, self.world.served, client, self.world.believable).look(at_rest=True)
        self.every_stream_is_one_of_the_served_branch()
        self.rested, self.far_lie = (self.world.clock.now(), self.world.vain), ""


class FinalStreams(Streams):
    """The same on a chain whose blocks are final at once."""

    kind = "harmony"


def test_a_false_branch_that_nodes_give_by_number_and_by_hash_below_a_far_head_is_left_at_that_head() -> None:
    story = Streams()
    story.some_subscribe([(HEADS, None)])
    story.the_head_goes_far_while_all_nodes_lie(depth=1, far=65)
    story.calls_end()
    story.a_node_forgets_what_was_left_or_keeps_it(which=0)
    story.a_node_forgets_what_was_left_or_keeps_it(which=2)
    story.everything_arrives()
    story.teardown()


def test_a_client_is_not_sent_what_it_has_of_a_branch_that_is_served_again_before_it_was_sent_another() -> None:
    story = Streams()
    story.some_subscribe([(HEADS, None)])
    story.everything_arrives()
    story.reorganise(depth=3, more=0, nodes={0, 1}, told=True, gaps=[])
    story.calls_end()
    story.a_client_resumes((LOGS, FILTERS[1]), missed=0)
    story.world.tell(story.tips[0])
    story.everything_arrives()
    story.teardown()


@pytest.mark.hypothesis
@pytest.mark.parametrize("machine", [Streams, FinalStreams])
def test_every_stream_is_that_of_a_perfect_observer(machine: type[Streams]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(100), stateful_step_count=40))
