"""`rpcaccel nodes --report --apply` as an operator runs it: the command shows what it would change, and asks first."""

from __future__ import annotations

import asyncio

from typer.testing import CliRunner, Result

from rpcaccel.cli.main import app
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView


async def applied(admin: Admin, answer: str) -> Result:
    """The command with an answer to its question."""
    command = ["nodes", "--report", "--apply", "--admin", admin.address]
    return await asyncio.to_thread(CliRunner().invoke, app, command, answer)


async def test_suggested_weights_are_applied_after_a_yes_and_after_nothing_else() -> None:
    view, control = SampleView(), SampleControl()
    admin = Admin(view, "127.0.0.1:0", control=control, files={}, interval=3600)
    await admin.start()
    for _ in range(5):
        view.advance(1.0, load=20.0)
        admin.sample()
    try:
        refused = await applied(admin, "n\n")
        assert (refused.exit_code, refused.stdout, control.ledger.revision) == (0, "", 1)
        assert "  a: weight 5 -> " in refused.stderr
        assert f"Apply these weights to {NETWORK}? [y/N]" in refused.stderr
        nobody = await applied(admin, "")
        # typer's own exit code; `run` makes 130 of it (tests/e2e/cli/test_commands.py).
        assert (nobody.exit_code, control.ledger.revision) == (1, 1)
        assert "nothing is changed; --yes does it without asking" in nobody.stderr
        agreed = await applied(admin, "y\n")
        assert (agreed.exit_code, control.ledger.revision) == (0, 2)
        assert agreed.stdout.startswith(f"revision 2: networks.{NETWORK}.nodes.a.weight: 5 -> ")
    finally:
        await admin.close()
