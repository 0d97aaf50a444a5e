"""Sessions: kept over a restart in a file that opens none of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from rpcaccel.config.model import AdminSettings
from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.auth import MAX_SESSIONS, Sessions
from tests.support.waiting import until

OPS, EYE = hash_password("ops-pw", log_n=4), hash_password("eye-pw", log_n=4)


def settings(**accounts: Any) -> AdminSettings:
    named = {"ops": OPS, "eye": EYE} | accounts
    kept = {name: {"password": password} for name, password in named.items() if password is not None}
    return AdminSettings.model_validate({"accounts": kept, "session": 60})


class Times:
    """A program that is started again and again over the same file, and clocks that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rpcaccel.sessions.json"
        self.mono, self.wall = 100.0, 1_700_000_000.0

    def start(self, longest: float = 60.0) -> Sessions:
        self.mono += 5000.0  # a monotonic clock says nothing about another run
        sessions = Sessions(lambda: self.mono, lambda: self.wall, self.path)
        sessions.open(longest)
        return sessions

    def passes(self, seconds: float) -> None:
        self.mono += seconds
        self.wall += seconds

    async def begun(self, *names: str) -> list[str]:
        """The secrets of sessions that were begun in a run that has ended."""
        sessions = self.start()
        made = [sessions.begin(name, settings()) for name in names]
        await sessions.close()
        return made


@pytest.fixture
def times(tmp_path: Path) -> Times:
    return Times(tmp_path)


async def test_a_session_outlives_a_restart_and_lasts_no_longer_for_it(times: Times) -> None:
    (secret,) = await times.begun("ops")
    times.passes(30)
    sessions = times.start()
    assert sessions.name_of(secret, settings().accounts) == "ops"
    assert sessions.name_of(secret + "x", settings().accounts) is None
    times.passes(31)
    assert sessions.name_of(secret, settings().accounts) is None
    await sessions.close()
    again = times.start()
    assert repr(again).startswith("<Sessions 0")
    await again.close()


async def test_a_clock_that_was_put_back_makes_no_session_longer_than_the_settings_allow(times: Times) -> None:
    (secret,) = await times.begun("ops")
    times.wall -= 86_400
    sessions = times.start(longest=10)
    times.passes(11)
    assert sessions.name_of(secret, settings().accounts) is None
    await sessions.close()


async def test_another_password_or_no_account_ends_the_sessions_of_before_the_restart(times: Times) -> None:
    ops, eye = await times.begun("ops", "eye")
    sessions = times.start()
    assert sessions.name_of(eye, settings(eye=hash_password("new", log_n=4)).accounts) is None
    assert sessions.name_of(ops, settings(ops=None).accounts) is None
    assert sessions.name_of(ops, settings().accounts) == "ops"
    await sessions.close()


async def test_a_session_that_was_ended_does_not_come_back(times: Times) -> None:
    first, second = await times.begun("ops", "ops")
    sessions = times.start()
    sessions.end(first)
    await sessions.close()
    sessions = times.start()
    assert sessions.name_of(first, settings().accounts) is None
    assert sessions.name_of(second, settings().accounts) == "ops"
    await sessions.close()


async def test_a_login_is_written_while_the_program_runs(times: Times) -> None:
    """A program that is killed has written it."""
    sessions = times.start()
    secret = sessions.begin("ops", settings())
    await until(times.path.exists)
    killed = times.start()
    assert killed.name_of(secret, settings().accounts) == "ops"
    await asyncio.gather(sessions.close(), killed.close())


async def test_nothing_is_written_where_nobody_logged_in(times: Times) -> None:
    await times.begun()
    assert list(times.path.parent.iterdir()) == []


async def test_nothing_in_the_file_opens_a_session(times: Times) -> None:
    (secret,) = await times.begun("ops")
    assert times.path.stat().st_mode & 0o777 == 0o600
    content = times.path.read_text()
    assert secret not in content
    assert OPS.reveal().rpartition(":")[2] not in content
    sessions = times.start()
    for guess in map(str, msgspec.json.decode(content)["sessions"][0].values()):
        assert sessions.name_of(guess, settings().accounts) is None
    await sessions.close()


async def test_a_file_of_an_older_version_is_set_aside(times: Times) -> None:
    times.path.write_text('{"version": 1, "sessions": []}')
    with structlog.testing.capture_logs() as logged:
        await times.begun("ops")
    assert [line["reason"] for line in logged] == ["has version 1, which this rpcaccel does not read"]
    assert times.path.with_name("rpcaccel.sessions.json.lost").exists()


@pytest.mark.parametrize(
    "content", [b"", b'{"version":2}', b"\xff\xfe", b"[" * 999, b'{"version":2,"sessions":[{"name":"ops"}]}',
                b'{"version":2,"sessions":[{"digest":"QQ==","name":"ops","password":"QQ==","expires":9e9}]}']
)  # fmt: skip
async def test_a_damaged_file_means_that_everybody_logs_in_again(times: Times, content: bytes) -> None:
    (secret,) = await times.begun("ops")
    times.path.write_bytes(content)
    with structlog.testing.capture_logs() as logged:
        sessions = times.start()
    assert sessions.name_of(secret, settings().accounts) is None
    assert [(line["event"], line["reason"]) for line in logged] == [
        ("sessions are lost: everybody logs in again", "is damaged")
    ]
    new = sessions.begin("ops", settings())
    await sessions.close()
    sessions = times.start()
    assert sessions.name_of(new, settings().accounts) == "ops"
    await sessions.close()


async def test_a_folder_that_cannot_be_written_is_said_once_and_logins_go_on(times: Times) -> None:
    times.path.mkdir()
    with structlog.testing.capture_logs() as logged:
        sessions = Sessions(lambda: times.mono, lambda: times.wall, times.path)
        sessions.open(60)
        secret = sessions.begin("ops", settings())
        await sessions.close()
    assert sessions.name_of(secret, settings().accounts) == "ops"
    assert [line["event"] for line in logged if line["log_level"] == "warning"] == [
        "sessions cannot be kept: they last until the restart"
    ]


async def test_the_sessions_are_bounded_and_the_oldest_goes_first(times: Times) -> None:
    sessions = times.start()
    made = [sessions.begin("eye", settings()) for _ in range(MAX_SESSIONS + 1)]
    assert repr(sessions).startswith(f"<Sessions {MAX_SESSIONS}")
    assert sessions.name_of(made[0], settings().accounts) is None
    assert sessions.name_of(made[1], settings().accounts) == "eye"
    await sessions.close()


async def test_a_logout_that_could_not_be_written_at_once_is_written_at_the_end(times: Times) -> None:
    (secret,) = await times.begun("ops")
    sessions = times.start()
    folder = times.path.parent
    aside = folder.rename(folder.with_name("aside"))  # so that nothing can be written
    sessions.end(secret)
    with structlog.testing.capture_logs() as told:
        while not told:
            await asyncio.sleep(0)
    aside.rename(folder)
    await sessions.close()
    again = times.start()
    assert again.name_of(secret, settings().accounts) is None
    await again.close()
