"""Settings from a TOML file, the environment and the command line; the later of these wins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from rpcaccel.config.environment import overlay, put
from rpcaccel.config.expand import expand
from rpcaccel.config.faults import ConfigError, Fault, Path, dotted, source_of
from rpcaccel.config.lines import lines_of
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import Judge, validate

_POSITION = re.compile(r"(?P<what>.*) \(at (?P<where>line \d+, column \d+|end of document)\)", re.DOTALL)
_LARGEST_FILE = 16 << 20


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
    """Each written URL[,weight=N][,id=NAME]."""
    chain_id: int | None = None
    """What its nodes have to serve; None: what most of them say."""


class Loaded(NamedTuple):
    """Settings, and what of them this start was told by flags and variables: path to the name of flag or variable."""

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
    judge: Judge = lambda _settings: (),
) -> Loaded:
    """The same, with who said what, and judged by more than what stands in it. Raises ConfigError with every fault."""
    text, document, unresolved = _from_file(file, environ) if file else ("", {}, {})
    sources, misplaced = overlay(document, environ)
    for flag in flags:
        put(document, flag.path, flag.value)
        sources[flag.path] = f"from {flag.name}"
    result = validate(document, sources)
    if isinstance(result, Settings) and not unresolved and not misplaced:
        if not (broken := list(judge(result))):
            return Loaded(result, {path: source.removeprefix("from ") for path, source in sources.items()})
        said = _said(document, file, text, sources)
        raise ConfigError(one.fault(said) for one in broken)
    said = _said(document, file, text, sources)  # the lines of the file are looked for where something is wrong
    result = validate(document, said, judge)
    faults = [Fault(dotted(path), "", expected, source_of(path, said)) for path, expected in unresolved.items()]
    known = {fault.path for fault in faults}
    found = result if isinstance(result, list) else []
    raise ConfigError([*faults, *misplaced, *(fault for fault in found if fault.path not in known)])


def _said(
    document: Mapping[str, Any], file: FilePath | None, text: str, sources: Mapping[Path, str]
) -> dict[Path, str]:
    """Who said what stands at each path; a flag or variable says all that is below its path as well."""
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
        raise ConfigError([Fault(str(file), "", "cannot be read: larger than 16 MiB")])
    try:
        text = content.decode("utf-8-sig")
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        what, line = "is not UTF-8", content.count(b"\n", 0, error.start) + 1
        raise ConfigError([Fault(f"{file}, line {line}", "", what)]) from None
    except RecursionError:
        raise ConfigError([Fault(str(file), "", "is not valid TOML: nested too deeply")]) from None
    except ValueError as error:
        raise ConfigError([_syntax_fault(file, str(error), content.count(b"\n") + 1)]) from None


def _syntax_fault(file: FilePath, message: str, last_line: int) -> Fault:
    match = _POSITION.fullmatch(message)
    if match is None:
        return Fault(str(file), "", "is not valid TOML")
    what, where = match["what"], match["where"].replace("end of document", f"line {last_line}, at its end")
    return Fault(f"{file}, {where}", "", f"is not valid TOML: {what[:1].lower()}{what[1:]}")
