"""`rpcaccel key` and `passwd`."""

from __future__ import annotations

import json
import tomllib

import pytest
from typer.testing import CliRunner

from rpcaccel.cli.main import app, run
from rpcaccel.config.model import AdminSettings
from rpcaccel.config.sections import ClientsSettings
from rpcaccel.core import client_limits


def test_a_new_key_comes_with_the_lines_for_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "my-dapp"]) == 0
    first = capsys.readouterr().out
    run(["key", "my-dapp"])
    assert capsys.readouterr().out != first
    key_line, hash_line, toml = first.split("\n", 2)
    key = key_line.split()[1]
    assert hash_line.split()[1] == client_limits.hashed(key)
    settings = ClientsSettings.model_validate(tomllib.loads(toml)["clients"])
    assert settings.keys["my-dapp"].hashes == (client_limits.hashed(key),)


def test_a_key_is_told_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "my-dapp", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hash"] == client_limits.hashed(told["key"])
    assert tomllib.loads(told["toml"])["clients"]["keys"][told["name"]]["hashes"] == [told["hash"]]


def test_a_name_with_a_dot_is_one_name_in_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    run(["key", "my.dapp"])
    toml = capsys.readouterr().out.split("\n", 2)[2]
    assert list(ClientsSettings.model_validate(tomllib.loads(toml)["clients"]).keys) == ["my.dapp"]


def test_a_name_that_the_settings_would_refuse_makes_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "My DApp"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "NAME: found 'My DApp', expected up to 64 small letters" in said.err


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
