"""The admin side over settings that nobody serves, for commands that ask it; they block, so they run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest
from typer.testing import CliRunner, Result

from rpcaccel.cli.main import app, run
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Ask = Callable[..., Awaitable[Said]]
Answer = Callable[..., Awaitable[Result]]


@pytest.fixture
def control() -> SampleControl:
    return SampleControl()


@pytest.fixture
def view() -> SampleView:
    return SampleView()


@pytest.fixture
async def admin(view: SampleView, control: SampleControl) -> AsyncIterator[Admin]:
    view.advance(0.2)
    admin = Admin(view, "127.0.0.1:0", control=control, files={})
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
def ask(admin: Admin, capsys: pytest.CaptureFixture[str]) -> Ask:
    """`await ask("settings", "get")`: a command, asking a running admin side."""

    async def asked(*arguments: str) -> Said:
        capsys.readouterr()
        code = await asyncio.to_thread(run, [*arguments, "--admin", admin.address])
        return Said(code, *capsys.readouterr())

    return asked


@pytest.fixture
def answer(admin: Admin) -> Answer:
    """`await answer("y\\n", "node", "remove", "a")`: a command that asks the operator, and what is answered."""

    async def answered(text: str, *arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--admin", admin.address], text)

    return answered
