"""`rpcaccel init`: the nodes it tries, what it asks, and the file it writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from rpcaccel.cli.init import FirstConfiguration
from rpcaccel.cli.main import run
from rpcaccel.config.errors import ConfigError
from rpcaccel.config.load import load
from rpcaccel.config.model import Settings
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes

DOWN = "http://127.0.0.1:1"
SECRET = "s3cret-token"


class Answers:
    """An operator who gives these answers, one after the other; "" is Enter."""

    def __init__(self, *answers: str) -> None:
        self.left = list(answers)
        self.asked: list[str] = []

    def __call__(self, question: str, otherwise: str) -> str:
        self.asked.append(question)
        return self.left.pop(0) or otherwise


async def made(
    file: Path, nodes: Sequence[str], *flags: str, answers: Answers | None = None, force: bool = False, **named: Any
) -> int:
    """The exit code of a first configuration in `file`, while this loop serves the nodes."""
    given = dict(flag.split("=", 1) for flag in flags)
    first = FirstConfiguration(answers, force=force)
    return await asyncio.to_thread(first.write, nodes, named.get("chain"), named.get("shard"), given, file)


def read(file: Path) -> Settings:
    return load(file, environ={})


def urls(settings: Settings) -> dict[str, list[str]]:
    return {name: [node.url.reveal() for node in one.nodes] for name, one in settings.networks.items()}


async def test_by_flags_the_file_says_what_was_chosen_and_no_secret_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my own.toml"
    async with harmony_nodes(2) as (a, b), ethereum_nodes(1) as (geth,):
        nodes = [f'{a.url}/{SECRET}"${{X}},weight=3,id=mine', b.url, geth.url]
        flags = ["--listen=127.0.0.1:7777", "--memory=1GB", "--redis=redis://u:s3cret-token@127.0.0.1:1"]
        assert await made(file, nodes, *flags) == 0
    out, err = capsys.readouterr()
    chosen = {
        "listen": "127.0.0.1:7777",
        "memory": {"size": "1GB"},
        "redis": {"url": f"redis://u:{SECRET}@127.0.0.1:1"},
        "networks": {
            "harmony-s0": {"nodes": [{"id": "mine", "url": f'{a.url}/{SECRET}"${{X}}', "weight": 3}, b.url]},
            "ethereum": {"chain": "ethereum", "nodes": [geth.url]},
        },
    }
    assert read(file) == Settings.model_validate(chosen)
    assert SECRET not in out + err
    assert file.stat().st_mode & 0o777 == 0o600
    assert out.count("right") == 3
    last = out.splitlines()
    assert last[-2].strip() == f"rpcaccel serve --config '{file}'"
    assert last[-1].strip().startswith("http://127.0.0.1:8889/ ")


async def test_a_wrong_node_is_told_and_written_all_the_same_where_nobody_can_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harmony_nodes(1) as (a,):
        assert await made(tmp_path / "f", [a.url, f"{DOWN},id=down"]) == 1
    assert urls(read(tmp_path / "f")) == {"harmony-s0": [a.url, DOWN]}
    assert "harmony-s0/down is written, though it is wrong: no connection to" in capsys.readouterr().err


async def test_where_no_node_says_what_it_serves_nothing_is_written_unless_the_chain_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await made(tmp_path / "f", [DOWN]) == 1
    assert not (tmp_path / "f").exists()
    assert "what they serve is not known: --chain and --shard say it" in capsys.readouterr().err
    assert await made(tmp_path / "f", [DOWN], chain="ethereum") == 1
    assert read(tmp_path / "f").networks["ethereum"].chain == "ethereum"


async def test_on_a_terminal_what_no_flag_gives_is_asked_until_it_can_be_taken(tmp_path: Path) -> None:
    async with harmony_nodes(1) as (a,):
        kept = str(tmp_path / "kept")
        said = Answers("ftp://x", DOWN, f"{a.url} {DOWN},id=down", "", "nowhere", ":7777", "", kept)
        assert await made(tmp_path / "f", [], "--workers=2", answers=said) == 0
    assert not said.left
    settings = read(tmp_path / "f")
    assert urls(settings) == {"harmony-s0": [a.url]}
    assert (settings.listen, settings.workers, settings.disk.path) == ("0.0.0.0:7777", 2, kept)
    assert [question for question in said.asked if "down is wrong" in question]


async def test_enter_alone_takes_the_defaults_which_stand_as_suggestions(tmp_path: Path) -> None:
    async with harmony_nodes(1) as (a,):
        assert await made(tmp_path / "f", [a.url], answers=Answers("", "", "")) == 0
    assert read(tmp_path / "f") == Settings.model_validate({"networks": {"harmony-s0": {"nodes": [a.url]}}})
    assert "\n#listen = " in (tmp_path / "f").read_text("utf-8")
    assert (tmp_path / "f").stat().st_mode & 0o077 == 0o044


async def test_a_wrong_node_stays_by_a_yes_and_without_any_node_nothing_is_written(tmp_path: Path) -> None:
    assert await made(tmp_path / "f", [DOWN], chain="harmony", shard=0, answers=Answers("no")) == 1
    assert not (tmp_path / "f").exists()
    assert await made(tmp_path / "f", [DOWN], chain="harmony", shard=0, answers=Answers("yes", "", "", "")) == 0
    assert urls(read(tmp_path / "f")) == {"harmony-s0": [DOWN]}


async def test_a_file_that_is_there_is_replaced_by_a_yes_alone(tmp_path: Path) -> None:
    file, other = tmp_path / "f", tmp_path / "other"
    file.write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="is there already: --force replaces it"):
        await made(file, [DOWN], chain="harmony", shard=0)
    with pytest.raises(typer.Abort):
        await made(file, [DOWN], chain="harmony", shard=0, answers=Answers(""))
    answers = Answers(str(other), "yes", "", "", "")
    assert await made(file, [DOWN], chain="harmony", shard=0, answers=answers) == 0
    assert (file.read_text("utf-8"), other.exists()) == ("mine", True)
    assert (
        await made(other, [DOWN], "--memory=1GB", chain="harmony", shard=0, answers=Answers("yes", "yes", "", "")) == 0
    )
    assert read(other).memory.size == 10**9
    assert await made(file, [DOWN], chain="harmony", shard=0, force=True) == 1
    assert urls(read(file)) == {"harmony-s0": [DOWN]}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["init", *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--yes"], "give URLs of nodes, or a chain"),
        (["harmny"], "expected a URL such as https://node.example, or a chain"),
        ([f"{DOWN}/{SECRET},wieght=3"], "did you mean weight= for wieght=?"),
        ([DOWN, "--memory", "much"], 'memory.size: found "much", expected a size'),
        ([DOWN, "--chain", "ethereum", "-o", "/nowhere/f"], "/nowhere/f: cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    arguments: Iterable[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = [] if "-o" in arguments else ["-o", str(tmp_path / "f")]
    said = refused(capsys, *arguments, *file)
    assert why in said
    assert SECRET not in said
    assert not (tmp_path / "f").exists()


def test_what_is_no_file_is_not_replaced_by_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # such as /dev/null is none
    said = refused(capsys, DOWN, "--chain", "ethereum", "--force", "-o", str(tmp_path / "pipe"))
    assert "it is there, and no file" in said
    assert (tmp_path / "pipe").is_fifo()


async def test_a_file_that_comes_while_questions_are_asked_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"

    class Meanwhile(Answers):
        def __call__(self, question: str, otherwise: str) -> str:
            file.write_text("of somebody else")
            return super().__call__(question, otherwise)

    async with harmony_nodes(1) as (node,):
        with pytest.raises(ConfigError, match="is there now: it came while nodes were asked"):
            await made(file, [node.url], answers=Meanwhile("", "", ""))
    assert file.read_text() == "of somebody else"
    assert os.listdir(tmp_path) == [file.name]


async def test_what_a_start_would_refuse_is_refused_before_a_node_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"disk.path"):
        await made(tmp_path / "a.toml", [DOWN], f"--disk={tmp_path / 'file' / 'folder'}")
    assert not (tmp_path / "a.toml").exists()


async def test_a_place_that_cannot_be_written_is_asked_for_again(tmp_path: Path) -> None:
    good, flags = tmp_path / "good.toml", ["--listen=127.0.0.1:0", "--memory=1MB", f"--disk={tmp_path / 'cache'}"]
    answers = Answers(str(tmp_path / "no folder" / "x.toml"), str(good))
    async with harmony_nodes(1) as (node,):
        first = FirstConfiguration(answers)
        given = dict(flag.split("=", 1) for flag in flags)
        assert await asyncio.to_thread(first.write, [node.url], None, None, given, None) == 0
    assert urls(read(good)) == {"harmony-s0": [node.url]}
    assert answers.left == []


def test_a_chain_may_be_named_in_capitals(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    assert run(["init", DOWN, "--chain", "Ethereum", "-o", str(file), "--yes"]) == 1
    assert [network.chain for network in read(file).networks.values()] == ["ethereum"]
