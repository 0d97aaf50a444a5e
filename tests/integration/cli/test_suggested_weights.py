"""`rpcaccel nodes --report --apply` as an operator runs it: the command is its own process, and asks first."""

from __future__ import annotations

import asyncio
import sys

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView


async def applied(admin: Admin, answer: str) -> tuple[int | None, str, str]:
    """The command with an answer to its question: how it ended, and what it printed."""
    command = [sys.executable, "-m", "rpcaccel", "nodes", "--report", "--apply", "--admin", admin.address]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = await process.communicate(answer.encode())
    return process.returncode, out.decode(), err.decode()


async def test_suggested_weights_are_applied_after_a_yes_and_after_nothing_else() -> None:
    view, control = SampleView(), SampleControl()
    admin = Admin(view, "127.0.0.1:0", control=control, files={}, interval=3600)
    await admin.start()
    for _ in range(5):
        view.advance(1.0, load=4.0)
        admin.sample()
    try:
        code, out, err = await applied(admin, "n\n")
        assert (code, out, control.ledger.revision) == (0, "", 1)
        assert "  a: weight 5 -> " in err
        assert f"Apply these weights to {NETWORK}? [y/N]" in err
        code, out, err = await applied(admin, "")
        assert (code, control.ledger.revision) == (130, 1)
        assert "nothing is changed; --yes does it without asking" in err
        code, out, _ = await applied(admin, "y\n")
        assert (code, control.ledger.revision) == (0, 2)
        assert out.startswith(f"revision 2: networks.{NETWORK}.nodes.a.weight: 5 -> ")
    finally:
        await admin.close()
