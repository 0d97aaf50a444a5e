"""The sides of a comparison."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer

from benchmarks.peers import post, refused
from benchmarks.rounds import BODIES
from rpcaccel.cli.load import bench_targets
from tests.support.serving import responding_apart


def test_an_endpoint_on_this_machine_tells_its_process() -> None:
    with responding_apart() as url, bench_targets.side(url, ())() as running:
        assert os.getpid() in running.pids
        assert running.target.shown == url
    with responding_apart() as url, bench_targets.side(url, [1])() as running:
        assert 1 in running.pids


def test_two_sides_whose_secrets_alone_differ_have_names_of_their_own() -> None:
    url = "http://127.0.0.1:8888"
    assert bench_targets.names(f"{url}/key/one", f"{url}/key/two") == (f"{url} (A)", f"{url} (B)")
    assert bench_targets.names(url, "a.toml") == (url, "a.toml")


@pytest.fixture
def _named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that name what another proxy is to serve, and what nobody has."""
    for name in ("CONFIG", "STATE", "NODES", "CHAIN"):
        monkeypatch.setenv(f"RPCACCEL_{name}", str(tmp_path / "none"))


@pytest.mark.usefixtures("_named_by_the_environment")
@pytest.mark.parametrize("form", ["console", "json"])
def test_a_config_file_is_served_alone_for_as_long_as_it_is_looked_at(tmp_path: Path, form: str) -> None:
    """Neither what the environment names, nor what was changed at run time of a proxy that runs beside it."""
    file = tmp_path / "a.toml"
    with responding_apart() as node:
        file.write_text(f'log.format = "{form}"\n[networks.x]\nnodes = ["{node}"]\n')
        (tmp_path / "a.state.json").write_text("of a proxy that runs beside it")
        with bench_targets.side(str(file), ())() as running:
            (main, *_) = running.pids
            assert Path(f"/proc/{main}").exists()
            assert refused(running.target.shown, BODIES["ids"](1)) == ""
        assert not Path(f"/proc/{main}").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.state.json", "a.toml"]


def test_a_file_that_cannot_be_served_says_why(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("nonsense = 1\n")
    with pytest.raises(OSError, match="nonsense"), bench_targets.side(str(file), ())():
        pass


@pytest.mark.deep
@pytest.mark.usefixtures("_named_by_the_environment")
def test_a_node_gets_a_proxy_for_as_long_as_it_is_measured() -> None:
    with responding_apart() as node:
        with bench_targets.meanwhile(node, "") as nothing:
            assert not nothing
        with bench_targets.meanwhile(node, "harmony") as url:
            assert refused(url, BODIES["ids"](1)) == ""
            assert post(url, BODIES["ids"](2))[1] == "memory"
        assert refused(url, BODIES["ids"](1))
        with (
            pytest.raises(typer.TyperException, match=r"a proxy before http.* is not served: .*nochain"),
            bench_targets.meanwhile(node, "nochain"),
        ):
            pass


def test_what_is_neither_is_said() -> None:
    for text in ("a", "missing.toml"):
        with pytest.raises(typer.BadParameter):
            bench_targets.side(text, ())
    assert bench_targets.shown("http://u:secret@a.example/key") == "http://a.example"
