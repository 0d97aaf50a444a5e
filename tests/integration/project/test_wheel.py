"""A release: the wheel is the whole product (code, chain tables and page), the sdist the whole repository."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import NamedTuple

import pytest

import rpcaccel
from tests.support.services import ROOT, Process, missing


class Release(NamedTuple):
    """What one build made."""

    wheel: Path
    sdist: Path


def build(source: Path, to: Path, *targets: str) -> None:
    """Build the named targets ("wheel", "sdist") of a source tree with the hatchling that is installed here."""
    if importlib.util.find_spec("hatchling") is None:
        missing("no hatchling to build a release with: it comes with the test extra")
    named = [word for target in targets for word in ("-t", target)]
    building = Process([sys.executable, "-m", "hatchling", "build", *named, "-d", to], cwd=source)
    assert building.wait() == 0, building.output


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Both files of a release, built from this source tree."""
    folder = tmp_path_factory.mktemp("release")
    build(ROOT, folder, "wheel", "sdist")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Release(wheel, sdist)


@pytest.fixture(scope="module")
def unpacked(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the sdist unpacks to."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(release.sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"rpcaccel-{rpcaccel.__version__}"


def installed_files(wheel: Path) -> set[str]:
    """The files that a wheel installs, its metadata apart."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def data_files() -> set[str]:
    """What the package carries beside code, by its path inside the wheel."""
    tables = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rpcaccel").rglob("*.toml")}
    page = {
        f"rpcaccel/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "dashboard").rglob("*") if path.is_file()
    }
    return tables | page | {"rpcaccel/py.typed"}


def test_the_wheel_carries_code_chains_and_page_and_nothing_else(release: Release) -> None:
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rpcaccel").rglob("*.py")}
    assert installed_files(release.wheel) == code | data_files()


def test_the_readme_that_an_index_shows_links_to_the_files_of_its_version(release: Release) -> None:
    shown = str(metadata(release.wheel).get_payload())
    told = "".join(re.split(r"^```.*$", shown, flags=re.MULTILINE)[::2])
    targets = re.findall(r"\]\(([^)\s]+)", told)
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "http://", "#"))] == []
    tag = f"v{rpcaccel.__version__}"
    ours = [found for target in targets for found in re.findall(rf"/rpcaccel/(?:blob/)?{tag}/([^#]+)", target)]
    assert ours
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_the_sdist_carries_every_file_of_the_repository(unpacked: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is an unpacked sdist: only a checkout knows what the repository has")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    carried = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {path for path in listed if (ROOT / path).exists()} - carried == set()


def test_the_sdist_builds_the_same_wheel_as_the_repository(release: Release, unpacked: Path, tmp_path: Path) -> None:
    build(unpacked, tmp_path, "wheel")
    (again,) = tmp_path.glob("*.whl")
    assert again.name == release.wheel.name
    assert installed_files(again) == installed_files(release.wheel)
    assert metadata(again).as_string() == metadata(release.wheel).as_string()


@pytest.mark.deep
def test_tests_run_from_the_unpacked_sdist(unpacked: Path) -> None:
    """Those of the documents alone, which open files of every folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/project/test_docs.py"]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV", "PYTHON"))}
    with Process(command, cwd=unpacked, env=own) as tests:
        assert tests.wait() == 0, tests.output
    assert " passed" in tests.output
