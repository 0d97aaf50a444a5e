"""A package that is little tested does not hide behind the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.coverage_by_package import shares


def file(ran: int, statements: int, *, taken: int = 0, branches: int = 0) -> dict[str, Any]:
    return {
        "summary": {
            "covered_lines": ran,
            "num_statements": statements,
            "covered_branches": taken,
            "num_branches": branches,
        }
    }


def test_each_package_has_a_share_of_its_own_made_of_statements_and_branches() -> None:
    found = shares(
        {
            "rpcaccel/core/plan.py": file(9, 10, taken=3, branches=6),
            "rpcaccel/core/rules.py": file(4, 4),
            "rpcaccel/stores/redis.py": file(1, 100),
            "rpcaccel/cli.py": file(1, 2),
        }
    )
    assert found == pytest.approx({"rpcaccel": 50.0, "rpcaccel/core": 80.0, "rpcaccel/stores": 1.0})


def test_a_package_without_a_statement_has_no_share() -> None:
    assert shares({"rpcaccel/balancers/__init__.py": file(0, 0)}) == {}
