"""Settings from a TOML file, the environment and the command line; the later of these wins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from rpcaccel.config.environment import overlay, put
from rpcaccel.config.expand import expand
from rpcaccel.config.faults import ConfigError, Fault, Path, dotted
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import validate

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


def load_told(file: FilePath | None = None, *, environ: Mapping[str, str], flags: Iterable[Flag] = ()) -> Loaded:
    """The same, with who said what. Raises ConfigError with every fault."""
    document, faults = _from_file(file, environ) if file else ({}, [])
    sources, misplaced = overlay(document, environ)
    for flag in flags:
        put(document, flag.path, flag.value)
        sources[flag.path] = f"from {flag.name}"
    unresolved = {fault.path for fault in faults}
    result = validate(document, sources)
    if isinstance(result, Settings) and not faults and not misplaced:
        return Loaded(result, {path: source.removeprefix("from ") for path, source in sources.items()})
    found = result if isinstance(result, list) else []
    raise ConfigError([*faults, *misplaced, *(fault for fault in found if fault.path not in unresolved)])


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


def _from_file(file: FilePath, environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Fault]]:
    """The file's document with its references resolved, and the references that are not. Raises ConfigError."""
    faults: list[Fault] = []

    def report(path: Path, expected: str) -> None:
        faults.append(Fault(dotted(path), "", f"expected {expected}"))

    document: dict[str, Any] = expand(_parsed(file), environ, report)
    return document, faults


def _parsed(file: FilePath) -> dict[str, Any]:
    """The TOML file's document. Raises ConfigError saying what cannot be read and where."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError([Fault(str(file), "", f"cannot be read: {error.strerror or type(error).__name__}")]) from None
    if len(content) > _LARGEST_FILE:
        raise ConfigError([Fault(str(file), "", "cannot be read: larger than 16 MiB")])
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
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
