"""The settings as a config file."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.load import load
from rpcaccel.config.model import Settings
from rpcaccel.config.toml_file import expand
from rpcaccel.controlplane.settings.config_file import SUGGESTED, holds_secret, to_toml
from tests.support.sample_control import sample_settings


def test_what_has_no_secret_comes_back_as_it_was() -> None:
    settings = Settings.model_validate(
        {
            "workers": 3,
            "memory": {"size": "1GB"},
            "http": {"deny": ["debug_*"], "cors_origins": []},
            "networks": {
                "x-y": {
                    "shard": 1,
                    "chain_id": 7,
                    "nodes": ["http://a:1,weight=3", {"url": "http://b", "roles": ["archive"]}],
                },
                "z": {"nodes": ["http://c"]},
            },
        }
    )
    text = to_toml(settings, "a title")
    assert text.startswith("# a title\n")
    assert "hidden" not in text
    assert Settings.model_validate(tomllib.loads(text)) == settings


def test_secrets_are_hidden_and_listed() -> None:
    text = to_toml(sample_settings(redis={"url": "redis://u:s3cret-token@r"}), "t")
    assert "s3cret-token" not in text
    assert "# hidden here, to be filled in: networks.harmony-s0.nodes[0].url" in text
    assert "# hidden here, to be filled in: redis.url" in text
    assert "nodes[1].url" not in text
    tomllib.loads(text)


EVERYTHING = tuple(Settings.model_fields)
ODD = 'http://a.example/"quoted"/${HOME}/$$/it\'s?k=a,weight'
CHOSEN = [
    {"networks": {"harmony-s0": {"nodes": ["http://a"]}}},
    {"networks": {"x": {"chain": "ethereum", "nodes": [{"id": "a:9500", "url": ODD, "weight": 3}, "http://b"]}}},
    {
        "listen": "[::1]:0",
        "admin": {"accounts": {"ops": {"password": f"scrypt:15:8:1:{'B' * 22}:{'B' * 43}"}}},
        "memory": {"size": "1GB"},
        "disk": {"path": '/var/a "b" $c', "size": "3GiB"},
        "redis": {"url": "redis://u:p$w@r"},
        "networks": {
            "a.b": {"shard": 1, "chain_id": 7, "block_time": "1.5s", "nodes": ["http://a,weight=0", "http://b"]},
            "z": {"nodes": [{"url": "http://c", "headers": {"X.Key": "${k}"}, "quota": {"day": 5}}]},
        },
    },
]


def loaded(text: str, folder: Path) -> Settings:
    """The settings of a file with this text, as `serve --config` reads it."""
    file = folder / "rpcaccel.toml"
    file.write_text(text, "utf-8")
    return load(file, environ={})


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("suggest", [False, True])
def test_what_is_chosen_is_what_the_file_loads_to(chosen: dict[str, Any], suggest: bool, tmp_path: Path) -> None:
    settings = Settings.model_validate(chosen)
    text = to_toml(settings, "two\nlines", revealed=EVERYTHING, suggest=suggest)
    assert text.startswith("# two\n# lines\n")
    assert loaded(text, tmp_path) == settings


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20))
def test_any_text_is_read_back_from_the_file_as_it_was(text: str) -> None:
    settings = Settings.model_validate({"disk": {"path": text}, "networks": {"x": {"nodes": ["http://a"]}}})
    read = expand(tomllib.loads(to_toml(settings, "")), {}, lambda path, why: pytest.fail(f"{path}: {why}"))
    assert read.get("disk", {}).get("path", "") == text


@pytest.mark.parametrize("chosen", CHOSEN)
def test_every_suggestion_is_valid_and_holds_without_its_mark(chosen: dict[str, Any], tmp_path: Path) -> None:
    settings = Settings.model_validate(chosen)
    text = to_toml(settings, "t", revealed=EVERYTHING, suggest=True)
    marked = re.findall(r"^#(?! )(.+)$", text, re.MULTILINE)
    assert marked
    for line in marked:
        if not line.startswith("[") and not line.startswith(("password", "role")):
            loaded(text.replace(f"#{line}", line), tmp_path)  # each by itself, under its header
    taken = loaded(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE), tmp_path)
    network = next(iter(taken.networks.values()))
    assert (taken.workers, taken.log.format, network.balancer) != (1, "console", "smooth_weighted")
    assert network.balancer == SUGGESTED["networks"]["*"]["balancer"]
    assert network.nodes[0].tier == SUGGESTED["networks"]["*"]["nodes"]["tier"]
    assert {name: one.chain for name, one in taken.networks.items()} == {
        name: one.chain for name, one in settings.networks.items()
    }
    assert taken.memory.size == 10**9


def test_what_is_set_or_suggested_is_explained_in_a_sentence_once_for_all_nodes() -> None:
    text = to_toml(Settings.model_validate(CHOSEN[1]), "t", revealed=EVERYTHING, suggest=True)
    lines = text.splitlines()[2:]
    for before, line in pairwise(lines):
        if " = " in line and line.lstrip("#")[0] != " " and not before.startswith("["):
            assert before.startswith("# ") or 'id = "b"' in before, line
    assert (text.count("# The name of the node"), text.count("\nid = ")) == (1, 2)


def test_only_named_tables_show_their_secrets() -> None:
    settings = sample_settings(redis={"url": "redis://u:s3cret-token@r"})
    text = to_toml(settings, "t", revealed=("networks",))
    assert "https://u:s3cret-token@a.example/key" in text
    assert "hidden here, to be filled in: redis.url" in text
    assert text.count("s3cret-token") == 1


def test_a_file_that_needs_no_secret_is_told_from_one_that_does() -> None:
    assert holds_secret(sample_settings())
    assert not holds_secret(Settings.model_validate(CHOSEN[0]))
