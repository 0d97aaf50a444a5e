"""What `pip install` gives is the whole product: code, chain tables and the page."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

from tests.support.services import ROOT, Process, missing


def data_files() -> set[str]:
    """What the package carries beside code, by its path inside the wheel."""
    tables = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rpcaccel").rglob("*.toml")}
    page = {
        f"rpcaccel/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "dashboard").rglob("*") if path.is_file()
    }
    return tables | page


def test_the_wheel_carries_code_chains_and_page_and_nothing_else(tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        missing("no hatchling to build a wheel with: it comes with the test extra")
    build = Process([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT)
    assert build.wait() == 0, build.output
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if ".dist-info/" not in name}
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rpcaccel").rglob("*.py")}
    assert carried == code | data_files()
