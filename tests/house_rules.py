"""The rules of the house as functions: each takes the root of a source tree and returns every fault it finds.

tests/test_house.py runs them over this project, and over bad samples to prove that each can fail.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import aiohttp

MAX_SOURCE_LINES = 450
MAX_TEST_LINES = 500
MAX_FUNCTION_LINES = 60

UNTESTED_NAMES = {"__init__.py", "__main__.py"}
PURE = ("core", "balancers")
PURE_FORBIDDEN = {
    *("aiohttp", "asyncio", "concurrent", "logging", "multiprocessing", "os", "prometheus_client"),
    *("random", "redis", "secrets", "socket", "structlog", "subprocess", "threading", "time", "uvloop"),
}
PURE_TYPES_ALLOWED = {"random"}
"""As the type of an argument, under TYPE_CHECKING."""

CLIENT_ERRORS_HOMES = {"rpcaccel/dataplane/upstream.py", "rpcaccel/controlplane/trial.py"}
CLIENT_ERRORS = {
    name
    for name, value in vars(aiohttp).items()
    if isinstance(value, type) and issubclass(value, aiohttp.ClientError | aiohttp.ServerTimeoutError)
}

PATCHING = {("monkeypatch", "setattr"), ("monkeypatch", "delattr"), ("mock", "patch"), ("mocker", "patch")}
INDEX_FLAGS = ("--index-url", "--extra-index-url", "--find-links", "--trusted-host")

Faults = list[str]
Lines = dict[str, str]
"""A path, and why it may be longer than the rest. Such a list only shrinks."""


def sources(root: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """The Python files under some folders, each with its path from the root."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix(), path


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and full module name of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _lines_for_types_only(tree: ast.Module) -> set[int]:
    """The lines that stand under `if TYPE_CHECKING:`."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for inner in node.body:
                found.update(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return found


def untested_sources(root: Path) -> Faults:
    """rpcaccel/core/plan.py is tested by tests/core/test_plan.py, and so on for every source file."""
    faults = []
    for name, path in sources(root, "rpcaccel"):
        if path.name in UNTESTED_NAMES:
            continue
        test = root / "tests" / path.relative_to(root / "rpcaccel").with_name(f"test_{path.name}")
        if not test.exists():
            faults.append(f"{name} has no {test.relative_to(root).as_posix()}")
    return faults


def long_files(root: Path, excused: Lines) -> Faults:
    """A file that must be scrolled through for long has more than one matter in it."""
    faults = []
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in sources(root, "rpcaccel")}
    tests = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in sources(root, "tests")}
    for limit, files in ((MAX_SOURCE_LINES, lengths), (MAX_TEST_LINES, tests)):
        for name, length in files.items():
            if length > limit and name not in excused:
                faults.append(f"{name} has {length} lines, the limit is {limit}")
            if length <= limit and name in excused:
                faults.append(f"{name} has {length} lines and needs no excuse any more")
    known = lengths.keys() | tests.keys()
    faults += [f"{name} is excused for its length and does not exist" for name in excused if name not in known]
    return faults


def long_functions(root: Path) -> Faults:
    """A function is seen at once."""
    return [
        f"{name}:{node.lineno} {node.name} has {length} lines, the limit is {MAX_FUNCTION_LINES}"
        for name, path in sources(root, "rpcaccel")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def patched(root: Path) -> Faults:
    """Fakes implement the real port: nothing is patched. (monkeypatch for the environment and folders is fine.)"""
    faults = []
    for name, path in sources(root, "rpcaccel", "tests"):
        tree = _tree(path)
        faults += [
            f"{name}:{line} imports {module}"
            for line, module in _imports(tree)
            if module in {"mock", "unittest.mock", "pytest_mock"}
        ]
        faults += [
            f"{name}:{node.lineno} patches: {node.value.id}.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if (node.value.id, node.attr) in PATCHING
        ]
    return faults


def impure(root: Path) -> Faults:
    """core and balancers take `now` and `rng` as arguments, and touch nothing outside."""
    faults = []
    for name, path in sources(root, *(f"rpcaccel/{folder}" for folder in PURE)):
        tree = _tree(path)
        types_only = _lines_for_types_only(tree)
        imported = {(line, module.partition(".")[0]) for line, module in _imports(tree)}
        faults += [
            f"{name}:{line} imports {module}"
            for line, module in sorted(imported)
            if module in PURE_FORBIDDEN and not (module in PURE_TYPES_ALLOWED and line in types_only)
        ]
        faults += [
            f"{name}:{node.lineno} is async: {node.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.AsyncFunctionDef)
        ]
    return faults


def foreign_client_errors(root: Path) -> Faults:
    """aiohttp's client errors are translated once, at the border of each client."""
    faults = []
    for name, path in sources(root, "rpcaccel"):
        if name in CLIENT_ERRORS_HOMES:
            continue
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"aiohttp", "aiohttp.client_exceptions"}:
                mentioned = {node.attr}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aiohttp":
                mentioned = {alias.name for alias in node.names}
            else:
                continue
            faults += [f"{name}:{node.lineno} mentions {error}" for error in sorted(mentioned & CLIENT_ERRORS)]
    return faults


def normal_name(name: str) -> str:
    """A distribution's name as the packaging specification compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(root: Path) -> dict[str, str]:
    """Name and version of every pin that has the right form."""
    found = re.findall(r"^([\w.-]+)==(\S+)$", (root / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return {normal_name(name): version for name, version in found}


def bad_constraints(root: Path) -> Faults:
    """constraints.txt holds plain `name==version` and no address; neither do the files that install from it."""
    faults = []
    for number, line in enumerate((root / "constraints.txt").read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+", line):
            faults.append(f"constraints.txt:{number} is no plain name==version: {line}")
    for name in ("constraints.txt", "pyproject.toml", "Makefile"):
        text = (root / name).read_text(encoding="utf-8") if (root / name).exists() else ""
        faults += [f"{name} names an index: {flag}" for flag in INDEX_FLAGS if flag in text]
    return faults


def unpinned(root: Path) -> Faults:
    """What pyproject.toml asks for has its version in constraints.txt, and in no second place: a range at the most."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project.get("dependencies", []))
    for extra in project.get("optional-dependencies", {}).values():
        wanted += extra
    known = pins(root)
    faults = []
    for requirement in wanted:
        name, rest = re.findall(r"^([\w.-]+)(?:\[[^]]*\])?\s*(.*)$", requirement)[0]
        if normal_name(name) not in known:
            faults.append(f"{name} is in pyproject.toml and not in constraints.txt")
        if rest and not rest.startswith(";") and "<" not in rest:
            faults.append(f"{name} has a version in pyproject.toml: {rest}")
    return faults
