"""The state file: whole or not there, for its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rpcaccel.config.errors import ConfigError
from rpcaccel.config.patch import Edit
from rpcaccel.controlplane.settings.audit import Change
from rpcaccel.controlplane.settings.state_file import Earlier, StateDocument, StateFile

SAVED = StateDocument(
    revision=7,
    overlay={"networks": {"x": {"nodes": {"a": {"weight": 3}, "b": None}}}},
    changes=(
        Change(
            revision=7, before=6, at=1.5, by="me", via="page", action="change", difference=(Edit("workers", 1, None),)
        ),
    ),
    earlier=(Earlier(6, {}),),
)


def test_what_was_saved_is_loaded_and_only_the_owner_may_read_it(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    assert file.load() is None
    file.path.write_text("old")
    file.path.chmod(0o644)
    file.save(SAVED)
    assert file.load() == SAVED
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert str(file.path) in repr(file)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b'{"version": 1}', b"[" * 5000, b'{"revision": 1, "overlay": {"a": "\xff"}}']
)
def test_a_file_that_is_none_of_ours_is_said_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is not a state file"):
        StateFile(path).load()
    assert path.read_bytes() == content


def test_a_newer_version_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"version": 2, "revision": 1, "overlay": {}}')
    with pytest.raises(ConfigError, match="has version 2"):
        StateFile(path).load()


def test_a_path_that_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        StateFile(tmp_path).load()
    with pytest.raises(OSError, match="No such file"):
        StateFile(tmp_path / "none" / "state.json").save(SAVED)


def test_a_save_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "state.json"
    folder.mkdir()
    (folder / "kept").touch()
    with pytest.raises(OSError, match="directory"):
        StateFile(folder).save(SAVED)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
