"""The files that keep something over a restart: whole, bounded, and for their owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from msgspec import Struct

from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError, beside


class Document(Struct, frozen=True):
    version: int = 1
    words: tuple[str, ...] = ()


@pytest.fixture
def file(tmp_path: Path) -> KeptFile[Document]:
    return KeptFile(tmp_path / "kept.json", Document, largest=4096)


def test_what_was_saved_is_loaded_and_only_the_owner_may_read_it(file: KeptFile[Document]) -> None:
    assert file.load() is None
    file.path.write_text("old")
    file.path.chmod(0o644)
    left = file.path.with_name(".kept.json.new")
    left.write_text("by a program that was killed while it saved")
    left.chmod(0o644)
    file.save(Document(words=("a", "b")))
    assert file.load() == Document(words=("a", "b"))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["kept.json"]
    assert repr(file) == f"<Document in {file.path}>"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged"),
        (b"[]", "is damaged"),
        (b"\xff", "is damaged"),
        (b"[" * 4096, "is damaged"),
        (b'{"words": [1]}', "is damaged"),
        (b'{"words": ["\xff"]}', "is damaged"),
        (b" " * 4097, "is larger than 4096 bytes"),
        (b'{"version": 2, "words": 5}', "has version 2, which this rpcaccel does not read"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_is_set_aside_before_another_takes_its_place(
    file: KeptFile[Document], content: bytes, why: str
) -> None:
    file.path.write_bytes(content)
    with pytest.raises(LostFileError, match=why):
        file.load()
    assert file.path.read_bytes() == content
    for words in ("new", "newer"):
        file.save(Document(words=(words,)))
    assert file.aside.read_bytes() == content
    assert file.load() == Document(words=("newer",))


def test_a_path_that_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(LostFileError, match="cannot be read: Is a directory"):
        KeptFile(tmp_path, Document).load()
    with pytest.raises(OSError, match="No such file"):
        KeptFile(tmp_path / "none" / "kept.json", Document).save(Document())


def test_a_save_that_fails_leaves_the_old_file_and_no_other(file: KeptFile[Document]) -> None:
    file.path.mkdir()
    (file.path / "kept").touch()
    with pytest.raises(OSError, match="directory"):
        file.save(Document())
    assert [path.name for path in file.path.parent.iterdir()] == ["kept.json"]


@pytest.mark.parametrize(
    ("state", "kept"),
    [("rpcaccel.state.json", "rpcaccel.quota.json"), ("state", "state.quota.json"), ("x.json", "x.quota.json")],
)
def test_it_lies_beside_the_state_file(state: str, kept: str) -> None:
    assert beside(Path("/var/lib") / state, "quota.json") == Path("/var/lib") / kept
