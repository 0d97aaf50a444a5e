"""The rules of methods: what the proxy knows about a method, as values from a chain's table and the settings.

No code branches on the name of a method. Every method has a rule (rules of truth 1 and 2); the rule for a method that
no table describes is: forward, never keep, never share, never hedge.

Overrides of the operator are applied to a chain's rules. They can make the cache keep less, or for a shorter time. The
one thing they can add is a maximum age for answers that differ by node, because only the operator can accept those.

Routes send methods to tagged nodes only: logs to the archive node, sends to a relay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase, translate
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

SkipTest = Literal["null", "empty-list", "empty-list-unless-genesis", "empty-string", "0x", "not-mined", "blobs"]
"""The tests of results that a rule may name (core.cache.retention): a result that matches is not kept."""

Need = Literal["beacon-shard", "explorer", "archive-for-old-state", "auth-port", "flag"]
OLD_STATE: Need = "archive-for-old-state"
"""The capability that calls about the state of an old block need."""
"""A capability that a node may need to answer a method."""

Role = Literal["explorer", "archive", "observer"]
"""A role that a node may report about itself, in the words of the settings (`roles` of a node). An observer proposes no
blocks, as an explorer does not."""

RangeForm = Literal["blocks", "logs", "traces"]
"""The form of the answer to a range: one item for each block, or logs or traces, which name their block."""
ShownContent = Literal["", "block", "transaction", "receipt", "receipts", "logs", "state"]
"""What results show of a chain; "receipts" are those of one block, "state" is an account with its proof."""

StatePart = Literal["", "balance", "nonce", "code", "place"]
"""What a read gives of an account: "place" is one place of its storage."""

MethodKind = Literal["read", "send", "write", "filter-new", "filter-poll", "filter-drop", "subscribe"]
"""The effect of a call on a node. "send" submits a signed transaction and returns its hash; "write" is any other
effect. A filter lives on the node that made it. A subscription needs a WebSocket."""


ResultForm = Literal["", "scalar", "number", "object", "list", "object-or-bool"]
"""The JSON type of every result other than null: nodes sometimes answer `[]` or `{}` where neither is possible.
A number may be a hex string, which has digits: `"0x"` says that there is nothing."""


class CacheClass(StrEnum):
    """How long an answer stays true, from the longest to the shortest."""

    STATIC = "static"
    """Constant for a running chain."""
    FOREVER = "forever"
    """Named by a hash: always true once it exists."""
    BY_NUMBER = "by-number"
    """Immutable once the block it names is final."""
    EPOCH = "epoch"
    """Changes with the epoch. Keyed by the head, because some answers change with the epoch's last block already."""
    HEAD = "head"
    """Depends on the newest block."""
    NODE = "node"
    """Differs by node: not shared unless the operator sets a maximum age."""
    NEVER = "never"
    """Writes, filters, subscriptions, and every method without a rule."""


class Bulkhead(IntEnum):
    """A group of calls with places of its own on each node: no group waits for the places of another."""

    LIGHT = 0
    """Lookups, and sends of transactions."""
    HEAVY = 1
    """Calls that cost a node noticeably more than a lookup (`Rule.heavy`)."""
    UNKNOWN = 2
    """Methods without a rule: their cost is unknown, and clients can invent names."""
    EXECUTION = 3
    """Calls that run code chosen by the caller (`Rule.executes`): usually as quick as a lookup, but as slow as the
    caller likes."""


class Spelling(StrEnum):
    """The forms of block references that a node accepts (docs/harmony.md section 6)."""

    HARMONY_NUMBER = "harmony-number"
    """26, "26", "0x1a", latest, earliest, pending, -1 = latest, -2 = pending; "0x0026" is decimal 26 to the node."""
    HARMONY_NUMBER_OR_HASH = "harmony-number-or-hash"
    """26, "0x1a", tags, -1, a 32-byte hash, {blockNumber|blockHash, requireCanonical}; no decimal strings."""
    HEX_OR_TAG = "hex-or-tag"
    """"0x1a" or a tag of the chain, nothing else (getLogs fields, debug, trace, every geth number argument)."""
    HEX_TAG_OR_HASH = "hex-tag-or-hash"
    """HEX_OR_TAG, a 32-byte hash, or the EIP-1898 object."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORTEST_START = 3
"""Characters that the beginning of a member has at the least, so that few results have it by chance."""
_LIGHT, _HEAVY, _UNKNOWN, _EXECUTION = Bulkhead  # looked up once (core.plan.planner)


class BlockArgument(Struct, frozen=True):
    """The position of the block reference in the params."""

    at: int
    """Index in the params of the reference; for a range, that of its last block."""
    spelling: Spelling
    start: int | None = None
    """Index in the params of a range's first block; None when the call is about no range."""
    path: tuple[str, ...] = ()
    """Members of the object at `at` that hold references: ("blockHash", "fromBlock", "toBlock") or ("blockNumber",)."""
    default: str | None = None
    """The tag that a missing argument stands for; None when the argument is required."""


class LocalAnswer(Struct, frozen=True):
    """An answer that the proxy gives itself: a fact about the network, in the spelling of the method."""

    fact: Literal["head", "eth_chain_id", "network_id"]
    form: Literal["hex", "int", "string"]


class LateMember(Struct, frozen=True):
    """A member of results that is null until its value is known, while nothing else shows that the answer changes."""

    start: bytes
    """How the member begins. Nearly no result has that text, and searching for it costs little."""
    null: re.Pattern[bytes]
    """Matches the member while it is null."""

    @classmethod
    def named(cls, name: str) -> LateMember:
        """The member of this name, or all whose names begin with it where it ends with an asterisk. Raises ValueError
        for any other pattern."""
        start = name.removesuffix("*")
        if len(start) < _SHORTEST_START or not _NAME.fullmatch(start):
            raise ValueError(f"{name!r}: expected the name of a member, or its beginning and an asterisk")
        rest = rb'[^"\\]*' if name.endswith("*") else b""
        return cls(b'"' + start.encode(), re.compile(rb'"%b%b"\s*:\s*null' % (start.encode(), rest)))


class Rule(Struct, frozen=True, kw_only=True):
    """Everything that the proxy knows about one method."""

    method: str
    cache: CacheClass
    """The class when the block reference is a number, or when there is none. With a block hash, a BY_NUMBER rule
    becomes FOREVER. A HEAD or NODE rule keeps its class; the reference then only determines the head that a node must
    have."""
    why: str = ""
    """A sentence for `explain`, saying where the class comes from."""
    block: BlockArgument | None = None
    tag_class: CacheClass = CacheClass.HEAD
    """The class when the reference is a tag that follows the head."""
    pending_class: CacheClass = CacheClass.NEVER
    """The class when the reference is `pending`."""
    depth: int = 0
    """Blocks that must lie above the block before an answer is kept or a node is asked (1: the signers of block N are
    in block N+1)."""
    depth_if: tuple[str, ...] = ()
    """Boolean options (members of any object among the params) that set `depth` to 1."""
    epoch_at: int | None = None
    """Index in the params of an epoch number. The answer for a past epoch never changes."""
    skip: tuple[SkipTest, ...] = ()
    """Tests of results (core.cache.retention.TESTS); a result that matches is not kept."""
    null_may_fill: bool = False
    """Null may become a value later, so it is kept at most until the next head."""
    fills_later: tuple[LateMember, ...] = ()
    """Members that the chain names (`fills_later`): an answer in which one is null is kept at most until the next
    head."""
    valued: bool = False
    """A node that has the block that the call is about, if any, never answers null."""
    repeat: bool = True
    """The call is idempotent and may be sent again after a failure."""
    executes: bool = False
    """The call runs code chosen by the caller. Its latency says nothing about the node, and lookups neither share a
    batch with it nor wait for its place."""
    heavy: bool = False
    """The call costs a node noticeably more than a lookup: never batched with light calls, never hedged."""
    deny: bool = False
    """The method is meant for a node's operator: refused unless the settings expose it."""
    needs: tuple[Need, ...] = ()
    """Capabilities that a node needs to answer."""
    lacks_when: tuple[str, ...] = ()
    """Results (raw JSON text) that a node without the needed capability gives instead of an error. A node that has the
    capability never gives them."""
    prefers: Literal["", Role] = ""
    """Eligible nodes with this role are asked before the others."""
    limiter: str = ""
    """The rate limiter that nodes have for this method ("5/s burst 10"); empty when there is none."""
    split: RangeForm | Literal[""] = ""
    """How a range may be split into segments (core.plan.block_range); empty when it may not."""
    kind: MethodKind = "read"
    local: LocalAnswer | None = None
    """The answer that the proxy gives itself, for empty params only: nodes refuse any argument."""
    copy_input_to_data: bool = False
    """The node reads only `data` of a call object, so a lone `input` is copied to `data` (docs/harmony.md section
    4)."""
    head_at: str = ""
    """Path to the answering node's own head in the result: members joined by dots, "." for the result itself, "" for
    none. The number is an integer or a hex string."""
    form: ResultForm = ""
    """The JSON type of the result; empty when it is not certain."""
    gave_up: tuple[str, ...] = ()
    """Fragments of a result that show that the node gave up the call after its own time limit."""
    names_transaction: int | None = None
    """Index in the params of a transaction's hash. A transaction that was sent through the proxy is looked up on a node
    that took it."""
    names_itself: Literal["", "keccak", "asked"] = ""
    """For a send: "keccak" when its bytes give its hash for certain, "asked" when a node must confirm the hash."""
    found_by: str = ""
    """For a send: the method that looks up a transaction by its hash."""
    shows: ShownContent = ""
    """What the result shows, so that it can be judged by arithmetic (core.proof.judge). Empty: it is not judged."""
    of_block: bool = False
    """Is the result a block, the receipts of one, or a transaction or a receipt of one, which a node writes alike in
    the answers to all of these methods (core.cache.block_contents)? `shows` says which."""
    part: StatePart = ""
    """For a read of the state: what the result is of the account that the first param names, so that it can be taken
    from a proof of that account (core.proof.state)."""
    rewrites: bool = False
    """For a write: it changes state, time or blocks without a new block, as on a node for development, so that nothing
    that was kept before is true for certain."""
    may_move: bool = False
    """The call names something that a reorganisation can move to another block, such as a transaction. Its answer is
    kept for good only once its block is settled, whatever its class."""

    off: bool = False
    """Set by an override: no answer is kept or shared."""
    max_age: float = 0.0
    """Set by an override: seconds for which an answer may be served. 0: as long as it is true, and not at all where it
    differs by node."""
    stale: float = 0.0
    """Set by an override: seconds after `max_age` in which the answer is still served while a new one is fetched."""
    agree: int = 1
    """Set by an override: the number of nodes that must give the same answer before the client gets it."""
    prove: bool = False
    """Set by an override: the client gets only what a proof shows."""
    fully: bool = False
    """Set where all is to be proved (`prove = "full"`): is the result judged by other calls as well, where it takes
    some?"""
    fresh: bool = False
    """Set by a directive (core.directives): nothing that was kept is given, and no flight under way is joined."""
    unkept: bool = False
    """Set by a directive: the answer is not kept."""
    kept_only: bool = False
    """Set by a directive: no node is asked."""
    origin: str = ""
    """Where the override is written in the settings, or the directive that wants proof or agreement; empty when there
    is none."""
    known: bool = field(default=False, name="(known)")
    """Does a table describe the method? The number of methods that no table describes is unbounded. Derived."""
    bulkhead: Bulkhead = field(default=Bulkhead.UNKNOWN, name="(bulkhead)")
    """The bulkhead of calls to this method. Derived; read several times for each call."""
    roles: tuple[Need, ...] = field(default=(), name="(roles)")
    """The capabilities of `needs` that only some nodes have. Derived."""
    old_state: bool = field(default=False, name="(old state)")
    """Does a call about an old block need a node that keeps old state? Derived."""

    sure_scope: bytes = field(default=b"", name="(sure scope)")
    """What stands before the scope in the key of an answer that was proved, as far as it can be, or that `agree` nodes
    gave alike; nothing for that of one node. Such an answer counts more, so that neither is found under the key of the
    other. Derived."""

    def __post_init__(self) -> None:
        bulkhead = _HEAVY if self.heavy else _EXECUTION if self.executes else _LIGHT if self.method else _UNKNOWN
        force_setattr(self, "known", bool(self.method))
        force_setattr(self, "bulkhead", bulkhead)
        force_setattr(self, "roles", tuple([need for need in self.needs if need != OLD_STATE]))
        force_setattr(self, "old_state", OLD_STATE in self.needs)
        proved, agreed = b"p." * (self.prove or self.fully), b"a%d." % self.agree * (self.agree > 1)
        force_setattr(self, "sure_scope", proved + agreed)

    @property
    def agreeable(self) -> bool:
        """May several nodes be asked, because their answers should be the same and the call changes nothing?"""
        read = self.known and self.kind == "read" and self.repeat
        return read and self.cache is not CacheClass.NODE and self.local is None

    @property
    def aged(self) -> bool:
        """May the answer be kept for a time although it differs by node?"""
        return self.cache is CacheClass.NODE and self.max_age > 0


UNKNOWN_RULE = Rule(
    method="",
    cache=CacheClass.NEVER,
    why="no rule names this method: it is forwarded, never kept, never shared, never hedged",
    repeat=False,
)
"""The rule of every method that no table describes (rule of truth 1)."""


def any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """A regular expression for names that match any of the patterns; None without patterns."""
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None


class Denied(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of methods that are meant for a node's operator, whether or not a rule describes them."""

    why: str
    patterns: tuple[str, ...]
    """Names and fnmatch patterns, case-sensitive."""
    rewrites: bool = False
    """Do these methods change state, time or blocks without a new block (`Rule.rewrites`)?"""


class RuleTable:
    """The rules of one chain, by method name (case-sensitive, as in nodes)."""

    __slots__ = ("_denied", "_rules", "denied")

    def __init__(self, rules: dict[str, Rule], denied: Sequence[Denied] = ()) -> None:
        self.denied = tuple(denied)
        self._denied = tuple(
            (form, replace(UNKNOWN_RULE, why=one.why, kind="write", deny=True, rewrites=one.rewrites))
            for one in self.denied
            if (form := any_of(one.patterns)) is not None
        )
        self._rules = {method: self._deny(rule) for method, rule in rules.items()}

    def _deny(self, rule: Rule) -> Rule:
        denied = next((one for form, one in self._denied if form.match(rule.method)), None)
        return rule if denied is None else replace(rule, deny=True, rewrites=rule.rewrites or denied.rewrites)

    def changed(self, change: Callable[[Rule], Rule]) -> RuleTable:
        """A table of `change(rule)` for each rule, which denies the same methods."""
        made = copy(self)
        made._rules = {rule.method: change(rule) for rule in self}
        return made

    def get(self, method: str) -> Rule:
        """The rule of `method`; without one, UNKNOWN_RULE or its denied variant if a pattern denies the method."""
        return self._rules.get(method) or next(
            (rule for form, rule in self._denied if form.match(method)), UNKNOWN_RULE
        )

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
    """A method's name, or an fnmatch pattern (case-sensitive)."""
    cache: Literal["", "off", "head"] = ""
    """"off": never kept or shared; "head": kept until the next head at most; empty: not changed."""
    max_age: float = 0.0
    """Seconds for which an answer may be served; 0: not changed."""
    stale: float = 0.0
    """Seconds after `max_age` in which the answer is still served while a new one is fetched; class NODE only."""
    agree: int = 1
    """The number of nodes that must give the same answer; 1: not changed."""
    prove: bool = False
    """Must the answer be proved? Holds for reads of the state (`Rule.part`), for which it comes before `agree`."""
    origin: str = ""
    """Where the override is written in the settings, for `explain`."""


def overridden(rules: RuleTable, overrides: Sequence[Override]) -> RuleTable:
    """Apply overrides to rules: a full name comes before every pattern, and patterns apply in the order written."""
    exact = {override.pattern: override for override in overrides}

    def change(rule: Rule) -> Rule:
        matching = (one for one in overrides if fnmatchcase(rule.method, one.pattern))
        override = exact.get(rule.method) or next(matching, None)
        return apply(rule, override) if override else rule

    return rules.changed(change)


def proved_fully(rules: RuleTable) -> RuleTable:
    """The same rules where all that results show is to be proved."""
    return rules.changed(lambda rule: replace(rule, fully=bool(rule.shows)))


def apply(rule: Rule, override: Override) -> Rule:
    """Apply an override to the rule of one method."""
    at_head, prove = override.cache == "head", override.prove and bool(rule.part)
    wanted = CacheClass.HEAD if at_head else CacheClass.STATIC
    return replace(
        rule,
        cache=_stricter(rule.cache, wanted),
        tag_class=_stricter(rule.tag_class, wanted),
        epoch_at=None if at_head else rule.epoch_at,  # the answer for a past epoch would outlast the head
        off=override.cache == "off",
        max_age=override.max_age,
        stale=override.stale if rule.cache is CacheClass.NODE else 0.0,
        agree=override.agree if override.agree > 1 and rule.agreeable and not prove else rule.agree,
        prove=prove,
        origin=override.origin,
    )


def _stricter(one: CacheClass, other: CacheClass) -> CacheClass:
    return max(one, other, key=_ORDER.index)


_MOST_REMEMBERED = 4096


ID_OR_TAG = "@"
"""What stands before a name that is the id or a tag of a node, and between that and a tag which the node needs as well,
which may be empty. No id or tag has it."""


class TagRoute(Struct, frozen=True):
    """Sends methods with these names or fnmatch patterns (case-sensitive) to nodes with `tag`."""

    methods: tuple[str, ...]
    tag: str
    agree: int = 0
    """The number of nodes that must give the same answer; 0: as the rule says."""
    broadcast: bool = True
    """Is a signed transaction told to several nodes?"""
    fallback: int = 0
    """Blocks after which a transaction that was told to one node, and that no block has, is sent as without the route;
    0: never."""


class Routes:
    """The routes of a network; the first one that matches a method decides."""

    __slots__ = ("_otherwise", "_routes", "_tags")

    def __init__(self, routes: Sequence[TagRoute] = (), otherwise: str = "") -> None:
        """`otherwise`: the tag that a node needs for methods without a route; empty: none."""
        self._routes = tuple(routes)
        self._otherwise = otherwise
        self._tags: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Routes {', '.join(route.tag for route in self._routes) or 'none'}>"

    def otherwise(self, tag: str) -> Routes:
        """The same routes, with a tag for the methods that have none."""
        return Routes(self._routes, tag)

    def among(self, name: str, otherwise: str) -> Routes:
        """The same routes among the nodes with this id or tag, and these nodes with the tag `otherwise`, if it is not
        empty, for the methods that have no route."""
        routes = [replace(one, tag=f"{ID_OR_TAG}{name}{ID_OR_TAG}{one.tag}") for one in self._routes]
        return Routes(routes, f"{ID_OR_TAG}{name}{ID_OR_TAG}{otherwise}")

    def of(self, method: str) -> TagRoute | None:
        """The route of a method; None when no route names it."""
        return next((one for one in self._routes if any(fnmatchcase(method, name) for name in one.methods)), None)

    def tag_of(self, method: str) -> str:
        """The tag that a node needs to be asked; empty when no tag is needed."""
        if not self._routes:
            return self._otherwise
        tag = self._tags.get(method)
        if tag is None:
            tag = route.tag if (route := self.of(method)) else self._otherwise
            if len(self._tags) >= _MOST_REMEMBERED:  # bounded, because clients can invent names
                self._tags.clear()
            self._tags[method] = tag
        return tag


def routed(rules: RuleTable, routes: Routes) -> RuleTable:
    """The rules with the agreement that the routes of their methods ask for; a rule of the settings comes first."""

    def change(rule: Rule) -> Rule:
        route = routes.of(rule.method)
        may_agree = rule.agree == 1 and rule.agreeable and not rule.prove
        wanted = route.agree if route is not None and may_agree else 0
        return replace(rule, agree=wanted) if wanted else rule

    return rules.changed(change)
