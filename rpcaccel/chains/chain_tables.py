"""Reads a chain from its TOML file. Every error names the file, the table and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.chains.chain import Chain, ExaminationTable, Identity, LiveTable, PublicNetwork, RangeLimit
from rpcaccel.core.agreement.equality import Differences, Incomparable
from rpcaccel.core.heads.served_head import Finality
from rpcaccel.core.live.header import HeaderForm
from rpcaccel.core.plan.rules import CacheClass, Denied, LateMember, RangeForm, Rule, RuleTable, any_of
from rpcaccel.core.proof.forms import ProofForm
from rpcaccel.core.replies.error_rules import ErrorRule, ErrorTable
from rpcaccel.core.replies.failure import FailureKind

_T = TypeVar("_T")
_DIRECTORY = resources.files("rpcaccel.chains")
_TABLES = {"chain", "rules", "denied", "forms", "errors"}
_ELSEWHERE = {"method": "expected full names under methods", "fills_later": "expected in the table [chain] only"}
"""The members of a Rule that no [[rules]] table gives, and where they stand."""
_OWN = {"base", "chain_ids", "differences", "fills_later", "errors_from", "denied_from", "public"}
"""Keys of [chain] that a chain does not have from its base, or has beside those of its base."""


class ChainError(ValueError):
    """A chain file is wrong. The message names the file, the table and the key."""


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    """The table [chain]."""

    block_time: float
    finality: Finality
    tags: frozenset[str]
    identity: Identity
    live: LiveTable = LiveTable()
    examination: ExaminationTable = ExaminationTable()
    provable: ProofForm = ProofForm()
    finality_depth: int = 0
    paths: dict[str, str] = {}
    ranges: dict[RangeForm, RangeLimit] = {}
    base: str = ""
    """A chain of whose kind this one is: what this file does not say is as that chain's file says. The methods,
    differences and members that fill later of both count, and so do the rows of errors, this file's first."""
    chain_ids: frozenset[int] = frozenset()
    """The chain ids by which nodes of this chain are told from those of its base."""
    public: tuple[PublicNetwork, ...] = ()
    differences: Differences = Differences()
    fills_later: tuple[str, ...] = ()
    """Members of results, at any depth, that are null until their values are known: names, or beginnings with an
    asterisk."""
    errors_from: str = ""
    """A chain whose error rows are tried after those of this file, where it is not of that chain's kind."""
    denied_from: str = ""
    """A chain whose denied methods (by pattern or by rule) are denied here too, likewise."""


class _Group(Rule, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[rules]] table: one rule for many methods. Or one [[forms]] table: members that are set in the rules of many
    methods."""

    method: str = ""
    why: str
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def rules(self) -> Iterator[Rule]:
        """The rule of each method: of every name in every namespace, and of the full names."""
        said = {field: getattr(self, field) for field in Rule.__struct_fields__}
        for method in self.full_names():
            yield Rule(**said | {"method": method})

    def full_names(self) -> Iterator[str]:
        """Every name in every namespace, and the full names."""
        yield from (f"{namespace}_{name}" for namespace in self.namespaces for name in self.names)
        yield from self.methods


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One [[errors]] table. An item of `contains` is a fragment, or a list of fragments that must all match."""

    kind: FailureKind
    why: str
    codes: frozenset[int] = frozenset()
    statuses: frozenset[int] = frozenset()
    equals: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    contains: tuple[str | tuple[str, ...], ...] = ()
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    def rule(self) -> ErrorRule:
        """The row as an ErrorRule, with texts in lower case."""
        groups = ((group,) if isinstance(group, str) else group for group in self.contains)
        return ErrorRule(
            kind=self.kind,
            why=self.why,
            codes=self.codes,
            statuses=self.statuses,
            equals=tuple(text.lower() for text in self.equals),
            starts=tuple(text.lower() for text in self.starts),
            contains=tuple(tuple(text.lower() for text in group) for group in groups),
            words=tuple(re.compile(words, re.DOTALL) for words in self.words),
            unless=tuple(re.compile(words, re.DOTALL) for words in self.unless),
        )


@cache
def names() -> tuple[str, ...]:
    """The names of all chains: one for each TOML file of this package."""
    found = (entry.name for entry in _DIRECTORY.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


@cache
def load(name: str) -> Chain:
    """The chain of this name; each file is read once.

    Raises:
        ChainError: the chain does not exist, or its file is wrong.
    """
    if name not in names():
        raise ChainError(f"no chain is called {name!r}: there are {', '.join(names())}")
    return read(name, _text(name))


def of_chain_id(chain_id: int | None) -> Chain | None:
    """The chain whose file claims this chain id; None where no file does."""
    return next((chain for chain in map(load, names()) if chain_id in chain.chain_ids), None)


def read(name: str, text: str) -> Chain:
    """Read a chain from the TOML document `text`.

    Raises:
        ChainError: the message names the file, the table and the key.
    """
    file = f"{name}.toml"
    document, base = _document(name, text)
    head = _convert(file, "[chain]", document["chain"], _Head)
    late = _late(file, head.fills_later, base)
    denying = _other(file, name, "denied_from", head.denied_from)
    after = _other(file, name, "errors_from", head.errors_from) or base
    rules = _rules(file, document, base, denying, late)
    traced = any_of(head.examination.traced)
    return Chain(
        name=name,
        rules=rules,
        errors=_errors(file, document, base, after),
        base=head.base,
        chain_ids=head.chain_ids,
        public=head.public,
        block_time=head.block_time,
        finality=head.finality,
        finality_depth=head.finality_depth,
        tags=head.tags,
        paths=MappingProxyType(head.paths),
        identity=head.identity,
        late=late,
        live=head.live,
        header=HeaderForm(
            left_out=any_of(head.live.leaves_out),
            constant={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in head.live.constant.items()},
            extra=head.live.extra_members,
        ),
        examination=head.examination,
        provable=head.provable,
        untraced=frozenset(rule.method for rule in rules if traced is not None and traced.match(rule.method)),
        ranges=MappingProxyType({str(way): limit for way, limit in head.ranges.items()}),
        differences=_differences(head.differences, rules, base),
    )


def _document(name: str, text: str) -> tuple[dict[str, Any], Chain | None]:
    """The tables of a chain's file, with what [chain] has from the chain's base, and the base."""
    file = f"{name}.toml"
    document = _tables(file, text)
    said = document["chain"]
    base = _named(file, name, "base", said.get("base"))
    if base is None:
        return document, None
    theirs = _tables(f"{base}.toml", _text(base))["chain"]
    if theirs.get("base"):
        raise ChainError(f"{file}: [chain], key base: {base} is of the kind of {theirs['base']}: name that one")
    document["chain"] = _over({key: value for key, value in theirs.items() if key not in _OWN}, said)
    return document, load(base)


def _tables(file: str, text: str) -> dict[str, Any]:
    """The tables of a file, of which [chain] is one."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ChainError(f"{file}: not TOML: {fault}") from fault
    unknown = sorted(document.keys() - _TABLES)
    if unknown:
        raise ChainError(f"{file}: unknown table {unknown[0]!r}: expected one of {', '.join(sorted(_TABLES))}")
    if not isinstance(document.get("chain"), dict):
        raise ChainError(f"{file}: the table [chain] is missing")
    return document


def _over(base: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """The keys of a table over those of another one, and so on in the tables that both have. A call is one value."""
    both = {key for key in base.keys() & said.keys() if isinstance(base[key], dict) and isinstance(said[key], dict)}
    return base | said | {key: _over(base[key], said[key]) for key in both if "method" not in said[key]}


def _text(name: str) -> str:
    return _DIRECTORY.joinpath(f"{name}.toml").read_text("utf-8")


def _named(file: str, name: str, key: str, other: Any) -> str | None:
    """The name of another chain that a key of [chain] gives; None when it gives none."""
    if not other:
        return None
    if other == name or other not in names():
        raise ChainError(f"{file}: [chain], key {key}: there is no other chain {other!r}")
    return str(other)


def _other(file: str, name: str, key: str, other: Any) -> Chain | None:
    """The chain that a key of [chain] names; None when it names none."""
    named = _named(file, name, key, other)
    return None if named is None else load(named)


def _late(file: str, named: Sequence[str], base: Chain | None) -> tuple[LateMember, ...]:
    """The members that fill later: those that the file names, and those of `base`."""
    try:
        return (*map(LateMember.named, named), *(base.late if base else ()))
    except ValueError as fault:
        raise ChainError(f"{file}: [chain], key fills_later: {fault}") from fault


def _each(file: str, document: dict[str, Any], table: str) -> Iterator[tuple[str, Any]]:
    """The entries of an array of tables, each with a text that says where it is in the file."""
    entries = document.get(table, [])
    if not isinstance(entries, list):
        raise ChainError(f"{file}: {table} is written [[{table}]], once for each entry")
    for number, entry in enumerate(entries, start=1):
        yield f"[[{table}]] number {number}", entry


def _rules(
    file: str, document: dict[str, Any], base: Chain | None, denying: Chain | None, late: tuple[LateMember, ...]
) -> RuleTable:
    """The rules of this file over those of `base`, with the methods that this file, `base` and `denying` deny, and the
    members that fill later in any result."""
    own: dict[str, Rule] = {}
    for place, group, _ in _groups(file, document, "rules"):
        for rule in group.rules():
            if rule.method in own:
                raise ChainError(f"{file}: {place}, key names: {rule.method} has a rule already")
            own[rule.method] = rule
    rules = {rule.method: rule for rule in base.rules} | own if base else own
    rules = {method: replace(rule, fills_later=late) for method, rule in rules.items()}
    for place, group, given in _groups(file, document, "forms", why="", cache=CacheClass.NEVER):
        for method in group.full_names():
            if method not in rules:
                raise ChainError(f"{file}: {place}, key names: {method} has no rule")
            rules[method] = replace(rules[method], **given)
    denied = [_convert(file, *entry, Denied) for entry in _each(file, document, "denied")]
    for chain in {other.name: other for other in (base, denying) if other is not None}.values():
        denied += chain.rules.denied
    if denying is not None:
        by_rule = tuple(rule.method for rule in denying.rules if rule.deny)
        denied.append(Denied(f"for the operator of a node of {denying.name}", by_rule))
    return RuleTable(rules, denied)


def _groups(
    file: str, document: dict[str, Any], table: str, **absent: str
) -> Iterator[tuple[str, _Group, dict[str, Any]]]:
    """The groups of an array of tables, each with a text that says where it is in the file, and with the members of a
    rule that it gives. `absent`: members that a rule needs and this table need not give."""
    for where, entry in _each(file, document, table):
        place = where + _first_name(entry)
        group = _convert(file, place, {**absent, **entry} if isinstance(entry, dict) else entry, _Group)
        for key, said in _ELSEWHERE.items():
            if getattr(group, key):
                raise ChainError(f"{file}: {place}, key {key}: {said}")
        if bool(group.namespaces) != bool(group.names) or not (group.names or group.methods):
            raise ChainError(f"{file}: {place}, key names: give namespaces and names, or methods with their full names")
        yield place, group, {key: getattr(group, key) for key in entry if key in Rule.__struct_fields__}


def _differences(own: Differences, rules: RuleTable, base: Chain | None) -> Differences:
    """The differences of a file and of `base`; methods that differ by node are never compared, as their rules say."""
    more = base.differences if base else Differences()
    by_node = (CacheClass.NODE, CacheClass.NEVER)
    told = tuple(Incomparable(why=rule.why, methods=(rule.method,)) for rule in rules if rule.cache in by_node)
    return Differences(members=own.members + more.members, never=tuple(dict.fromkeys(own.never + more.never + told)))


def _first_name(table: Any) -> str:
    """The first method that a group names, which helps to find the group in the file."""
    named = table.get("names") or table.get("methods") if isinstance(table, dict) else None
    return f" ({named[0]} …)" if isinstance(named, list) and named else ""


def _errors(file: str, document: dict[str, Any], base: Chain | None, after: Chain | None) -> ErrorTable:
    """The error rows of this file before those of `after`; the row without a condition is that of `base` where this
    file has none."""
    rows = [_convert(file, where, table, _Row).rule() for where, table in _each(file, document, "errors")]
    if base is not None and not (rows and rows[0].unconditional):
        rows.insert(0, base.errors.default)
    if not rows or not rows[0].unconditional:
        raise ChainError(f"{file}: [[errors]] number 1: the row for what nobody foresaw comes first, with no condition")
    for number, row in enumerate(rows[1:], start=2):
        if row.unconditional:
            raise ChainError(
                f"{file}: [[errors]] number {number}, key codes: without codes, statuses, equals, starts, contains or"
                " words this row would hide all that follow"
            )
    return ErrorTable(default=rows[0], rows=(*rows[1:], *(after.errors.rows if after else ())))


def _convert(file: str, where: str, table: Any, to: type[_T]) -> _T:
    """Convert a table to a value; msgspec's "… - at `$.key`" becomes part of a ChainError."""
    try:
        return msgspec.convert(table, to)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `")
        key = path.rstrip("`").removeprefix("$").removeprefix(".")
        raise ChainError(f"{file}: {where}{f', key {key}' if key else ''}: {what}") from fault
