"""Programs hold the rules of the house, not people. Each rule also proves here, on a bad sample, that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import house_rules as rules
from tests.support.services import ROOT

RULES = (
    rules.untested_packages,
    rules.names_taken_twice,
    rules.packages_without_purpose,
    rules.long_functions,
    rules.patched,
    rules.private_fields_set,
    rules.impure,
    rules.foreign_client_errors,
    rules.bad_constraints,
    rules.unpinned,
)


def test_the_rules_of_the_house_are_kept() -> None:
    with rules.parsing():  # in one test, which parses each file once
        faults = [fault for rule in RULES for fault in rule(ROOT)]
    if faults:
        pytest.fail(f"{len(faults)} faults:\n  " + "\n  ".join(faults), pytrace=False)


# ---- each rule can fail ---------------------------------------------------------------------------------------------


def write(root: Path, files: dict[str, str]) -> Path:
    """A tree of files under `root`, by path."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_package_without_tests_is_found(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["rpcaccel/core/a.py", "rpcaccel/stores/b.py", "rpcaccel/core/wire/c.py"], ""))
    write(tmp_path, dict.fromkeys(["tests/unit/core/test_all.py", "tests/integration/stores/test_redis.py"], ""))
    assert rules.untested_packages(tmp_path) == ["rpcaccel/core/wire has no tests"]


def test_a_name_that_stands_twice_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"rpcaccel/core/a.py": "class One: ...\nclass _Own: ...", "rpcaccel/stores/a.py": "class One: ..."})
    write(tmp_path, {"rpcaccel/core/b.py": "class _Own:\n    class Inner: ...\nclass Inner: ..."})
    assert rules.names_taken_twice(tmp_path) == [
        "class One stands in rpcaccel/core/a.py:1, rpcaccel/stores/a.py:1",
        "class Inner stands in rpcaccel/core/b.py:3, rpcaccel/core/b.py:2",
        "module a stands in rpcaccel/core/a.py, rpcaccel/stores/a.py",
    ]


def test_a_name_that_a_contract_asks_for_may_stand_twice_in_its_folder_alone(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["rpcaccel/balancers/a.py", "rpcaccel/balancers/b.py"], "class Choice: ..."))
    write(tmp_path, dict.fromkeys(["rpcaccel/cli/purge.py", "rpcaccel/stores/redis/purge.py"], ""))
    assert rules.names_taken_twice(tmp_path) == []
    write(tmp_path, dict.fromkeys(["rpcaccel/core/c.py", "rpcaccel/core/d.py"], "class Choice: ..."))
    assert len(rules.names_taken_twice(tmp_path)) == 1


@pytest.mark.parametrize("init", [{}, {"rpcaccel/core/__init__.py": "from a import b"}])
def test_a_package_that_does_not_say_its_purpose_is_found(tmp_path: Path, init: dict[str, str]) -> None:
    write(tmp_path, {"rpcaccel/__init__.py": '"""The product."""', "rpcaccel/core/a.py": "", **init})
    assert rules.packages_without_purpose(tmp_path) == ["rpcaccel/core does not say its purpose"]


def test_a_long_function_is_found(tmp_path: Path) -> None:
    body = "    pass\n"
    write(tmp_path, {"rpcaccel/a.py": f"def short():\n{body * 59}\nasync def long():\n{body * 60}"})
    assert len(rules.long_functions(tmp_path)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from unittest import mock",
        "import unittest.mock",
        "from unittest.mock import patch",
        "def test_x(monkeypatch): monkeypatch.setattr(a, 'b', 1)",
        "def test_x(mocker): mocker.patch('a.b')",
    ],
)
def test_patching_is_found(tmp_path: Path, source: str) -> None:
    assert rules.patched(write(tmp_path, {"tests/test_a.py": source}))


def test_setting_the_environment_is_no_patching(tmp_path: Path) -> None:
    write(tmp_path, {"tests/test_a.py": "def test_x(monkeypatch): monkeypatch.setenv('A', 'b')"})
    assert rules.patched(tmp_path) == []


@pytest.mark.parametrize(
    "source", ["made._clock = now", "a.b._x += 1", "one, made._x = 1, 2", "del made._x", "self._a._b = 1"]
)
def test_a_private_field_that_is_set_is_found(tmp_path: Path, source: str) -> None:
    assert rules.private_fields_set(write(tmp_path, {"tests/test_a.py": f"def test_x(made): {source}"}))


def test_a_method_that_is_replaced_is_found(tmp_path: Path) -> None:
    source = f"def test_x(made):\n    made.look = None  # type: {rules.METHOD_SET}\n"
    assert rules.private_fields_set(write(tmp_path, {"tests/test_a.py": source})) == [
        "tests/test_a.py:2 replaces a method"
    ]


@pytest.mark.parametrize(
    "source", ["self._x = 1", "x = made._x", "made.x = 1", "with pytest.raises(AttributeError): made._x = 1"]
)
def test_reading_one_and_setting_ones_own_is_fine(tmp_path: Path, source: str) -> None:
    assert (
        rules.private_fields_set(write(tmp_path, {"tests/test_a.py": f"def test_x(self, made):\n    {source}"})) == []
    )


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from random import Random",
        "import os.path",
        "from os import path",
        "import aiohttp.web",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio",
        "async def wait(): ...",
    ],
)
@pytest.mark.parametrize("folder", rules.PURE)
def test_impurity_is_found(tmp_path: Path, folder: str, source: str) -> None:
    assert rules.impure(write(tmp_path, {f"rpcaccel/{folder}/a.py": source}))


def test_random_as_a_type_is_pure(tmp_path: Path) -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from random import Random\n"
    assert rules.impure(write(tmp_path, {"rpcaccel/core/a.py": source})) == []


@pytest.mark.parametrize(
    "source",
    [
        "from aiohttp import ClientConnectorError",
        "import aiohttp\ntry: pass\nexcept aiohttp.ClientError: pass",
        "from aiohttp.client_exceptions import ServerDisconnectedError",
    ],
)
def test_a_client_error_far_from_home_is_found(tmp_path: Path, source: str) -> None:
    homes = ["rpcaccel/dataplane/upstream/node_failures.py", "rpcaccel/dataplane/engine/engine.py"]
    write(tmp_path, dict.fromkeys(homes, source))
    assert [fault.partition(":")[0] for fault in rules.foreign_client_errors(tmp_path)] == [
        "rpcaccel/dataplane/engine/engine.py"
    ]


@pytest.mark.parametrize(
    "line",
    ["a>=1", "a @ https://example.org/a.whl", "https://example.org/a.whl", "--index-url https://example.org", "-e ."],
)
def test_a_constraint_that_is_no_plain_pin_is_found(tmp_path: Path, line: str) -> None:
    assert rules.bad_constraints(write(tmp_path, {"constraints.txt": f"# a comment\nb==1.0\n{line}\n"}))


def test_an_unpinned_dependency_and_a_second_version_are_found(tmp_path: Path) -> None:
    project = "[project]\ndependencies = ['A_b[x]', 'c; python_version < \"4\"', 'd>=1']\n"
    project += "[project.optional-dependencies]\ntest = ['e']\n"
    write(tmp_path, {"constraints.txt": "a-b==1.0\nc==2\nd==1\nf==1\n", "pyproject.toml": project})
    assert rules.unpinned(tmp_path) == [
        "d has a version in pyproject.toml: >=1",
        "e is in pyproject.toml and not in constraints.txt",
    ]
