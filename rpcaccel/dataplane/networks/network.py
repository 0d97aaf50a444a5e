"""A network as a worker serves it: its chain, its nodes, and what is known of its head."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy

from rpcaccel.chains import Chain
from rpcaccel.config.model import NetworkSettings
from rpcaccel.core.cache.block_contents import BlockContents
from rpcaccel.core.cache.known_hashes import KnownHashes
from rpcaccel.core.directives import DirectiveError, Directives
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.dispatch.sampling import Sampling, SamplingSettings
from rpcaccel.core.memo import Memos
from rpcaccel.core.nodes.outage import Absence
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import Override, TagRoute, overridden, proved_fully, routed
from rpcaccel.core.proof.known_chain import KnownBlocks, SeenForms
from rpcaccel.core.stats.counters import Cell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks import settings_mapping
from rpcaccel.dataplane.upstream.pool import NodePool

REFRESH_SPAN = 30.0
"""Seconds over which node calls count for the share that may be spent on refreshes: more than a block of any chain."""


class ChainState:
    """What is known of a network, whatever settings it is served with. Calls that are under way when the settings
    change learn of new heads and reorganisations like all others."""

    __slots__ = (
        "_waiting",
        "absence",
        "block_time",
        "contents",
        "doubted",
        "forgetting",
        "hashes",
        "known_blocks",
        "seen_forms",
        "suspects",
        "view",
    )  # fmt: skip

    def __init__(self) -> None:
        self.view = ChainSnapshot()
        self.hashes = KnownHashes()
        self.contents = BlockContents()
        self.known_blocks = KnownBlocks()
        self.seen_forms = SeenForms()
        self.absence = Absence()
        """The outage of the nodes that have the served head, as calls see it."""
        self.block_time: float | None = None
        """Seconds that a block takes, as the control plane measured; None while that is not known."""
        self.doubted = -1
        """The value of `Served.doubted` that was seen last."""
        self.forgetting = False
        """Are answers about final blocks being purged? Until that has ended, no block is final."""
        self.suspects: frozenset[str] = frozenset()
        """The nodes whose answers are kept nowhere, because some were disproved, or contradicted beyond chance."""
        self._waiting: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def see(self, view: ChainSnapshot) -> None:
        """Take the new view, and wake everyone who waits for a change."""
        self.view = view
        self.wake()

    def wake(self) -> None:
        """Wake everyone who waits for a node: one came along, though the view is the same."""
        waiting, self._waiting = self._waiting, {}
        for woken, timer in waiting.items():
            timer.cancel()
            woken()

    def wait(self, seconds: float, woken: Callable[[], None]) -> None:
        """Call `woken` when the view changes or a node comes along, or after `seconds`."""
        self._waiting[woken] = asyncio.get_running_loop().call_later(seconds, self._expire, woken)

    async def turned(self, fork_epoch: int, seconds: float) -> None:
        """Wait until the fork epoch is another one, at most so many seconds."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while self.view.fork_epoch == fork_epoch and (left := ends - loop.time()) > 0:
            changed = asyncio.Event()
            self.wait(left, changed.set)
            await changed.wait()

    def leave(self, woken: Callable[[], None]) -> None:
        """Forget `woken`; nothing happens when it does not wait."""
        timer = self._waiting.pop(woken, None)
        if timer is not None:
            timer.cancel()

    def _expire(self, woken: Callable[[], None]) -> None:
        self.leave(woken)
        woken()


class Network:
    """The state of a network in one worker. Its settings never change: new settings make a new `Network`."""

    __slots__ = ("_cells", "_judging", "_tally", "chain", "final_at_once", "has_proved_reads", "memos", "name",
                 "planner", "pool", "proves", "refreshes", "sampling", "settings", "sight")  # fmt: skip

    def __init__(
        self,
        name: str,
        settings: NetworkSettings,
        chain: Chain,
        pool: NodePool,
        tally: Tally,
        sight: ChainState,
        memos: Memos,
        sampling: SamplingSettings,
    ) -> None:
        """The network as `settings` say.

        Args:
            memos: the budget for what is remembered of calls.
            sampling: how many answers this worker compares.
        """
        self.memos = memos
        self.name = name
        self.settings = settings
        self.chain = chain
        self.pool = pool
        self.sight = sight
        self.final_at_once = chain.finality_with(settings.finality_depth)[0] == "instant"
        """Is no block ever replaced?"""
        self.proves = settings.prove != "off"
        """Are answers judged before they are given?"""
        self._judging: Network | None = None
        """The value of `judging`; None: this network."""
        routes = settings_mapping.routes(settings)
        rules = routed(overridden(chain.rules, _overrides(name, settings)), routes)
        if settings.prove == "full":
            rules = proved_fully(rules)
        self.has_proved_reads = any(rule.prove for rule in rules)
        """Must the answers to some reads be proved, whatever a call says?"""
        self.planner = Planner(
            name,
            rules,
            chain.tags,
            final_at_once=self.final_at_once,
            hash_key=settings.hash_key,
            routes=routes,
            memos=memos,
        )
        self.refreshes = Budget(share=settings.refresh, floor=0.0, span=REFRESH_SPAN)
        """The calls to nodes add to it whenever the head moves; calls that are then fetched again are paid from it."""
        self.refreshes.count_up_to(pool.budget.calls, pool.clock())
        self.sampling = Sampling(sampling)
        self.keep_pace(sight.block_time)
        self._tally = tally
        self._cells: dict[str, Cell] = {}

    def __repr__(self) -> str:
        return f"<network {self.name} head {self.view.head} {len(self.pool.nodes)} nodes>"

    @property
    def view(self) -> ChainSnapshot:
        """The chain snapshot of now."""
        return self.sight.view

    @property
    def block_time(self) -> float:
        """The seconds that a block takes, by which calls wait."""
        return settings_mapping.block_time(self.settings, self.chain.block_time, self.sight.block_time)

    def keep_pace(self, measured: float | None) -> None:
        """Wait from now on by the block time that was measured (seconds)."""
        self.sight.block_time = measured
        self.pool.settings = settings_mapping.dispatch(self.settings, self.block_time)
        self.pool.most_lag = settings_mapping.most_lag(self.settings, self.block_time)

    def directed(self, directives: Directives) -> Network:
        """The network as calls with these directives see it. All state but that of the planner is the same.

        Raises:
            DirectiveError: the network has no such nodes.
        """
        name = directives.node
        nodes = [node for node in self.pool.nodes if not name or name == node.id or name in node.tags]
        if name and not nodes:
            raise DirectiveError(f"X-Rpcaccel-Node: expected the id or a tag of a node of {self.name}")
        if directives.agree > len(nodes):
            which = f"that X-Rpcaccel-Node names in {self.name}" if name else f"of {self.name}"
            raise DirectiveError(f"X-Rpcaccel-Agree: expected at most {len(nodes)}, the nodes {which}")
        made = copy(self)
        made.planner = self.planner.changed(directives.changed, directives.routed(self.planner.routes))
        made.proves = self.proves or directives.prove
        if directives.prove:
            alone = Directives(prove=True)
            made._judging = None if directives == alone else self.directed(alone)
        else:
            made._judging = self.judging
        return made

    @property
    def judging(self) -> Network:
        """The network as the calls see it by which answers are judged: no directive holds for them but that answers are
        to be proved."""
        return self._judging or self

    def plan(self, method: str, params: bytes) -> Plan:
        """The plan of a call at the snapshot of now."""
        return self.planner.plan(method, params, self.sight.view)

    def replan(self, plan: Plan) -> Plan:
        """The plan of the same call at the snapshot of now, on the same terms."""
        fresh = self.plan(plan.method, plan.asked)
        return fresh if plan.terms is None else fresh.on(plan.terms)

    def cell(self, plan: Plan) -> Cell:
        """The counters of the method of this call."""
        cell = self._cells.get(plan.method)
        if cell is None:
            cell = self._tally.cell(self.name, plan.method, plan.rule.cache)
            if plan.rule.known:
                self._cells[plan.method] = cell
        return cell

    def private_route(self, plan: Plan) -> TagRoute | None:
        """The route by which one node alone is told of a transaction; None: several nodes are."""
        route = self.planner.routes.of(plan.method) if plan.tag else None
        return None if route is None or route.broadcast else route

    def may_be_abandoned(self, plan: Plan, node_id: str, fork_epoch: int) -> bool:
        """May an answer belong to a branch that was left meanwhile? That is so when a reorganisation was noticed since
        `fork_epoch`, or when the node that answered is no longer known to be on the branch that is served."""
        if plan.final and plan.block is None:
            return False
        if not plan.final and self.view.fork_epoch != fork_epoch:
            return True
        return not self.final_at_once and any(
            node.id == node_id and node.head < plan.min_head for node in self.pool.nodes
        )

    def see(self, view: ChainSnapshot) -> None:
        """Take a new view: plans are made anew, and everyone who waits for a change goes on."""
        self.sight.see(view)


def _overrides(name: str, settings: NetworkSettings) -> list[Override]:
    """The overrides of rules in the settings."""
    return [
        Override(pattern=pattern, origin=f'networks.{name}.rules."{pattern}"', **said.model_dump())
        for pattern, said in settings.rules.items()
    ]
