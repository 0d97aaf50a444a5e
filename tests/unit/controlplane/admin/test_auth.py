"""Who may pass, and who may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcaccel.config.model import AdminSettings
from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.auth import COOKIE, Gate, Who, admit, bearer, same_site
from rpcaccel.controlplane.admin.handling import ProblemError
from rpcaccel.controlplane.admin.login_throttle import FREE_TRIES, MAX_WAITING_OF_ADDRESS, PAUSE_SECONDS
from tests.support.waiting import threads_held

OPS, EYE = hash_password("ops-pw", log_n=4), hash_password("eye-pw", log_n=4)
ACCOUNTS: dict[str, Any] = {"ops": {"password": OPS, "role": "admin"}, "eye": {"password": EYE}}


class World:
    """A gate whose settings and clock can be moved."""

    def __init__(self, accounts: dict[str, Any]) -> None:
        self.now = 100.0
        self.put(accounts)
        self.waited = 0.0
        self.failed: list[tuple[str, str, str]] = []
        self.gate = Gate(
            lambda: self.settings, lambda: self.now, sleep=self.sleep, failed=lambda *what: self.failed.append(what)
        )

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        self.now += seconds
        await asyncio.sleep(0)

    async def wrong(self, password: str, name: str = "ops", remote: str = "1.1.1.1") -> None:
        with pytest.raises(ProblemError, match="401 wrong-password"):
            await self.gate.login(name, password, remote)

    def put(self, accounts: dict[str, Any]) -> None:
        self.settings = AdminSettings.model_validate({"accounts": accounts, "session": 60})

    async def by_cookie(self, secret: str) -> Who | None:
        return await self.gate.who({}, {COOKIE: secret}, "1.2.3.4")

    async def by_token(self, token: str, remote: str = "1.2.3.4") -> Who | None:
        return await self.gate.who({"Authorization": f"Bearer {token}"}, {}, remote)


@pytest.fixture
def world() -> World:
    return World(ACCOUNTS)


async def test_without_accounts_everyone_on_this_machine_may_change() -> None:
    world = World({})
    assert await world.by_cookie("") == Who("local", "admin")
    assert not world.gate.required


async def test_a_session_is_known_until_its_time_is_over(world: World) -> None:
    secret = await world.gate.login("ops", "ops-pw", "1.2.3.4")
    assert await world.by_cookie(secret) == Who("ops", "admin")
    assert await world.by_cookie(secret + "x") is None
    assert await world.by_cookie("") is None
    world.now = 160.0
    assert await world.by_cookie(secret) is None


async def test_who_was_let_in_is_asked_after_without_a_password(world: World) -> None:
    """A stream goes on only for who would still be let in."""

    def by_cookie(secret: str) -> bool:
        return world.gate.known({}, {COOKIE: secret}) is not None

    def by_token(token: str) -> bool:
        return world.gate.known({"Authorization": f"Bearer {token}"}, {}) is not None

    first, second, third = [await world.gate.login("eye", "eye-pw", "r") for _ in range(3)]
    await world.by_token("eye:eye-pw")
    assert (by_cookie(first), by_cookie(third), by_cookie(""), by_token("eye:eye-pw")) == (True, True, False, True)
    assert (by_token("eye:wrong"), by_token("nobody:eye-pw")) == (False, False)
    world.gate.logout(first)
    assert (by_cookie(first), by_cookie(second)) == (False, True)
    world.put({**ACCOUNTS, "eye": {"password": hash_password("new", log_n=4)}})
    assert (by_cookie(second), by_token("eye:eye-pw")) == (False, False)
    world.put({"ops": ACCOUNTS["ops"]})
    assert not by_cookie(third)
    world.put(ACCOUNTS)
    world.now = 160.0
    assert not by_cookie(third)
    world.put({})
    assert by_cookie("")


async def test_a_token_is_name_and_password(world: World) -> None:
    assert await world.by_token("eye:eye-pw") == Who("eye", "read")
    assert await world.by_token("eye:eye-pw") == Who("eye", "read")
    for wrong in ("eye:ops-pw", "eye", "nobody:eye-pw", ":"):
        assert await world.by_token(wrong, remote=wrong) is None
    world.put({**ACCOUNTS, "eye": {"password": hash_password("new", log_n=4)}})
    assert await world.by_token("eye:eye-pw") is None


async def test_a_right_password_gets_in_after_any_number_of_wrong_ones(world: World) -> None:
    """Behind a reverse proxy everybody has its address: what others tried there is not held against the operator."""
    for number in range(FREE_TRIES + 2):
        await world.wrong(f"wrong {number}")
    assert world.waited == 2 * PAUSE_SECONDS
    assert await world.gate.login("ops", "ops-pw", "1.1.1.1")
    await world.wrong("wrong again")
    assert world.waited == 2 * PAUSE_SECONDS


async def test_a_right_password_that_comes_again_waits_for_nobody(world: World) -> None:
    """Neither for the pause, nor for the others that wait, nor for the comparison."""
    assert await world.gate.login("ops", "ops-pw", "1.1.1.1")
    number = 2 * MAX_WAITING_OF_ADDRESS
    with threads_held():
        flood = [asyncio.create_task(world.by_token(f"ops:{guess}", "1.1.1.1")) for guess in range(number)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="429 too-many-logins"):
            await world.by_token("ops:not tried yet", "1.1.1.1")
        login = world.gate.login("ops", "ops-pw", "1.1.1.1")
        with pytest.raises(StopIteration):  # it is there without having waited once
            login.send(None)
        assert await world.by_token("ops:ops-pw", "1.1.1.1") == Who("ops", "admin")
    results = await asyncio.gather(*flood, return_exceptions=True)
    assert [result for result in results if result is None] == [None] * (MAX_WAITING_OF_ADDRESS + 1)
    assert all(isinstance(result, ProblemError) for result in results if result is not None)


async def test_a_password_new_to_this_run_gets_in_at_the_first_try_beside_a_flood_of_others(world: World) -> None:
    """One that came before its turn is compared once, and not told of twice."""
    flood = [asyncio.create_task(world.by_token(f"ops:{guess}", "1.1.1.1")) for guess in range(100)]
    await asyncio.sleep(0)
    assert await world.gate.login("ops", "ops-pw", "1.1.1.1")
    assert sum(task.done() for task in flood) < 20
    assert await asyncio.gather(*flood) == [None] * 100


async def test_a_password_whose_client_hangs_up_is_not_compared(world: World) -> None:
    with pytest.raises(ProblemError, match="401"):
        await world.gate.login("ops", "ops-pw", "1.1.1.1", lambda: True)
    assert await world.gate.who({"Authorization": "Bearer ops:ops-pw"}, {}, "1.1.1.1", lambda: True) is None
    assert [why for _, _, why in world.failed] == [
        "the client hung up, or the account was changed, before it was compared"
    ] * 2


async def test_a_wrong_password_that_comes_again_costs_nothing_and_is_not_counted(world: World) -> None:
    """A program that goes on asking with an old password does not slow down the operator who has the new one."""
    for _ in range(FREE_TRIES * 10):
        await world.wrong("old")
        await world.wrong("old", name="nobody")
    assert world.waited == 0
    assert await world.gate.login("ops", "ops-pw", "1.1.1.1")
    world.put({**ACCOUNTS, "ops": {"password": hash_password("old", log_n=4), "role": "admin"}})
    assert await world.gate.login("ops", "old", "1.1.1.1")
    await world.wrong("ops-pw")


@pytest.mark.parametrize("after", [{"eye": ACCOUNTS["eye"]}, {"ops": {"password": hash_password("new", log_n=4)}}])
async def test_a_password_is_not_right_when_the_account_was_changed_while_it_was_compared(
    world: World, after: dict[str, Any]
) -> None:
    with threads_held():
        login = asyncio.create_task(world.gate.login("ops", "ops-pw", "1.1.1.1"))
        await asyncio.sleep(0)
        world.put(after)
    with pytest.raises(ProblemError, match="401"):
        await login


async def test_a_stranger_takes_as_long_as_a_wrong_password(world: World) -> None:
    """Both compare a hash: the time says nothing about which names there are."""
    await world.wrong("x", name="nobody")
    assert world.gate._nobody.reveal().split(":")[:4] == hash_password("x").reveal().split(":")[:4]
    assert repr(world.gate) == "<Gate <Sessions 0, None>>"


async def test_each_failure_is_told_with_its_reason(world: World) -> None:
    await world.wrong("x")
    await world.wrong("x", name="nobody")
    await world.wrong("x", name="n" * 65)
    assert await world.by_token("ops:y", "2.2.2.2") is None
    assert await world.by_token("ops:ops-pw", "2.2.2.2")
    assert world.failed == [
        ("ops", "1.1.1.1", "wrong password"),
        ("nobody", "1.1.1.1", "no such account"),
        ("n" * 65, "1.1.1.1", "no such account"),
        ("ops", "2.2.2.2", "wrong password"),
    ]


async def test_what_is_remembered_of_passwords_is_bounded_and_holds_none_of_them(world: World) -> None:
    for number in range(1010):
        world.now += 100
        await world.by_token(f"ops:wrong {number}", "1.1.1.1")
    assert await world.by_token("ops:ops-pw")
    assert len(world.gate._wrong) == 1000
    assert all(len(digest) == 32 for digest in (*world.gate._wrong, *world.gate._right.values()))


def test_roles() -> None:
    reader, admin = Who("eye", "read"), Who("ops", "admin")
    for guard in ("open", "login"):
        admit(None, guard)  # type: ignore[arg-type]
    admit(reader, "read")
    admit(admin, "change")
    with pytest.raises(ProblemError, match="401"):
        admit(None, "read")
    with pytest.raises(ProblemError, match="403"):
        admit(reader, "change")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Rpcaccel-Request": "page"},
        {"X-Rpcaccel-Request": "page", "Host": "H:1", "Origin": "http://h:1"},
        {"X-Rpcaccel-Request": "page", "Host": "h:1", "Origin": "https://h:1", "Sec-Fetch-Site": "same-origin"},
        {"Authorization": "Bearer a:b"},
    ],
)
def test_the_page_and_programs_may_send_changes(headers: dict[str, str]) -> None:
    same_site(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "h:1", "Origin": "http://h:1"},
        {"X-Rpcaccel-Request": "page", "Host": "h:1", "Origin": "http://h:2"},
        {"X-Rpcaccel-Request": "page", "Host": "h:1", "Origin": "null"},
        {"X-Rpcaccel-Request": "page", "Host": "h:1", "Origin": "http://["},
        {"X-Rpcaccel-Request": "page", "Sec-Fetch-Site": "cross-site"},
        {"X-Rpcaccel-Request": "page", "Sec-Fetch-Site": "same-site"},
        {"Authorization": "Basic YTpi"},
    ],
)
def test_a_page_elsewhere_may_not(headers: dict[str, str]) -> None:
    with pytest.raises(ProblemError, match="403 cross-site"):
        same_site(headers)


def test_tokens_are_read_from_the_authorization_header() -> None:
    assert bearer({"Authorization": "bearer  x:y "}) == "x:y"
    assert bearer({"Authorization": "Bearer "}) is None
    assert bearer({}) is None
