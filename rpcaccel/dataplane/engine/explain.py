"""Explains how a worker would answer a call. Nothing is changed or counted, and no node is asked."""

from __future__ import annotations

from math import isinf

from rpcaccel.config.sections import WebSocketSettings
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.dispatch import sole_fetch
from rpcaccel.core.dispatch.broadcast import ALONE
from rpcaccel.core.explanation import (
    Candidate,
    Explanation,
    HeldAnswer,
    RefusedNode,
    because,
    keeping,
    living,
    proving,
    retrying,
    telling,
)
from rpcaccel.core.live.subscription import Replay
from rpcaccel.core.nodes.eligibility import explain
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan import filter_id
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stats.counters import SHARED_TIER
from rpcaccel.dataplane.engine.engine import FILTER_KINDS, Engine
from rpcaccel.dataplane.networks.network import Network


async def explanation(
    worker: str, engine: Engine, network: Network, method: str, params: bytes, sockets: WebSocketSettings
) -> Explanation:
    """The plan of a call at this moment, the entries that the tiers hold, and the nodes that would be asked."""
    plan = network.plan(method, params)
    live = living(plan, network.chain.live, Replay(network.view.head, sockets.replay), sockets=sockets.enabled)
    refusal = engine.exposure.refusal(plan.method, denied=plan.rule.deny)
    nodes, refused, forced = ((), (), False) if live or refusal else _nodes(engine, network, plan)
    unknown = network.sight.seen_forms.unknown_of(plan.rule.method)
    proof = "" if refusal else proving(plan, network.chain.provable, unknown, proves=network.proves)
    held = [*_in_memory(worker, engine, network, plan), *(await _further(worker, engine, network, plan))]
    return Explanation(
        worker=worker,
        network=network.name,
        chain=network.chain.name,
        method=plan.method,
        known=plan.rule.known,
        why=because(plan),
        origin=_origin(network, plan),
        cache=str(plan.cache),
        asked=_text(plan.asked),
        forwarded=_text(plan.params),
        note=plan.note,
        local=None if plan.local is None else _text(plan.local),
        head=network.view.head,
        block=plan.block,
        first_block=plan.first_block,
        final=plan.final,
        min_head=plan.min_head,
        key=None if plan.key is None else _text(plan.key),
        head_key=None if plan.head_key is None else _text(plan.head_key),
        shared=tuple(map(_text, plan.shared_keys)) if engine.shared else (),
        on_disk=(_text(plan.lasting_key),) if engine.on_disk and plan.lasting_key is not None else (),
        in_flight=plan.flight_key is not None and plan.flight_key in engine.flights,
        keeping=(refusal,) if refusal else _keeping(engine, network, plan),
        held=tuple(held),
        nodes=nodes,
        refused=refused,
        forced=forced,
        retries="" if live or refusal else _retries(network, plan, len(nodes)),
        proof=proof,
        live=live,
    )


def _keeping(engine: Engine, network: Network, plan: Plan) -> tuple[str, ...]:
    shared, disk = engine.shared, engine.on_disk
    block_time, most = network.chain.block_time, engine.memory.max_entry
    said = keeping(plan, network.view, block_time, most, shared=shared, disk=disk)
    if plan.local is not None or not (shared and plan.shared_keys):
        return said
    priced = network.settings.price > 0
    return *said, sole_fetch.sentence(
        plan.rule, network.pool.nodes, engine.store_pace.ewma, engine.single_flight, priced=priced
    )


def _retries(network: Network, plan: Plan, nodes: int) -> str:
    pool = network.pool
    if plan.rule.kind == "send":
        return telling((pool.broadcast if network.private_route(plan) is None else ALONE).wanted(nodes))
    budget, now = pool.budget, pool.clock()
    return retrying(plan, pool.settings.attempts, budget.left(now), budget.left_apart(now))


def _origin(network: Network, plan: Plan) -> str:
    if not (plan.rule.known or plan.rule.deny):
        return "no rule"
    file = f"chains/{network.chain.name}.toml"
    return f"{file}, changed by {plan.rule.origin}" if plan.rule.origin else file


def _served(engine: Engine, network: Network, plan: Plan, entry: Entry) -> bool:
    """Would a caller be answered with this entry now?"""
    old = plan.rule.max_age and engine.now() - entry.stored_at > plan.rule.max_age + plan.rule.stale
    return not (old or engine.sends.doubts(network, plan, entry.result))


def _in_memory(worker: str, engine: Engine, network: Network, plan: Plan) -> list[HeldAnswer]:
    now = engine.now()
    found = [(key, engine.memory.peek(key, now)) for key in (plan.key, plan.head_key) if key is not None]
    if plan.rule.of_block and plan.kept and (holder := engine.holder(network, plan)) is not None:
        found.append(holder[1:])
    return [
        _held("memory", worker, key, entry, now, served=_served(engine, network, plan, entry))
        for key, entry in found
        if entry is not None
    ]


async def _further(worker: str, engine: Engine, network: Network, plan: Plan) -> list[HeldAnswer]:
    """What the tiers behind memory hold."""
    lasting = [] if plan.lasting_key is None or not engine.on_disk else [plan.lasting_key]
    asked = [("disk", engine.disk, key) for key in lasting]
    asked += [(SHARED_TIER, engine.store, key) for key in plan.shared_keys if engine.shared]
    held = []
    for tier, store, key in asked:
        entry = await store.get(key)
        if entry is None:
            continue
        left = await store.left(key)
        served = _served(engine, network, plan, entry)
        held.append(_held(tier, worker, key, entry, engine.now(), served=served, left=left))
    return held


def _held(
    tier: str, worker: str, key: bytes, entry: Entry, now: float, *, served: bool, left: float | None = None
) -> HeldAnswer:
    return HeldAnswer(
        tier=tier,
        worker=worker,
        key=_text(key),
        left=left if left is not None or isinf(entry.expires) else max(0.0, entry.expires - now),
        age=max(0.0, now - entry.stored_at),
        size=len(entry.result),
        block=entry.block,
        served=served,
    )


def _nodes(engine: Engine, network: Network, plan: Plan) -> tuple[tuple[Candidate, ...], tuple[RefusedNode, ...], bool]:
    pool = network.pool
    found = explain(pool.nodes, plan, pool.clock())
    order = pool.balancer.preview(found.nodes, plan.route_key)
    order += [node for node in found.nodes if node not in order]
    preferred = _preferred(engine, network, plan)
    order.sort(key=lambda node: node.id not in preferred)  # stable: the balancer's order otherwise
    others = (*found.refused, *found.standing_by)
    candidates = tuple(_candidate(node, preferred) for node in order)
    return candidates, tuple(RefusedNode(node.id, why) for node, why in others), found.forced


def _preferred(engine: Engine, network: Network, plan: Plan) -> tuple[str, ...]:
    if plan.rule.kind in FILTER_KINDS:
        read = filter_id.read(plan.asked, network.name, (node.id for node in network.pool.nodes))
        return () if read is None else (read.node,)
    return engine.sends.holders(network, plan)


def _candidate(node: Node, preferred: tuple[str, ...]) -> Candidate:
    return Candidate(
        id=node.id,
        head=node.head,
        in_flight=node.in_flight,
        latency=node.latency.ewma if node.latency.known else None,
        preferred=node.id in preferred,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
