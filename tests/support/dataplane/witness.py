"""What can happen in the world, one thing at a time, and what must hold after each.

Held for each answer (architecture section 5): not older than the head served when its call came in; never
another call's or another network's; never from a branch that was seen abandoned; and whatever is kept is what a fresh
node would say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import msgspec

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.rpc.calls import Answered
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.asked import Asked, draw
from tests.support.dataplane.branches_met import BranchesMet
from tests.support.dataplane.world import DEPTH, Host, World, network_of

LOST = (FailureKind.TIMEOUT, FailureKind.RESET_BEFORE_REPLY, FailureKind.CONNECT, FailureKind.BROKEN_REPLY)
OWN_CODES = (-32603, -32005)
"""Codes of the proxy's own errors: it could not get an answer, which is no lie."""
KEPT = (AnswerSource.MEMORY, AnswerSource.SHARED, AnswerSource.LOCAL)
"""What answers without asking a node."""
REMEMBERED = 30
"""Calls whose kept answers are looked at after every step."""
FORKING = "three"
NETWORKS = ("one", "one", "two", FORKING, FORKING)
"""The networks, those of which more is asked more often."""
STALLING = ("one-0", "one-1", "two-0", "three-0", "three-1")
"""The nodes that stall."""
SELECTIONS = (Selection(), Selection(network="one"), Selection(method="eth_getBalance"), Selection(network=FORKING))


class _Error(msgspec.Struct):
    code: int
    message: str = ""


class _Reply(msgspec.Struct):
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: _Error | msgspec.UnsetType = msgspec.UNSET


@dataclass(eq=False)
class Watched:
    """A client's call under way, and everything that is true for it so far, with the branch it is true on."""

    host: Host
    asked: Asked
    served: int
    task: asyncio.Task[Answered]
    truths: set[tuple[bytes, int]] = field(default_factory=set)
    since: int = 0
    """The first branch that the host had not seen abandoned when the call came in."""


def said(answer: Answer) -> bytes:
    """An answer as one text: nodes' errors are told from results."""
    return bytes(answer.result or b"") if answer.error is None else b"!" + answer.error


class Witness:
    """Does things to a world, and looks at every answer."""

    def __init__(self) -> None:
        self.world = World()
        self.watched: list[Watched] = []
        self.recent: list[Asked] = []
        self.seen: Counter[str] = Counter()
        """Answers looked at, by where they came from."""
        self.told: dict[tuple[str, str, bytes, int, int], tuple[set[bytes], tuple[float, ...] | None]] = {}
        """Everything that was ever true of a call, by branch and head, and the moment when that was last learned."""
        self.met = {host.name: self._meet() for host in self.world.hosts}
        """By host: the branches of the forking network."""

    def _meet(self) -> BranchesMet:
        return BranchesMet(self.world.chains[FORKING], self.world.nodes[FORKING])

    # -- what clients do ----------------------------------------------------------------------------------------------

    def call(self, host: int, network: str, which: int, offset: int, how: int, who: int) -> None:
        """A client asks something."""
        self._ask(self.world.hosts[host], draw(network, self.world.chains[network], which, offset, how, who))

    def call_again(self, host: int, which: int) -> None:
        """A client asks what was asked before, in the same words."""
        if self.recent:
            self._ask(self.world.hosts[host], self.recent[-1 - which % len(self.recent)])

    def leave(self, which: int) -> None:
        """A client hangs up."""
        if self.watched:
            self.watched.pop(which % len(self.watched)).task.cancel()
            self.world.settle()

    def _ask(self, host: Host, asked: Asked) -> None:
        served = host.state.networks[asked.network].view.head
        truths = self._truths(host, asked, served)
        task = self.world.start(host.ask(asked.network, asked.body))
        self.watched.append(Watched(host, asked, served, task, truths, self.met[host.name].oldest))
        if asked in self.recent:
            self.recent.remove(asked)
        self.recent = [*self.recent, asked][-REMEMBERED:]

    # -- what the network between does --------------------------------------------------------------------------------

    def answer(self, which: int, *, back: bool) -> None:
        """A call reaches its node, or an answer gets back: in any order."""
        if self.world.sent:
            sent = self.world.sent[which % len(self.world.sent)]
            if back:
                sent.deliver()
            else:
                sent.arrive()
            self.world.settle()

    def lose(self, which: int, kind: FailureKind) -> None:
        """A call, or its answer, is lost."""
        if self.world.sent:
            self.world.sent[which % len(self.world.sent)].fail(kind)
            self.world.settle()

    def redis(self, which: int, *, write: bool) -> None:
        """Redis gets something done."""
        shared = self.world.shared
        if write and shared.writes:
            shared.write(which % len(shared.writes))
        elif shared.reads:
            shared.answer(which % len(shared.reads))
        self.world.settle()

    def redis_dies_or_comes_back(self) -> None:
        """It forgets everything when it dies."""
        shared = self.world.shared
        shared.up = not shared.up
        shared.held.clear()

    # -- what the chain does ------------------------------------------------------------------------------------------

    def advance(self, network: str, blocks: int) -> None:
        """New blocks."""
        if network == FORKING:
            self._keep_final(self.world.chains[network].head + blocks - DEPTH)
        self.world.chains[network].advance(blocks)
        self._learn(network)

    def _keep_final(self, final: int) -> None:
        """What is final is so because most nodes hold it: before a turn gets so deep, all but one have followed it."""
        turns = self.world.chains[FORKING].branch.turns
        for node in self.world.nodes[FORKING][::2]:
            left = [start for start, branch in turns if branch > node.knobs.branch >= 0]
            if left and min(left) <= final + 1:
                node.knobs.branch, node.knobs.stall = -1, False

    def stall(self, name: str) -> None:
        """A node's head stands still, or it catches up with everything, the branch included."""
        knobs = self.world.by_id[name].knobs
        if knobs.stall:
            knobs.branch = -1
        knobs.stall = not knobs.stall

    def reorganise(self, depth: int, late: int) -> None:
        """The newest blocks are replaced; the nodes of the bits in `late`, and those that stall, do not follow yet."""
        chain = self.world.chains[FORKING]
        for bit, node in enumerate(self.world.nodes[FORKING]):
            if node.knobs.branch == -1 and (late >> bit & 1 or node.knobs.stall):
                node.knobs.branch = len(chain.branches) - 1
        chain.reorg(depth)
        self._learn(FORKING)

    def follow(self, which: int) -> None:
        """A node goes over to the branch that counts."""
        knobs = self.world.nodes[FORKING][which].knobs
        if not knobs.stall:
            knobs.branch = -1

    # -- what the control plane and the operator do -------------------------------------------------------------------

    def probe(self, host: int, node: SimNode) -> None:
        """A host's prober looks at one node; the data plane is not told yet."""
        name, looking = network_of(node), self.world.hosts[host]
        if node.name in {part.id for part in self.world.settings.networks[name].nodes}:
            self.world.run(looking.probe(node))
            if name == FORKING:
                self.met[looking.name].probe(node)

    def tell(self, host: int, network: str) -> None:
        """A host's data plane hears what its prober knows."""
        told = self.world.hosts[host]
        served = told.state.networks[network]
        before = served.view.fork_epoch
        self.world.run(told.see(network))
        if served.view.fork_epoch != before:
            self._fall_back(told, served.view.head)
        if network == FORKING:
            self.met[told.name].tell()
        self.world.settle()

    def _fall_back(self, host: Host, head: int) -> None:
        """With a reorganisation, and with nothing else, the served head may go back for calls under way."""
        for call in self.watched:
            if call.host is host and call.asked.network == FORKING:
                call.served = min(call.served, head)
        self._learn(FORKING)

    def look(self, network: str) -> None:
        """A round of probing, and everybody hears of it."""
        for host in range(len(self.world.hosts)):
            for node in self.world.nodes[network]:
                self.probe(host, node)
            self.tell(host, network)

    def send(self, network: str) -> None:
        """A transaction goes into the pools."""
        self.world.send(network)
        self._learn(network)

    def adopt(self, without: frozenset[str], weights: dict[str, int], attempts: int) -> None:
        """New settings."""
        self.world.run(self.world.adopt(self.world.settings_with(without, weights, attempts=attempts)))

    def restart(self, host: int) -> None:
        """A host is started anew, and looks at everything."""
        gone = self.world.hosts[host]
        for call in [call for call in self.watched if call.host is gone]:
            call.task.cancel()
            self.watched.remove(call)
        self.world.restart(host)
        self.met[gone.name] = self._meet()  # what it had seen is forgotten
        for node in self.world.by_id.values():
            self.probe(host, node)
        for network in self.world.kinds:
            self.tell(host, network)
        self.look(FORKING)  # a second look shows what two nodes have in common

    def purge(self, host: int, selection: Selection) -> None:
        """The operator empties the cache, or a part of it."""
        self.world.run(self.world.hosts[host].purge(selection))

    def anything(self, rng: Random) -> None:
        """One thing of MOVES, the usual ones more often, and a look at everything."""
        (name,) = rng.choices(list(MOVES), [often for often, _ in MOVES.values()])
        MOVES[name][1](self, rng)
        self.look_at_everything()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def look_at_everything(self) -> None:
        """Every answer given since the last look, and every kept one that may be given next."""
        self.world.settle()
        under_way = []
        for call in self.watched:
            if not call.task.done():
                under_way.append(call)
            elif not call.task.cancelled():
                self._check(call, call.task.result())
        self.watched = under_way
        for asked in self.recent:
            for host in self.world.hosts:
                self._check_kept(host, asked)

    def _check_kept(self, host: Host, asked: Asked) -> None:
        network = host.state.networks[asked.network]
        outcome = host.engine.answer_now(network, network.plan(asked.method, asked.params))
        if outcome is not None and outcome.source is AnswerSource.MEMORY:
            truths, now = self._truths(host, asked, network.view.head), self.met[host.name].oldest
            self._hold(host, asked, outcome.result or b"", truths, "kept", (now, ""))

    def _check(self, call: Watched, answered: Answered) -> None:
        reply = msgspec.json.decode(answered.body, type=_Reply)
        outcome = answered.outcomes[0]
        truths, source = call.truths, outcome.source.name.lower()
        if outcome.source not in KEPT and outcome.block < call.served:
            # The nodes at the head were waited for and the best one left was followed: the answer says to where.
            truths, source = self._truths(call.host, call.asked, outcome.block), "followed"
        if isinstance(reply.result, msgspec.Raw):
            self._hold(call.host, call.asked, bytes(reply.result), truths, source, (call.since, outcome.node))
        elif isinstance(reply.error, _Error) and reply.error.code not in OWN_CODES:
            self.seen["error"] += 1
            errors = [truth for truth, _ in truths if truth.startswith(b"!")]
            assert any(reply.error.message.encode() in error for error in errors), (call.asked, reply.error, errors)

    def _hold(
        self, host: Host, asked: Asked, result: bytes, truths: set[tuple[bytes, int]], where: str, by: tuple[int, str]
    ) -> None:
        self.seen[where] += 1
        any_branch, met = asked.by_hash or asked.network != FORKING, self.met[host.name]
        allowed = {truth for truth, branch in truths if any_branch or met.allows(branch, *by)}
        assert result in allowed, f"{where}: {asked.method} {asked.params!r} was {result[:300]!r}, of {allowed}"

    def _oldest(self, host: Host, asked: Asked) -> int:
        """The first branch an answer may come from. What names its block by the block's hash may come from any."""
        return 0 if asked.by_hash or asked.network != FORKING else self.met[host.name].oldest

    def _learn(self, network: str) -> None:
        """The chain moved: more is true now for the calls under way."""
        for call in self.watched:
            if call.asked.network == network:
                call.truths |= self._truths(call.host, call.asked, call.served)

    def _truths(self, host: Host, asked: Asked, served: int) -> set[tuple[bytes, int]]:
        """What nodes may say now: at any head from the served one on, on any branch there is."""
        chain = self.world.chains[asked.network]
        return {
            (truth, branch)
            for branch in range(self._oldest(host, asked), len(chain.branches))
            for head in range(min(served, chain.head), chain.head + 1)
            for params in self._readings(host, asked, head)
            for truth in self._told(asked, params, branch, head)
        }

    def _told(self, asked: Asked, params: bytes, branch: int, head: int) -> set[bytes]:
        """What a node may have said up to now, there: a transaction that is sent, or moves, changes what is said."""
        call, moment = (asked.network, asked.method, params, branch, head), self.world.moment(asked.network)
        told, learned = self.told.get(call, (set(), None))
        if learned != moment:
            told.add(said(self.world.truth(*call)))
            self.told[call] = told, moment
        return told

    def _readings(self, host: Host, asked: Asked, head: int) -> Iterable[bytes]:
        """What a tag may stand for: the proxy's own last final block is as good as the node's."""
        yield asked.params
        if b'"finalized"' in asked.params:
            for number in range(host.state.networks[asked.network].view.final, head - DEPTH + 1):
                yield asked.at("finalized", number)


Move = Callable[[Witness, Random], object]


def _times(most: int, move: Move) -> Move:
    """The move once or up to `most` times."""
    return lambda witness, rng: [move(witness, rng) for _ in range(rng.randint(1, most))]


def _some_call(witness: Witness, rng: Random) -> None:
    host, network = rng.choice([0, 0, 1]), rng.choice(NETWORKS)
    witness.call(host, network, rng.randrange(30), rng.randint(-3, 2), rng.randrange(4), rng.randrange(4))


def _some_head(witness: Witness, rng: Random) -> None:
    network = rng.choice(NETWORKS)
    witness.advance(network, 1)
    witness.look(network)


def _some_reorganisation(witness: Witness, rng: Random) -> None:
    witness.reorganise(rng.randint(1, DEPTH // 2), rng.randrange(8))


def _some_turn(witness: Witness, rng: Random) -> None:
    _some_reorganisation(witness, rng)
    witness.advance(FORKING, rng.randint(0, 1))
    witness.look(FORKING)


def _some_settings(witness: Witness, rng: Random) -> None:
    out = frozenset(name for name in ("one-2", "two-1") if rng.random() < 0.3)
    witness.adopt(out, {"one-0": rng.randint(0, 3), "one-1": rng.randint(0, 3)}, rng.randint(1, 3))


MOVES: dict[str, tuple[int, Move]] = {
    "call": (20, _times(3, _some_call)),
    "call_again": (16, _times(3, lambda witness, rng: witness.call_again(rng.randrange(2), rng.randrange(4)))),
    "leave": (1, lambda witness, rng: witness.leave(rng.randrange(10))),
    "answer": (20, _times(5, lambda witness, rng: witness.answer(rng.randrange(10), back=rng.random() < 0.6))),
    "lose": (2, lambda witness, rng: witness.lose(rng.randrange(10), rng.choice(LOST))),
    "redis": (10, _times(6, lambda witness, rng: witness.redis(rng.randrange(10), write=rng.random() < 0.4))),
    "quiet": (6, lambda witness, _: witness.world.let_through()),
    "death": (1, lambda witness, _: witness.redis_dies_or_comes_back()),
    "advance": (3, lambda witness, rng: witness.advance(rng.choice(NETWORKS), rng.randint(1, 2))),
    "head": (10, _some_head),
    "stall": (3, lambda witness, rng: witness.stall(rng.choice(STALLING))),
    "reorganise": (1, _some_reorganisation),
    "turn": (3, _some_turn),
    "follow": (3, lambda witness, rng: witness.follow(rng.randrange(3))),
    "send": (2, lambda witness, rng: witness.send(rng.choice(NETWORKS))),
    "probe": (5, lambda witness, rng: witness.probe(rng.randrange(2), rng.choice(list(witness.world.by_id.values())))),
    "tell": (5, lambda witness, rng: witness.tell(rng.randrange(2), rng.choice(["one", "two", FORKING]))),
    "look": (4, lambda witness, rng: witness.look(rng.choice(NETWORKS))),
    "wait": (2, lambda witness, rng: witness.world.clock.advance(rng.choice([0.5, 3.0, 40.0]))),
    "adopt": (3, _some_settings),
    "restart": (1, lambda witness, rng: witness.restart(rng.randrange(2))),
    "purge": (1, lambda witness, rng: witness.purge(rng.randrange(2), rng.choice(SELECTIONS))),
}
"""Everything that can happen: how often it does, and what is done then."""
