"""The file that keeps how far a host has heard: whole, bounded, and in nobody's way when the disk hangs."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rpcaccel.controlplane.hosts.shared_purges import HeardFile, HeardPlace
from rpcaccel.controlplane.settings.kept_file import LostFileError

KEPT = HeardPlace(word="1732560000000-3", until=1.5e9)


async def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    assert await HeardFile(folder, 7).load() is None
    await HeardFile(folder, 7).save(HeardPlace(word="1-0", until=1.0))
    await HeardFile(folder, 7).save(KEPT)
    file = HeardFile(folder, 7)
    assert await file.load() == KEPT
    assert [path.name for path in folder.iterdir()] == ["heard-7.json"]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


async def test_a_place_that_names_a_run_as_before_is_gone_on_from(tmp_path: Path) -> None:
    (tmp_path / "heard-7.json").write_bytes(b'{"version":1,"word":"1732560000000-3","run":"/zAxMjM=","until":1.5e9}')
    assert await HeardFile(tmp_path, 7).load() == KEPT


async def test_what_one_version_of_the_cache_heard_is_not_what_another_did(tmp_path: Path) -> None:
    await HeardFile(tmp_path, 7).save(KEPT)
    assert await HeardFile(tmp_path, 8).load() is None


@pytest.mark.parametrize(
    "content",
    [
        b'{"version":1,"word":"$","until":1}',
        b'{"version":1,"word":"99999999999999999999-0","until":1}',
        b'{"version":1,"word":"1-0","until":-1}',
        b'{"version":1,"word":"1-0","until":1e999}',
    ],
)
async def test_a_place_that_is_none_is_not_gone_on_from(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "heard-7.json").write_bytes(content)
    with pytest.raises(LostFileError, match="is damaged"):
        await HeardFile(tmp_path, 7).load()


async def test_a_folder_that_is_none_is_said_once_until_it_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("a file")
    file = HeardFile(folder, 7)
    with pytest.raises(LostFileError, match="cannot be read: Not a directory"):
        await file.load()
    with capture_logs() as logs:
        await file.save(KEPT)
        await file.save(KEPT)
        assert [(line["event"], line["reason"]) for line in logs] == [
            ("purges will be heard again after a restart", "File exists")
        ]
        folder.unlink()
        await file.save(KEPT)
        assert await file.load() == KEPT
        file.path.unlink()
        file.path.mkdir()
        await file.save(KEPT)
    assert [line["reason"] for line in logs] == ["File exists", "Is a directory"]


async def test_a_disk_that_hangs_is_waited_for_no_longer_than_allowed_and_asked_once(tmp_path: Path) -> None:
    file = HeardFile(tmp_path, 7, load_within=0.05)
    os.mkfifo(file.path)  # opening it hangs until somebody writes
    with pytest.raises(LostFileError, match="cannot be read: the disk does not answer"):
        await file.load()
    await file.save(KEPT)
    assert stat.S_ISFIFO(file.path.stat().st_mode), "no write is begun"
    file.path.open("wb").close()
    async with asyncio.timeout(20):
        while not file.path.is_file():
            await asyncio.sleep(0.001)
            await file.save(KEPT)
    assert await file.load() == KEPT
