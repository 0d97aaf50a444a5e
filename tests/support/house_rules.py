"""The rules of the house as functions: each takes the root of a source tree and returns every fault it finds.

tests/unit/project/test_house.py runs them over this project, and over bad samples to prove that each can fail.
"""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import aiohttp

MAX_FUNCTION_LINES = 60

PURE = ("core", "balancers")
PURE_FORBIDDEN = {
    *("aiohttp", "asyncio", "concurrent", "logging", "multiprocessing", "os", "prometheus_client"),
    *("random", "redis", "secrets", "socket", "structlog", "subprocess", "threading", "time", "uvloop"),
}
PURE_TYPES_ALLOWED = {"random"}
"""As the type of an argument, under TYPE_CHECKING."""

CLIENT_ERRORS_HOMES = {
    "rpcaccel/dataplane/upstream/node_failures.py",
    "rpcaccel/controlplane/admin/diagnostics.py",
    "rpcaccel/controlplane/alerts/alerting.py",
}
CLIENT_ERRORS = {
    name
    for name, value in vars(aiohttp).items()
    if isinstance(value, type) and issubclass(value, aiohttp.ClientError | aiohttp.ServerTimeoutError)
}

BY_CONTRACT = {"rpcaccel/balancers": {"Choice"}}
"""Classes that every file of a folder defines, because the folder's contract asks for that name."""
SAME_IN_BOTH_PLANES = {"explain", "leases", "process_usage", "purge"}
"""Names of modules that mean the same thing wherever they stand."""

TESTING = ("unit", "integration")
METHOD_SET = "ignore[" + "method-assign]"
"""What mypy is told where a method of an object is replaced."""
FOREIGN_FIELD = re.compile(r"(?<!\bself)(?<!\bcls)\._")
"""A private field of something else than the object itself: a file without one need not be parsed."""
PATCHING = {("monkeypatch", "setattr"), ("monkeypatch", "delattr"), ("mock", "patch"), ("mocker", "patch")}
INDEX_FLAGS = ("--index-url", "--extra-index-url", "--find-links", "--trusted-host")

Faults = list[str]


def sources(root: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """The Python files under some folders, each with its path from the root."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix(), path


@cache
def _parsed(path: Path, _changed: int) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))))


def _nodes(path: Path) -> list[ast.AST]:
    """Every node of a file's syntax, the module first; each file is parsed once, whichever rules read it."""
    return _parsed(path, path.stat().st_mtime_ns)


@contextmanager
def parsing() -> Iterator[None]:
    """The garbage collector is off meanwhile, and no syntax is kept afterwards: of this project it is two million
    objects, through which every later collection of the process would go."""
    gc.disable()
    try:
        yield
    finally:
        _parsed.cache_clear()
        gc.enable()


def _mentions(path: Path, *words: str) -> bool:
    """Does a file hold one of these words at all? What does not need not be parsed."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in words)


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The line and full module name of every import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _lines_for_types_only(nodes: list[ast.AST]) -> set[int]:
    """The lines that stand under `if TYPE_CHECKING:`."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for inner in node.body:
                found.update(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return found


def untested_packages(root: Path) -> Faults:
    """The tests of rpcaccel/core/wire are in tests/unit/core/wire or tests/integration/core/wire, and so on."""
    packages = {path.parent.relative_to(root / "rpcaccel") for path in (root / "rpcaccel").glob("*/**/[!_]*.py")}
    tested = {
        path.parent.relative_to(root / "tests" / kind)
        for kind in TESTING
        for path in (root / "tests" / kind).glob("*/**/test_*.py")
    }
    return [f"rpcaccel/{name} has no tests" for name in sorted(packages - tested)]


def names_taken_twice(root: Path) -> Faults:
    """A class and a module of rpcaccel have a name that no other has. Private classes are the business of one file."""
    classes, modules = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name, path in sources(root, "rpcaccel"):
        if path.name not in {"__init__.py", "__main__.py"}:
            modules[path.stem].append(name)
        by_contract = BY_CONTRACT.get(name.rpartition("/")[0], set())
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in by_contract:
                classes[node.name].append(f"{name}:{node.lineno}")
    return [f"class {name} stands in {', '.join(where)}" for name, where in classes.items() if len(where) > 1] + [
        f"module {name} stands in {', '.join(where)}"
        for name, where in modules.items()
        if len(where) > 1 and name not in SAME_IN_BOTH_PLANES
    ]


def packages_without_purpose(root: Path) -> Faults:
    """Every folder with Python files is a package whose __init__ says its purpose."""
    folders = {path.parent for _, path in sources(root, "rpcaccel")}
    return [
        f"{folder.relative_to(root).as_posix()} does not say its purpose"
        for folder in sorted(folders)
        if not (init := folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))
    ]


def long_functions(root: Path) -> Faults:
    """A function is seen at once."""
    return [
        f"{name}:{node.lineno} {node.name} has {length} lines, the limit is {MAX_FUNCTION_LINES}"
        for name, path in sources(root, "rpcaccel")
        for node in _nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def patched(root: Path) -> Faults:
    """Fakes implement the real port: nothing is patched. (monkeypatch for the environment and folders is fine.)"""
    faults = []
    for name, path in sources(root, "rpcaccel", "tests", "benchmarks"):
        if not _mentions(path, "mock", "monkeypatch"):
            continue
        faults += [
            f"{name}:{line} imports {module}"
            for line, module in _imports(_nodes(path))
            if module in {"mock", "unittest.mock", "pytest_mock"}
        ]
        faults += [
            f"{name}:{node.lineno} patches: {node.value.id}.{node.attr}"
            for node in _nodes(path)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if (node.value.id, node.attr) in PATCHING
        ]
    return faults


def private_fields_set(root: Path) -> Faults:
    """A test sets no private field of another object and replaces no method, unless to show that this raises."""
    faults = []
    for name, path in sources(root, "tests", "benchmarks"):
        text = path.read_text(encoding="utf-8")
        faults += [
            f"{name}:{at} replaces a method" for at, line in enumerate(text.splitlines(), 1) if METHOD_SET in line
        ]
        if not FOREIGN_FIELD.search(text):
            continue
        raising = {
            id(inner)
            for node in _nodes(path)
            if isinstance(node, ast.With) and "raises" in ast.unparse(node.items[0])
            for inner in ast.walk(node)
        }
        faults += [
            f"{name}:{node.lineno} sets {ast.unparse(node)}"
            for node in _nodes(path)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and id(node) not in raising
            if node.attr.startswith("_") and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
        ]
    return faults


def impure(root: Path) -> Faults:
    """core and balancers take `now` and `rng` as arguments, and touch nothing outside."""
    faults = []
    for name, path in sources(root, *(f"rpcaccel/{folder}" for folder in PURE)):
        types_only = _lines_for_types_only(_nodes(path))
        imported = {(line, module.partition(".")[0]) for line, module in _imports(_nodes(path))}
        faults += [
            f"{name}:{line} imports {module}"
            for line, module in sorted(imported)
            if module in PURE_FORBIDDEN and not (module in PURE_TYPES_ALLOWED and line in types_only)
        ]
        faults += [
            f"{name}:{node.lineno} is async: {node.name}"
            for node in _nodes(path)
            if isinstance(node, ast.AsyncFunctionDef)
        ]
    return faults


def foreign_client_errors(root: Path) -> Faults:
    """aiohttp's client errors are translated once, at the border of each client."""
    faults = []
    for name, path in sources(root, "rpcaccel"):
        if name in CLIENT_ERRORS_HOMES or not _mentions(path, "aiohttp"):
            continue
        for node in _nodes(path):
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
