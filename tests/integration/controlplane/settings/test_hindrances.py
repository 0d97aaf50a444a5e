"""What would keep the program from starting here."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.hindrances import hindrances
from tests.support.proxy import PATIENT_REDIS
from tests.support.services import SUPPORT, RedisServer, free_port

LOOPBACK = str(SUPPORT / "loopback.pem")
OTHER_KEY = str(SUPPORT / "other_key.pem")


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"networks": {"x": {"nodes": ["http://a"]}}, **more})


def found(before: Settings | None = None, **more: Any) -> dict[str, str]:
    return {".".join(map(str, one.path)): one.expected for one in hindrances(settings(**more), before)}


def test_nothing_hinders_the_defaults() -> None:
    assert found() == {}


def test_a_port_that_is_taken_for_the_moment_is_no_hindrance() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert found(listen=place, admin={"listen": place}) == {}


def test_an_address_of_another_machine_is_one() -> None:
    told = found(listen="203.0.113.7:8888", admin={"listen": "no-such-host.invalid:8889"})
    assert set(told) == {"listen", "admin.listen"}
    assert all(expected.startswith("an address of this machine: ") for expected in told.values())


def test_a_folder_of_the_disk_tier_that_can_be_made_is_no_hindrance_and_is_not_made_yet(tmp_path: Path) -> None:
    assert found(disk={"path": str(tmp_path)}) == {}
    assert found(disk={"path": str(tmp_path / "var" / "cache")}) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_disk_tier_that_cannot_be_is_one_unless_it_is_in_use(tmp_path: Path) -> None:
    file, nowhere = tmp_path / "file", tmp_path / "nowhere"
    file.touch()
    nowhere.symlink_to(tmp_path / "gone")
    for path, why in {
        str(file): "it is not a folder",
        str(file / "cache"): "Not a directory",
        str(nowhere): "it is not a folder",
        str(nowhere / "cache"): f"{nowhere} is not a folder",
        "x" * 300: "File name too long",
        "\0": "it is not the name of a folder",
    }.items():
        assert found(disk={"path": path}) == {"disk.path": f"a folder that can be made and written: {why}"}, path
        assert found(settings(disk={"path": path}), disk={"path": path, "size": "1GB"}) == {}


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody who is not root, whom permissions do not bind."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 0, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


def test_a_folder_of_the_disk_tier_that_this_user_may_not_write_is_one() -> None:
    with TemporaryDirectory() as folder, without_rights():
        os.chmod(folder, 0o555)
        whys = [f"this user may not write to {which}" for which in ("it", folder)]
        told = [found(disk={"path": path})["disk.path"] for path in (folder, f"{folder}/cache")]
        os.chmod(folder, 0o777)
        assert told == [f"a folder that can be made and written: {why}" for why in whys]
        assert found(disk={"path": folder}) == {}


def test_files_of_tls_are_read_and_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = found(admin={"tls_cert": str(tmp_path / "none.pem"), "tls_key": str(pipe)})
    assert told == {
        "admin.tls_cert": "a file that can be read: No such file or directory",
        "admin.tls_key": "a file that can be read: it is not a plain file",
    }
    told = found(admin={"tls_cert": str(tmp_path / "none.pem")})
    assert told == {"admin.tls_cert": "a file that can be read: No such file or directory"}, "that the key is not given"
    for odd in ("\0", "\ud800"):
        assert found(admin={"tls_cert": odd, "tls_key": LOOPBACK}) == {
            "admin.tls_cert": "a file that can be read: it is not the name of a file"
        }
    told = found(admin={"tls_cert": LOOPBACK, "tls_key": OTHER_KEY})
    assert told == {"admin.tls_key": f"the key that belongs to the tls_cert beside it, {LOOPBACK}: this key does not"}
    assert found(admin={"tls_cert": LOOPBACK, "tls_key": LOOPBACK}) == {}
    told = found(tls_cert=LOOPBACK, tls_key=OTHER_KEY)
    assert told == {"tls_key": f"the key that belongs to the tls_cert beside it, {LOOPBACK}: this key does not"}
    assert found(tls_cert=LOOPBACK, tls_key=LOOPBACK) == {}


def test_a_redis_that_refuses_is_one_and_a_redis_that_is_down_is_none(redis_server: RedisServer) -> None:
    down = f"redis://:pw@127.0.0.1:{free_port()}"
    wrong = f"redis://127.0.0.1:{redis_server.port}/4096"
    assert found(redis={"url": down, **PATIENT_REDIS}) == {}
    assert found(redis={"url": redis_server.url, "replicas": [wrong], **PATIENT_REDIS}) == {
        "redis.replicas.0": "a database that Redis has"
    }


def test_files_that_a_redis_address_names_are_read() -> None:
    assert found(redis={"url": "rediss://127.0.0.1:1?ssl_ca_certs=/none.pem"}) == {
        "redis.url": "a file that can be read in ssl_ca_certs: No such file or directory"
    }


@pytest.mark.parametrize(
    "more",
    [
        {"listen": "203.0.113.7:1"},
        {"tls_cert": "/none", "tls_key": "/none"},
        {"admin": {"tls_cert": "/none", "tls_key": "/none"}},
        {"redis": {"url": "rediss://127.0.0.1:1?ssl_ca_certs=/none.pem"}},
    ],
)
def test_what_a_change_leaves_as_it_was_does_not_hinder_the_change(more: dict[str, Any]) -> None:
    assert found(**more)
    assert found(settings(**more), **more, workers=2) == {}
