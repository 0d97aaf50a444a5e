"""An account for the config, from a password."""

from __future__ import annotations

import json
import tomllib

from typer.testing import CliRunner

from rpcaccel.cli.main import app
from rpcaccel.config.model import AdminSettings


def test_a_password_from_a_pipe_becomes_an_account() -> None:
    done = CliRunner().invoke(app, ["passwd", "ops"], input="correct horse\n")
    account = AdminSettings.model_validate(tomllib.loads(done.stdout)["admin"]).accounts["ops"]
    assert account.role == "admin"
    assert account.password.admits("correct horse")
    assert "correct horse" not in done.output


def test_an_account_may_be_read_only() -> None:
    done = CliRunner().invoke(app, ["passwd", "eye", "--read-only"], input="correct horse\n")
    assert tomllib.loads(done.stdout)["admin"]["accounts"]["eye"]["role"] == "read"


def test_an_account_is_told_to_programs() -> None:
    done = CliRunner().invoke(app, ["passwd", "eye", "--read-only", "--json"], input="correct horse\n")
    told = json.loads(done.stdout)
    assert (told["name"], told["role"]) == ("eye", "read")
    assert tomllib.loads(told["toml"])["admin"]["accounts"]["eye"]["password"] == told["hash"]
    assert "correct horse" not in done.output


def test_a_short_password_is_refused() -> None:
    done = CliRunner().invoke(app, ["passwd"], input="short\n", standalone_mode=False)
    assert (done.return_value, done.stdout) == (1, "")


def test_a_name_that_the_settings_would_refuse_is_asked_for_no_password() -> None:
    done = CliRunner().invoke(app, ["passwd", "a b"], input="correct horse\n")
    assert (done.exit_code, done.stdout) == (2, "")
