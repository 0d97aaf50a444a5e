"""What the house weighs. Each bound may only fall: who makes it lighter lowers the bound, so that it stays so."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support.services import ROOT

WIDE = 12
"""Files from which a package is hard to hold in mind."""
BOUNDS = {
    "lines of the product": (70_710, 300),
    "files of the product": (385, 5),
    "packages past 12 files": (0, 0),
    "public names in two or more files": (36, 0),
    "lines of tests": (89_330, 600),
    "lines of benchmarks": (2_500, 100),
    "pages of docs": (18, 0),
}
"""The most of each, and how far below that it may be before the bound is to be lowered."""


def lines(paths: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def public_names(path: Path) -> set[str]:
    """The public classes, aliases and constants of a module."""
    found = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


@pytest.fixture(scope="module")
def weights() -> dict[str, int]:
    product = sorted((ROOT / "rpcaccel").rglob("*.py"))
    width = Counter(path.parent for path in product)
    where = defaultdict[str, list[Path]](list)
    for path in product:
        for name in public_names(path):
            where[name].append(path)
    return {
        "lines of the product": lines(product),
        "files of the product": len(product),
        "packages past 12 files": sum(count > WIDE for count in width.values()),
        "public names in two or more files": sum(len(paths) > 1 for paths in where.values()),
        "lines of tests": lines(sorted((ROOT / "tests").rglob("*.py"))),
        "lines of benchmarks": lines(sorted((ROOT / "benchmarks").glob("*.py"))),
        "pages of docs": len(list((ROOT / "docs").glob("*.md"))),
    }


@pytest.mark.parametrize("what", BOUNDS)
def test_the_house_gets_no_heavier(weights: dict[str, int], what: str) -> None:
    most, slack = BOUNDS[what]
    assert weights[what] <= most, f"{what}: find what can go"
    assert weights[what] >= most - slack, f"{what}: lower the bound, it is {weights[what]} now"
