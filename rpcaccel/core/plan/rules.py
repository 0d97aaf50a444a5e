"""What is known about a method: a value read from a chain's table, never a branch on its name in code.

Rules of truth 1 and 2 (docs/architecture.md): every method has a rule, and the rule for a method nobody
described is written first: forward, never keep, never share, never hedge.

What the operator says about methods, laid over a chain's rules. It can only make the cache keep less, or for a
shorter time; the one thing it can add is an age for answers that differ by node, which nobody but the operator can
call good enough.

Which methods go to tagged nodes only: logs to the archive node, sends to a relay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.plan.permission import any_of

SkipTest = Literal["null", "empty-list", "empty-list-unless-genesis", "empty-string", "0x", "not-mined", "blobs"]
"""The result tests a rule may name (core.cache.retention holds them): what they find is not kept."""

Need = Literal["beacon-shard", "explorer", "archive-for-old-state", "auth-port", "flag"]
"""What a node may have to be before it can answer a method."""

Role = Literal["explorer", "archive"]
"""What a node may say of itself, in the words of the settings (`roles` of a node)."""

Kind = Literal["read", "send", "write", "filter-new", "filter-poll", "filter-drop", "subscribe"]
"""What a call does to a node. "send": hands over a signed transaction, whose bytes name it, and answers its hash;
"write": any other effect; a filter lives on the node that made it; a subscription needs a WebSocket."""


Form = Literal["", "scalar", "object", "list", "object-or-bool"]
"""What a result is at all, null aside: HTTP 200 can carry `[]` or `{}` where neither can be."""


class CacheClass(StrEnum):
    """How long an answer stays true. The order is from the most to the least lasting."""

    STATIC = "static"
    """Constant for a running chain."""
    FOREVER = "forever"
    """Named by a hash: true whenever it is there at all."""
    BY_NUMBER = "by-number"
    """Immutable once the block it names is final."""
    EPOCH = "epoch"
    """Turns over with the epoch; read anew at each head, since an epoch's last block already flips some."""
    HEAD = "head"
    """Depends on the newest block."""
    NODE = "node"
    """Differs by node: not shared unless the operator gives it an age."""
    NEVER = "never"
    """Writes, filters, subscriptions, and every method without a rule."""


class Bulkhead(IntEnum):
    """Calls of one bulkhead share a node's places; those of another never wait for them."""

    LIGHT = 0
    """Lookups, and everything that hands something over."""
    HEAVY = 1
    """What costs a node noticeably more than a lookup (`Rule.heavy`)."""
    UNKNOWN = 2
    """Methods without a rule: nobody knows what they cost, and clients invent names."""
    EXECUTION = 3
    """What runs code that the caller chose (`Rule.executes`): mostly as quick as a lookup, and at times as slow as the
    caller likes."""


class Spelling(StrEnum):
    """Which texts a node reads as a block reference, and how (docs/harmony.md section 6)."""

    HARMONY_NUMBER = "harmony-number"
    """26, "26", "0x1a", latest, earliest, pending, -1 = latest, -2 = pending; "0x0026" is decimal 26 to the node."""
    HARMONY_NUMBER_OR_HASH = "harmony-number-or-hash"
    """26, "0x1a", tags, -1, a 32-byte hash, {blockNumber|blockHash, requireCanonical}; no decimal strings."""
    HEX_OR_TAG = "hex-or-tag"
    """"0x1a" or a tag of the chain, nothing else (getLogs fields, debug, trace, every geth number argument)."""
    HEX_TAG_OR_HASH = "hex-tag-or-hash"
    """HEX_OR_TAG, a 32-byte hash, or the EIP-1898 object."""


class BlockArgument(Struct, frozen=True):
    """Where in the params the block reference stands."""

    at: int
    """Position in the positional params (of the last block, for a range)."""
    spelling: Spelling
    start: int | None = None
    """Position of the first block of a range whose last block stands `at`."""
    path: tuple[str, ...] = ()
    """Members of the object `at` that hold references: ("blockHash", "fromBlock", "toBlock") or ("blockNumber",)."""
    default: str | None = None
    """The tag that a missing argument means, where the chain allows it to be missing."""


class LocalAnswer(Struct, frozen=True):
    """An answer the proxy itself knows: which fact of the network, in which spelling."""

    fact: Literal["head", "eth_chain_id", "network_id"]
    form: Literal["hex", "int", "string"]


class Rule(Struct, frozen=True, kw_only=True):
    """Everything the proxy knows about one method."""

    method: str
    cache: CacheClass
    """The class when the reference is a plain number, or when there is none. A BY_NUMBER rule asked by block hash is
    FOREVER; a HEAD or NODE rule stays what it is whatever the reference says, which then only sets the node's head."""
    why: str = ""
    """One sentence for `explain`: where the class comes from."""
    block: BlockArgument | None = None
    tag_class: CacheClass = CacheClass.HEAD
    """The class when the reference is a tag that follows the head."""
    pending_class: CacheClass = CacheClass.NEVER
    """The class when the reference is `pending`."""
    depth: int = 0
    """Kept only when the block is at least this many blocks under the head, and asked only of nodes that far
    ahead (1: the signers of block N stand in block N+1)."""
    depth_if: tuple[str, ...] = ()
    """Names of boolean options (members of any object among the params) that switch `depth` to 1."""
    epoch_at: int | None = None
    """Position of an epoch number: a past epoch's answer never changes."""
    skip: tuple[SkipTest, ...] = ()
    """Names of result tests (core.cache.retention.TESTS) that forbid keeping."""
    null_may_fill: bool = False
    """A null answer may become something later: kept at most until the next head."""
    repeat: bool = True
    """May be sent again after a failure (idempotent)."""
    executes: bool = False
    """A node runs code that the caller chose: how long that takes says nothing of the node, and lookups neither travel
    with such a call nor wait for its place."""
    heavy: bool = False
    """Costs a node noticeably more than a lookup: never gathered with light calls, never hedged."""
    deny: bool = False
    """For the operator of a node: refused, unless the settings expose it."""
    needs: tuple[Need, ...] = ()
    """What a node must be to answer."""
    lacks_when: tuple[str, ...] = ()
    """Results, as raw JSON text, by which a node shows that it is not what `needs` asks for, where it answers so
    instead of with an error. A node that is never answers so."""
    prefers: Literal["", Role] = ""
    """Of the nodes that may be asked, those with this role are asked before the others."""
    limiter: str = ""
    """The node-side limiter of this method, in words ("5/s burst 10"); empty when there is none."""
    split: Literal["", "blocks", "logs"] = ""
    """How a range may be cut into pieces."""
    kind: Kind = "read"
    local: LocalAnswer | None = None
    """What the proxy answers itself. Only for empty params: to anything else nodes answer "too many arguments"."""
    copy_input_to_data: bool = False
    """The node reads only `data` of a call object: `input` alone is copied there (docs/harmony.md section 4)."""
    head_at: str = ""
    """Path to the answering node's own head in the result: members with dots between, "." for the result itself,
    "" for none. The number there is an integer or a hex string."""
    form: Form = ""
    """What a result looks like; empty where that is not certain."""
    gave_up: tuple[str, ...] = ()
    """Fragments of a result by which a node says that it gave the call up after its own time limit."""
    names_transaction: int | None = None
    """Position of a transaction's hash among the params: once it was sent through the proxy, it is looked up on a node
    that took it."""
    names_itself: Literal["", "keccak", "asked"] = ""
    """For a send: whether its hash is known from its bytes for certain, or is to be confirmed by a node that has it."""
    found_by: str = ""
    """For a send: the method that finds the transaction by its hash."""
    may_move: bool = False
    """Named by something that a reorg can carry into another block, such as a transaction: where blocks can still be
    replaced, such an answer is kept for good only once its block is settled, however lasting its class."""

    off: bool = False
    """The operator wants nothing of it kept or shared (core.plan.rules), as with the following ones."""
    max_age: float = 0.0
    """Seconds an answer may be served; 0: as long as it is true, and not at all where it differs by node."""
    stale: float = 0.0
    """Seconds after that during which it is served while one call fetches a new one."""
    origin: str = ""
    """Where the operator's word stands; empty when there is none."""

    @property
    def aged(self) -> bool:
        """Does the answer differ by node, and may it be kept for a while all the same?"""
        return self.cache is CacheClass.NODE and self.max_age > 0

    @property
    def known(self) -> bool:
        """False for the rule of a method nobody described, which may be one of endlessly many."""
        return bool(self.method)

    @property
    def bulkhead(self) -> Bulkhead:
        """Whose places on a node its calls take."""
        if self.heavy:
            return _HEAVY
        if self.executes:
            return _EXECUTION
        return _LIGHT if self.method else _UNKNOWN


_LIGHT, _HEAVY, _UNKNOWN, _EXECUTION = Bulkhead  # looked up once (core.plan.planner)
UNKNOWN = Rule(
    method="",
    cache=CacheClass.NEVER,
    why="no rule names this method: it is forwarded, never kept, never shared, never hedged",
    repeat=False,
)
"""The rule of every method no table names. Written first (rule of truth 1): to know nothing is to promise nothing."""


class Denied(Struct, frozen=True, forbid_unknown_fields=True):
    """Names by which nodes have methods for their operator, whether or not a rule describes each of them."""

    why: str
    patterns: tuple[str, ...]
    """As fnmatch has them, case-sensitive."""


class RuleTable:
    """The rules of one chain, by method name (case-sensitive, as nodes look names up)."""

    __slots__ = ("_denied", "_rules", "denied")

    def __init__(self, rules: dict[str, Rule], denied: Sequence[Denied] = ()) -> None:
        self.denied = tuple(denied)
        self._denied = tuple(
            (form, replace(UNKNOWN, why=one.why, kind="write", deny=True))
            for one in self.denied
            if (form := any_of(one.patterns)) is not None
        )
        self._rules = {method: self._deny(rule) for method, rule in rules.items()}

    def _deny(self, rule: Rule) -> Rule:
        if rule.deny or not any(form.match(rule.method) for form, _ in self._denied):
            return rule
        return replace(rule, deny=True)

    def get(self, method: str) -> Rule:
        """The rule of `method`. When no table names it: UNKNOWN, or one like it for what is denied by a pattern."""
        return self._rules.get(method) or next((rule for form, rule in self._denied if form.match(method)), UNKNOWN)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, method: str) -> bool:
        return method in self._rules

    def __repr__(self) -> str:
        return f"<RuleTable {len(self._rules)} methods>"


_ORDER = list(CacheClass)


class Override(Struct, frozen=True, kw_only=True):
    """One entry of the settings' `rules`."""

    pattern: str
    """A method's name, or a pattern (fnmatch, case-sensitive)."""
    cache: Literal["", "off", "head"] = ""
    """"off": never kept nor shared; "head": true at one head at most."""
    max_age: float = 0.0
    """Seconds an answer may be served; 0 says nothing."""
    stale: float = 0.0
    """Seconds after that during which it is still served while one call fetches a new one. Node class only."""
    origin: str = ""
    """Where it stands, for `explain`."""


def overridden(rules: RuleTable, overrides: Sequence[Override]) -> RuleTable:
    """The rules with what the operator says: a full name before every pattern, patterns in the order written."""
    if not overrides:
        return rules
    exact = {override.pattern: override for override in overrides}
    made = {}
    for rule in rules:
        override = exact.get(rule.method) or next(
            (one for one in overrides if fnmatchcase(rule.method, one.pattern)), None
        )
        made[rule.method] = rule if override is None else apply(rule, override)
    return RuleTable(made, rules.denied)


def apply(rule: Rule, override: Override) -> Rule:
    """The rule of one method as the operator wants it."""
    at_head = override.cache == "head"
    wanted = CacheClass.HEAD if at_head else CacheClass.STATIC
    return replace(
        rule,
        cache=_stricter(rule.cache, wanted),
        tag_class=_stricter(rule.tag_class, wanted),
        epoch_at=None if at_head else rule.epoch_at,  # a past epoch would last
        off=override.cache == "off",
        max_age=override.max_age,
        stale=override.stale if rule.cache is CacheClass.NODE else 0.0,
        origin=override.origin,
    )


def _stricter(one: CacheClass, other: CacheClass) -> CacheClass:
    return max(one, other, key=_ORDER.index)


_MOST_REMEMBERED = 4096


class TagRoute(Struct, frozen=True):
    """Methods of these names or patterns (fnmatch, case-sensitive) go to nodes with `tag`."""

    methods: tuple[str, ...]
    tag: str


class Routes:
    """The routes of a network; the first that fits a method decides."""

    __slots__ = ("_routes", "_tags")

    def __init__(self, routes: Sequence[TagRoute] = ()) -> None:
        self._routes = tuple(routes)
        self._tags: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Routes {', '.join(route.tag for route in self._routes) or 'none'}>"

    def tag_of(self, method: str) -> str:
        """The tag that a node must have to be asked; empty when any will do."""
        if not self._routes:
            return ""
        tag = self._tags.get(method)
        if tag is None:
            tag = next((route.tag for route in self._routes if _fits(route, method)), "")
            if len(self._tags) >= _MOST_REMEMBERED:  # clients invent names
                self._tags.clear()
            self._tags[method] = tag
        return tag


def _fits(route: TagRoute, method: str) -> bool:
    return any(fnmatchcase(method, pattern) for pattern in route.methods)
