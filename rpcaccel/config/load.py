"""Settings from a TOML file, the environment and the command line; the later of these wins.

Every setting is also an environment variable: RPCACCEL_ and its path in upper case, with __ for each dot. Examples:
RPCACCEL_LISTEN, RPCACCEL_REDIS__URL, RPCACCEL_NETWORKS__HARMONY_S0__BALANCER,
RPCACCEL_NETWORKS__HARMONY_S0__NODES="https://a,weight=2 https://b" (or a JSON list), and for one node by its id
RPCACCEL_NETWORKS__HARMONY_S0__NODES__NODE_A__WEIGHT. In names of networks, nodes and headers, _ stands for characters
that a variable cannot hold (dash, dot, colon): an existing name is found by that; a new name gets dashes. An empty
variable counts as not set. Lists of texts are separated by commas or spaces.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, NamedTuple, get_origin

import msgspec
from pydantic import BaseModel

from rpcaccel.config.errors import (
    ConfigError,
    Fault,
    Path,
    annotation_at,
    dotted,
    excess,
    known_keys,
    source_of,
    unknown_key,
)
from rpcaccel.config.model import Settings
from rpcaccel.config.toml_file import expand, lines_of
from rpcaccel.config.validate import JudgeSettings, validate
from rpcaccel.config.value_types import named_nodes

PREFIX = "RPCACCEL_"
_ARGUMENTS = ("CONFIG", "NODES", "CHAIN", "SHARD", "DEBUG", "ADMIN", "CACERT", "TOKEN", "STATE")
OTHERS = frozenset(f"{PREFIX}{name}" for name in _ARGUMENTS)
"""Variables that are not keys of the settings: arguments of commands."""

# What Kubernetes sets in every pod for a service called rpcaccel or rpcaccel-something.
_SERVICE_LINK = re.compile(
    r"RPCACCEL(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


def overlay(document: dict[str, Any], environ: Mapping[str, str]) -> tuple[dict[Path, str], list[Fault]]:
    """Lay the variables over the document, in place; returns the source of each path, and the variables that have no
    place."""
    sources: dict[Path, str] = {}
    faults: list[Fault] = []
    for name in sorted(filter(_is_key, environ), key=lambda name: (name.count("__"), name)):
        if not environ[name].strip():
            continue
        source = f"from {name}"
        try:
            path = _place(document, name.removeprefix(PREFIX).split("__"), source)
        except _NoSuchKeyError as error:
            faults.append(error.fault)
            continue
        value = _value(environ[name], path)
        put(document, path, value.split() if path[-1] == "nodes" and isinstance(value, str) else value)
        sources[path] = source
    return sources, faults


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set what stands at a path, making the tables on the way; `*` is every table there."""
    here: Any = document
    for depth, part in enumerate(path[:-1]):
        if part == "*":
            for name in list(here):
                put(here, (name, *path[depth + 1 :]), value)
            return
        inner = here[part] if isinstance(part, int) else here.get(part)
        if not isinstance(inner, (dict, list)):
            inner = here[part] = {}
        here = inner
    here[path[-1]] = value


class _NoSuchKeyError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _is_key(name: str) -> bool:
    return name.startswith(PREFIX) and name not in OTHERS and not _SERVICE_LINK.fullmatch(name)


def _place(document: dict[str, Any], segments: Iterable[str], source: str) -> Path:
    """The path in the document that a variable's segments mean. Raises _NoSuchKeyError."""
    path: Path = ()
    here: Any = document
    for segment in segments:
        annotation = annotation_at(Settings, path)
        if path[-1:] == ("nodes",):
            part: str | int = _node_index(here, segment, path, source)
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            part = segment.lower()
            if part not in annotation.model_fields:
                raise _NoSuchKeyError(unknown_key((*path, part), known_keys(Settings, path), source))
        elif get_origin(annotation) is dict:
            names = here if isinstance(here, dict) else ()
            part = next((name for name in names if folded(name) == folded(segment)), segment.lower().replace("_", "-"))
        else:
            raise _NoSuchKeyError(Fault(dotted(path), "", "no keys below this one", source))
        here = here[part] if isinstance(part, int) else here.get(part) if isinstance(here, dict) else None
        path = (*path, part)
    return path


def _node_index(nodes: Any, segment: str, path: Path, source: str) -> int:
    tables = named_nodes(nodes) if isinstance(nodes, list) else []
    ids = [str(node.get("id")) if isinstance(node, dict) else "" for node in tables]
    for index, name in enumerate(ids):
        if folded(name) == folded(segment):
            nodes[:] = tables
            return index
    there = f"one of the nodes: {', '.join(filter(None, ids))}" if ids else "nodes, which are not there yet"
    raise _NoSuchKeyError(Fault(dotted((*path, segment.lower())), "no such node", there, source))


def folded(name: str) -> str:
    """The name as an environment variable can spell it."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _value(text: str, path: Path) -> Any:
    annotation = annotation_at(Settings, path)
    compound = get_origin(annotation) is not None or known_keys(Settings, path)
    if compound and text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


_POSITION = re.compile(r"(?P<what>.*) \(at (?P<where>line \d+, column \d+|end of document)\)", re.DOTALL)
_LARGEST_FILE = 2 << 20


class Flag(NamedTuple):
    """A value from the command line: its path (`*` for every network), and the flag's name for errors."""

    path: Path
    value: Any
    name: str


class UrlNetwork(NamedTuple):
    """A network of the command line."""

    name: str
    chain: str
    shard: int
    nodes: tuple[str, ...]
    """The nodes, each written URL[,weight=N][,id=NAME]."""
    chain_id: int | None = None
    """The chain id that the nodes must serve; None: the one that most of them claim."""
    more: Mapping[str, Any] = MappingProxyType({})
    """Further settings of the network, by key."""


class Loaded(NamedTuple):
    """Settings, and the paths that flags and variables set, with the name of the flag or variable."""

    settings: Settings
    told: Mapping[Path, str]


def load(file: FilePath | None = None, *, environ: Mapping[str, str], flags: Iterable[Flag] = ()) -> Settings:
    """The settings: flags over environment over file over defaults. Raises ConfigError with every fault."""
    return load_told(file, environ=environ, flags=flags).settings


def load_told(
    file: FilePath | None = None,
    *,
    environ: Mapping[str, str],
    flags: Iterable[Flag] = (),
    judge: JudgeSettings = lambda _settings: (),
    networks_later: bool = False,
) -> Loaded:
    """The settings with their sources, after `judge` has checked more than their values. `networks_later`: there may be
    no network yet. Raises ConfigError with every fault."""
    text, document, unresolved = _from_file(file, environ) if file else ("", {}, {})
    sources, misplaced = overlay(document, environ)
    for flag in flags:
        put(document, flag.path, flag.value)
        sources[flag.path] = f"from {flag.name}"
    result = validate(document, sources, networks_later=networks_later)
    if isinstance(result, Settings) and not unresolved and not misplaced:
        if not (broken := list(judge(result))):
            return Loaded(result, {path: source.removeprefix("from ") for path, source in sources.items()})
        said = _said(document, file, text, sources)
        raise ConfigError(one.fault(said) for one in broken)
    said = _said(document, file, text, sources)  # the lines of the file are looked for where something is wrong
    result = validate(document, said, judge, networks_later=networks_later)
    faults = [Fault(dotted(path), "", expected, source_of(path, said)) for path, expected in unresolved.items()]
    known = {fault.path for fault in faults}
    found = result if isinstance(result, list) else []
    raise ConfigError([*faults, *misplaced, *(fault for fault in found if fault.path not in known)])


def _said(
    document: Mapping[str, Any], file: FilePath | None, text: str, sources: Mapping[Path, str]
) -> dict[Path, str]:
    """The source of the value at each path; a flag or variable is also the source of everything below its path."""
    said = {path: f"{file}, line {line}" for path, line in lines_of(text).items()}
    for given, source in sources.items():
        names = document.get("networks", ()) if given[1:2] == ("*",) else ("",)
        for path in [(given[0], name, *given[2:]) if name else given for name in names]:
            said = {known: place for known, place in said.items() if known[: len(path)] != path}
            said[path] = source
    return said


def node_flags(networks: Iterable[UrlNetwork]) -> list[Flag]:
    """The flags of `serve URL …`: networks with these nodes."""
    flags = []
    for network in networks:
        path: Path = ("networks", network.name)
        flags += [
            Flag((*path, "chain"), network.chain, "--chain"),
            Flag((*path, "shard"), network.shard, "--shard"),
            Flag((*path, "nodes"), list(network.nodes), "the command line"),
        ]
        if network.chain_id is not None:
            flags.append(Flag((*path, "chain_id"), network.chain_id, "the command line"))
        flags += [Flag((*path, key), value, "the command line") for key, value in network.more.items()]
    return flags


def _from_file(file: FilePath, environ: Mapping[str, str]) -> tuple[str, dict[str, Any], dict[Path, str]]:
    """The file's text, its document with its references resolved, and what was expected where one is not.

    Raises ConfigError.
    """
    unresolved: dict[Path, str] = {}

    def report(path: Path, expected: str) -> None:
        unresolved.setdefault(path, f"expected {expected}")

    text, parsed = _parsed(file)
    return text, expand(parsed, environ, report), unresolved


def _parsed(file: FilePath) -> tuple[str, dict[str, Any]]:
    """The TOML file's text and document. Raises ConfigError saying what cannot be read and where."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError([Fault(str(file), "", f"cannot be read: {error.strerror or type(error).__name__}")]) from None
    if len(content) > _LARGEST_FILE:
        raise ConfigError([Fault(str(file), "", "cannot be read: larger than 2 MiB")])
    try:
        text = content.decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        what, line = "is not UTF-8", content.count(b"\n", 0, error.start) + 1
        raise ConfigError([Fault(f"{file}, line {line}", "", what)]) from None
    except RecursionError:
        raise ConfigError([Fault(str(file), "", "is not valid TOML: nested too deeply")]) from None
    except ValueError as error:
        raise ConfigError([_syntax_fault(file, str(error), content.count(b"\n") + 1)]) from None
    if (too_large := excess(document)) is not None:
        raise ConfigError([msgspec.structs.replace(too_large, source=str(file))])
    return text, document


def _syntax_fault(file: FilePath, message: str, last_line: int) -> Fault:
    match = _POSITION.fullmatch(message)
    if match is None:
        return Fault(str(file), "", "is not valid TOML")
    what, where = match["what"], match["where"].replace("end of document", f"line {last_line}, at its end")
    return Fault(f"{file}, {where}", "", f"is not valid TOML: {what[:1].lower()}{what[1:]}")
