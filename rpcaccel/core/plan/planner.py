"""Makes plans: derives everything that follows from method, params and chain snapshot, once for each call.

The derivation has two halves. A `Shape` is what follows from method and params alone; `Planner.plan` binds a shape to a
snapshot. Both are remembered at the second call, so that a repeated call costs one lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import inf
from typing import Literal

from msgspec import Struct

from rpcaccel.core.memo import Memos
from rpcaccel.core.plan import block_range, cache_key
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.fast_params import ParamsReader
from rpcaccel.core.plan.params import Resolved, Shape, read_shape
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, LocalAnswer, Routes, Rule, RuleTable
from rpcaccel.core.stepwise import Steps

_STATIC, _FOREVER, _BY_NUMBER, _EPOCH, _HEAD, _NODE, _NEVER = CacheClass
"""Looked up once: access to an enum's member costs a tenth of a microsecond in Python 3.11, twenty times a plan."""

HashKey = Literal["method", "params", "first-param", "client"]

HOT_FROM = 2
"""Uses at one head from which a call is worth refreshing at the next head."""
_LONGEST_REMEMBERED = 4096
PLAN_BYTES = 1200
"""Bytes of a remembered plan beside its params (measured by tests/unit/core/plan/test_planner.py)."""


class Uses(Struct, gc=False):
    """The popularity of a call: how often it was planned, or answered from its template, at this head. It is counted
    from the second time on."""

    count: int = 2


class _Remembered(Struct, gc=False):
    """The shape and the last plan of a call."""

    shape: Shape
    serial: int
    """The serial of the snapshot at which the plan was made."""
    plan: Plan
    uses: Uses


class Pattern(Struct, frozen=True, gc=False):
    """What the plans of all calls of one method about the same block at one snapshot have in common: everything but the
    params. A call of a known pattern is planned by putting its params behind the pattern's prefixes."""

    cache: CacheClass
    final: bool
    prefix: bytes | None
    """The key, up to the params, of an answer that stays true; None: no such answer is kept."""
    head_prefix: bytes | None
    """The key, up to the params, of an answer that is true at this head."""
    shares_head: bool
    """Does the key at this head stand in the second tier as well?"""
    joins: Literal["call", "key", "head"]
    """By which text a flight is joined: the call as it was written at this head, the lasting key, the key at this
    head."""
    min_head: int
    tag: str
    hedge: bool
    routes_by: HashKey
    route_key: bytes
    """The key for a consistent-hash balancer, or what stands before the params in it."""


_LOOKED_AT = 128
"""Remembered plans that are looked at in one step."""
_MOST_PATTERNS, _MOST_CHANGED_PATTERNS = 512, 32
"""Patterns that are remembered at one snapshot: clients choose the blocks that calls are about."""
MOST_CHANGED_METHODS = 16
"""Methods that a planner with changed rules remembers: clients may bring about many such planners."""


class Planner:
    """Makes the plans of one network, for one event loop."""

    __slots__ = ("_change", "_final_at_once", "_hash_key", "_memos", "_most_methods", "_most_patterns",
                 "_network", "_pattern_view", "_patterns", "_plans",
                 "_prefixes", "_readers", "_rules", "_scope", "_tagged", "_tags", "routes")  # fmt: skip

    def __init__(
        self,
        network: str,
        rules: RuleTable,
        tags: frozenset[str],
        *,
        final_at_once: bool,
        hash_key: HashKey = "params",
        routes: Routes | None = None,
        memos: Memos | None = None,
    ) -> None:
        """`memos`: the budget in which remembered plans are counted."""
        self._memos = memos or Memos()
        self._most_patterns, self._most_methods = _MOST_PATTERNS, inf
        self._change: Callable[[Rule], Rule] | None = None
        """Changes the rules; None: they are as the table has them."""
        self._network = network
        self._rules = rules
        self._tags = tags
        self._final_at_once = final_at_once
        self._hash_key = hash_key
        self.routes = routes or Routes()
        self._forget()

    def _forget(self) -> None:
        """Begin with nothing remembered."""
        self._tagged: tuple[int, str | None, str | None, bytes] = -1, "", "", cache_key.network_tag(self._network, -1)
        """The chain id and the hashes of blocks 0 and 1 last seen, and the key tag that follows from them."""
        self._readers: dict[str, ParamsReader] = {}
        self._prefixes: dict[str, bytes] = {}
        """The key prefix of each method, under the current tag."""
        self._scope: tuple[int, int, bytes] = -1, -1, b""
        """The head and the fork epoch last seen, and the key scope that follows from them."""
        self._plans: dict[tuple[str, bytes], _Remembered] = {}
        self._patterns: dict[tuple[object, ...], Pattern] = {}
        self._pattern_view: ChainSnapshot | None = None
        """The snapshot at which the patterns were made."""

    def changed(self, change: Callable[[Rule], Rule], routes: Routes) -> Planner:
        """A planner with changed rules and other routes, which remembers for itself. A rule is changed when it is first
        needed, since a client may bring about a planner by a directive."""
        made = copy(self)
        made._change, made.routes = change, routes
        made._most_patterns, made._most_methods = _MOST_CHANGED_PATTERNS, MOST_CHANGED_METHODS
        made._forget()
        return made

    def plan(self, method: str, params: bytes, view: ChainSnapshot) -> Plan:
        """The plan of a call at the network's current snapshot."""
        name = (method, params)
        found = self._plans.get(name)
        if found is not None:
            found.uses.count += 1
            if found.serial == view.serial:
                return found.plan
            plan = found.plan = self._bind(found.shape, view)
            found.serial = view.serial
            return plan
        reader = self._readers.get(method) or self._reader(method)
        return self._bind(reader.read(params) or read_shape(method, params, reader.rule, self._tags), view)

    def remember(self, plan: Plan, view: ChainSnapshot) -> None:
        """Remember a plan made at the current snapshot, because the proxy has the answer, or waits for it: the call was
        made before."""
        shape, name = plan.shape, (plan.method, plan.asked)
        if shape is not None and name not in self._plans and len(plan.asked) <= _LONGEST_REMEMBERED:
            weight = PLAN_BYTES + len(plan.route_key) + shape.weight
            self._memos.put(self._plans, name, _Remembered(shape, view.serial, plan, Uses()), weight)

    def plan_at(self, method: str, params: bytes, view: ChainSnapshot) -> Plan:
        """The plan of a call at another snapshot than the network's current one; it is not remembered."""
        found = self._plans.get((method, params))
        if found is not None:
            return self._bind(found.shape, view)
        reader = self._reader(method)
        return self._bind(reader.read(params) or read_shape(method, params, reader.rule, self._tags), view)

    def unread(self, method: str, params: bytes) -> Plan:
        """The plan of a call that is refused: its params are not parsed, and nothing is remembered."""
        rule = self.rule(method)
        return Plan(network=self._network, method=method, rule=rule, params=params, asked=params, cache=rule.cache)

    def uses(self, method: str, params: bytes) -> Uses | None:
        """The use counter of a call whose plan is remembered, so that its uses can be counted without another plan."""
        found = self._plans.get((method, params))
        return None if found is None else found.uses

    def _reader(self, method: str) -> ParamsReader:
        reader = self._readers.get(method)
        if reader is None:
            rule = self.rule(method)
            reader = ParamsReader(method, rule, self._tags, self._memos)
            if rule.known:  # other names are unbounded: clients can invent them
                if len(self._readers) >= self._most_methods:
                    self._readers.clear()
                    self._prefixes.clear()
                self._readers[method] = reader
        return reader

    def hottest(self) -> Steps[list[tuple[str, bytes]]]:
        """The calls (method and params) used at least HOT_FROM times since the last call of `hottest`, most used
        first."""
        hot: list[tuple[int, tuple[str, bytes]]] = []
        for number, (name, found) in enumerate([*self._plans.items()]):
            if not number % _LOOKED_AT:
                yield
            if found.uses.count >= HOT_FROM:
                hot.append((found.uses.count, name))
            found.uses.count = 0
        hot.sort(key=lambda pair: -pair[0])
        return [name for _, name in hot]

    def rule(self, method: str) -> Rule:
        """The rule of a method on this network."""
        rule = self._rules.get(method)
        return rule if self._change is None else self._change(rule)

    def _bind(self, shape: Shape, view: ChainSnapshot) -> Plan:
        rule = shape.rule
        resolved = shape.fixed or shape.resolve(view)
        if view is not self._pattern_view or len(self._patterns) >= self._most_patterns:
            self._pattern_view = view
            self._patterns.clear()
        name = (shape.method, resolved.first, resolved.last, resolved.tip, shape.depth, shape.epoch, shape.opaque,
                shape.pending, shape.by_hash, shape.canonical_only, shape.resolvable)  # fmt: skip
        pattern = self._patterns.get(name)
        if pattern is None:
            pattern = self._patterns[name] = self._pattern(shape, resolved, view)
        prefix, head_prefix, params = pattern.prefix, pattern.head_prefix, resolved.key_params
        if len(params) > cache_key.LONGEST_PARAMS and (prefix is not None or head_prefix is not None):
            params = cache_key.short(params)
        key = None if prefix is None else prefix + params
        head_key = None if head_prefix is None else head_prefix + params
        lasting = () if key is None or pattern.cache is _NODE or rule.prove else (key,)
        if rule.kind == "send":
            flight_key = self._send_key(shape, view)
        elif rule.fresh:
            flight_key = None
        elif pattern.joins == "call" and head_key is not None:
            flight_key = head_key + b":" + shape.route_params
        else:
            flight_key = key if pattern.joins == "key" and key is not None else head_key or key
        if pattern.tag and flight_key is not None:  # who may ask others neither waits for these nor fails with them
            flight_key += b":" + pattern.tag.encode()
        if pattern.routes_by == "params":
            route_key = pattern.route_key + shape.route_params
        else:
            route_key = shape.first_param if pattern.routes_by == "first-param" else pattern.route_key
        return Plan(
            network=self._network,
            method=shape.method,
            rule=rule,
            params=resolved.params,
            asked=shape.params,
            cache=pattern.cache,
            key=key,
            head_key=head_key,
            shared_keys=(*lasting, head_key) if pattern.shares_head and head_key is not None else lasting,
            flight_key=flight_key,
            block=resolved.last if resolved.last >= 0 else None,
            head=view.head,
            first_block=resolved.first if resolved.first >= 0 else None,
            range=self._range(shape, resolved, view)
            if rule.split and head_key is not None and shape.resolvable
            else None,
            final=pattern.final,
            depth=shape.depth,
            min_head=pattern.min_head,
            route_key=route_key,
            tag=pattern.tag,
            hedge=pattern.hedge,
            pending=shape.pending,
            local=None if rule.local is None else _local_answer(shape, rule.local, view),
            note=shape.note,
            shape=shape,
        )

    def _pattern(self, shape: Shape, resolved: Resolved, view: ChainSnapshot) -> Pattern:
        """What follows for a call from everything but the text of its params."""
        rule = shape.rule
        cache = self._class(shape, resolved.tip, view)
        final = self._is_final(shape, cache, resolved, view)
        prefix, head_prefix = self._prefixes_of(shape, resolved, cache, final, view)
        # A flight for a tag may be planned again on the way (no node has the head any more, or a reorganisation) and
        # then ends with another block. A call that names a number must not share such a flight. A later call may only
        # join if the answer cannot be outdated by then.
        settled = cache is _BY_NUMBER and resolved.last + shape.depth <= min(view.final, view.head)
        # The identity of the caller is the key for answers that differ by node, too: every balancer leads a caller of
        # such a method to one node.
        routes_by: HashKey = "client" if rule.cache is _NODE else self._hash_key
        named = shape.method.encode()
        return Pattern(
            cache=cache,
            final=final,
            prefix=prefix,
            head_prefix=head_prefix,
            shares_head=self._final_at_once and cache is not _NODE and not rule.prove,
            joins="call" if resolved.tip else "key" if settled else "head",
            min_head=_min_head(shape, cache, resolved.last, view),
            tag=self.routes.tag_of(shape.method),
            hedge=rule.kind == "read" and rule.repeat and not rule.heavy and rule.known and rule.cache is not _NODE,
            routes_by=routes_by,
            route_key=named + b"|" if routes_by == "params" else named if routes_by == "method" else b"",
        )

    def _is_final(self, shape: Shape, cache: CacheClass, resolved: Resolved, view: ChainSnapshot) -> bool:
        """Can nothing change the answer any more?

        A block's hash fixes the block. A transaction's hash does not, where branches can be abandoned.
        """
        if cache is _FOREVER:
            return self._final_at_once or shape.by_hash or not shape.rule.may_move
        final = (
            view.final if self._final_at_once else view.settled
        )  # above the settled blocks, a hidden machine may be on another branch
        return cache is _STATIC or 0 <= resolved.last <= final

    def _class(self, shape: Shape, tip: bool, view: ChainSnapshot) -> CacheClass:
        """The class of the answer, with the block reference taken into account."""
        rule = shape.rule
        if shape.opaque:
            return _NEVER
        if shape.pending:
            return rule.pending_class
        if rule.epoch_at is not None and rule.cache in (_EPOCH, _HEAD):
            past = 0 <= shape.epoch < view.epoch
            return _FOREVER if past else rule.cache
        if rule.cache is _BY_NUMBER:
            if shape.by_hash:
                return _HEAD if shape.canonical_only and not self._final_at_once else _FOREVER
            if tip:
                return rule.tag_class
        return rule.cache

    def _prefixes_of(
        self, shape: Shape, resolved: Resolved, cache: CacheClass, final: bool, view: ChainSnapshot
    ) -> tuple[bytes | None, bytes | None]:
        """What stands before the params in the key of an answer that stays true, and of one that is true at this
        head."""
        if not view.known or cache is _NEVER or shape.rule.off:
            return None, None
        if cache is _NODE and not shape.rule.aged:
            return None, None
        prefix = self._prefix(shape.method, view)
        prefix += shape.rule.sure_scope
        if cache is _NODE:
            return prefix + cache_key.SCOPE_NODE + b":", None
        if cache is _STATIC:
            return prefix + cache_key.SCOPE_STATIC + b":", None
        if view.head < 0:
            return None, None
        at_head = prefix + self._scope_of(view) + b":"
        if cache is _FOREVER:
            return prefix + cache_key.SCOPE_HASH + b":", at_head
        if final and shape.resolvable and resolved.last >= 0:
            return prefix + cache_key.SCOPE_NUMBER + b":", at_head
        return None, at_head

    def _scope_of(self, view: ChainSnapshot) -> bytes:
        """The key scope of answers that are true at this head."""
        head, epoch, scope = self._scope
        if head != view.head or epoch != view.fork_epoch:
            scope = cache_key.scope_head(view.head, view.fork_epoch)
            self._scope = view.head, view.fork_epoch, scope
        return scope

    def _prefix(self, method: str, view: ChainSnapshot) -> bytes:
        """The key prefix of a method. Only methods with a rule get here, so the number of prefixes is bounded."""
        tag = self._tag(view)
        prefix = self._prefixes.get(method)
        if prefix is None:
            prefix = self._prefixes[method] = cache_key.method_prefix(tag, method)
        return prefix

    def _tag(self, view: ChainSnapshot) -> bytes:
        """The network's part of every key."""
        chain_id, genesis, block_one, tag = self._tagged
        if chain_id != view.eth_chain_id or genesis != view.genesis or block_one != view.block_one:
            tag = cache_key.network_tag(self._network, view.eth_chain_id, view.genesis or "", view.block_one or "")
            self._tagged = view.eth_chain_id, view.genesis, view.block_one, tag
            self._prefixes.clear()
        return tag

    def _range(self, shape: Shape, resolved: Resolved, view: ChainSnapshot) -> block_range.Range | None:
        """How the call may be split at this snapshot; None also where an override keeps less than segments need."""
        rule = shape.rule
        if not rule.split or rule.off or rule.max_age or rule.cache is not _BY_NUMBER:
            return None
        return block_range.read(rule, shape.tree, self._tag(view), resolved.first, resolved.last, shape.depth, view,
                           final_at_once=self._final_at_once)  # fmt: skip

    def _send_key(self, shape: Shape, view: ChainSnapshot) -> bytes | None:
        """The flight key of a raw transaction: byte-identical ones that go to the same nodes share a flight, other
        writes never (rule of truth 7)."""
        if not view.known:
            return None
        return cache_key.cache_key(self._tag(view), shape.method, cache_key.SCOPE_SEND, shape.params)


def full_method(method: str, prefix: str) -> str:
    """The full name of a method called on the path of a namespace: `getBalance` on `/api/v1/hmy/v2` is
    `hmyv2_getBalance`. A name with a prefix of its own is not changed."""
    return method if not prefix or "_" in method else prefix + method


def _local_answer(shape: Shape, local: LocalAnswer, view: ChainSnapshot) -> bytes | None:
    """The answer that the proxy gives itself; None with params, which are left to a node to refuse."""
    if shape.params != b"[]":
        return None
    facts = {
        "head": view.head,
        "eth_chain_id": view.eth_chain_id,
        "network_id": view.network_id,
    }
    value = facts[local.fact]
    if value < 0:
        return None
    if local.form == "hex":
        return b'"0x%x"' % value
    return b'"%d"' % value if local.form == "string" else b"%d" % value


def _min_head(shape: Shape, cache: CacheClass, block: int, view: ChainSnapshot) -> int:
    """The head that a node must have to be asked (rule of truth 4).

    A call about a block above every node's head goes to the nodes with the highest head.
    """
    if view.head < 0 or shape.rule.kind != "read" or cache in (_STATIC, _NODE):
        return -1
    if block < 0:
        return view.head
    wanted = block + shape.depth if shape.resolvable else max(view.head, block + shape.depth)
    return min(wanted, view.best)
