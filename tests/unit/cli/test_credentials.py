"""`rpcaccel key`."""

from __future__ import annotations

import json
import tomllib

import pytest

from rpcaccel.cli.main import run
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
