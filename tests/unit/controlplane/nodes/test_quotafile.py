"""The file of used quotas: whole, kept beside the state file, and never the reason why a start fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcaccel.controlplane.nodes.quotas import DamagedError, QuotaFile
from rpcaccel.core.nodes.quota import Brought

KEPT = Brought(network="n", node="a", window="month", used=7.5, since=1.0, renews=2.0)


@pytest.mark.parametrize(
    ("state", "file"),
    [("rpcaccel.state.json", "rpcaccel.quota.json"), ("state", "state.quota.json"), ("x.json", "x.quota.json")],
)
def test_it_lies_beside_the_state_file(state: str, file: str) -> None:
    assert QuotaFile.beside(Path("/var/lib") / state).path == Path("/var/lib") / file


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    file = QuotaFile(tmp_path / "quota.json")
    assert file.load() == ((), "")
    file.save([KEPT], "this host")
    assert file.load() == ((KEPT,), "this host")
    assert [path.name for path in tmp_path.iterdir()] == ["quota.json"]
    assert str(file.path) in repr(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b"[" * 5000,
        b'{"version":1,"uses":[{"network":"n"}]}',
        b'{"version":1,"uses":[{"network":"n","node":"a","window":"day","used":-5,"since":1,"renews":2}]}',
    ],
)
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    file = QuotaFile(tmp_path / "quota.json")
    file.path.write_bytes(content)
    with pytest.raises(DamagedError, match="is damaged"):
        file.load()


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    file = QuotaFile(tmp_path / "quota.json")
    file.path.write_bytes(b'{"version":2,"uses":[]}')
    with pytest.raises(DamagedError, match="version 2"):
        file.load()
    with pytest.raises(DamagedError, match="cannot be read"):
        QuotaFile(tmp_path).load()
