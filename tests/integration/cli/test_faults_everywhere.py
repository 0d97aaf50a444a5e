"""One judge: `check`, `serve`, a reload and a change at run time say alike what is wrong, and nothing is changed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tomlkit
from structlog.testing import capture_logs

from rpcaccel.cli import options
from rpcaccel.cli.main import run
from rpcaccel.config.errors import ConfigError
from rpcaccel.config.patch import merge
from rpcaccel.controlplane.settings.ledger import Origin, StateDocument, state_file
from rpcaccel.controlplane.supervisor import Supervisor
from tests.support.services import SUPPORT, RedisServer

PEM = str(SUPPORT / "loopback.pem")
OTHER_KEY = str(SUPPORT / "other_key.pem")
SOUND: dict[str, Any] = {
    "listen": "127.0.0.1:0",
    "drain_timeout": 1,
    "admin": {"listen": "127.0.0.1:0"},
    "redis": {"connect_timeout": 20, "write_timeout": 20},
    "networks": {"x": {"nodes": {"a": {"url": "http://127.0.0.1:1"}}}},
}
"""As a change has it: nodes by id."""
FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("open", {"admin": {"listen": "0.0.0.0:0"}}, "admin.listen"),
    ("no key", {"admin": {"tls_cert": PEM}}, "admin.tls_key"),
    ("no certificate", {"admin": {"tls_key": PEM}}, "admin.tls_cert"),
    ("unreadable", {"admin": {"tls_cert": "/none.pem", "tls_key": PEM}}, "admin.tls_cert"),
    ("no PEM", {"admin": {"tls_cert": __file__, "tls_key": PEM}}, "admin.tls_cert"),
    ("another key", {"admin": {"tls_cert": PEM, "tls_key": OTHER_KEY}}, "admin.tls_key"),
    ("same port", {"listen": "0.0.0.0:8889", "admin": {"listen": "localhost:8889"}}, "admin.listen"),
    ("elsewhere", {"listen": "203.0.113.7:8888"}, "listen"),
    ("too large", {"memory": {"size": 1000, "max_entry": 1001}}, "memory.max_entry"),
    ("no weight", {"networks": {"x": {"nodes": {"a": {"weight": 0}}}}}, "networks.x.nodes"),
    ("no method", {"networks": {"x": {"rules": {"eth_getBlance": {}}}}}, "networks.x.rules.eth_getBlance"),
    ("replicas", {"redis": {"replicas": ["redis://127.0.0.1:1"]}}, "redis.replicas"),
    ("no file for Redis", {"redis": {"url": "rediss://127.0.0.1:1?ssl_ca_certs=/none"}}, "redis.url"),
    ("no database", {"redis": {"url": "redis://127.0.0.1:{redis}/4096"}}, "redis.url"),
    ("no password", {"redis": {"url": "redis://:wrong-pw@127.0.0.1:{redis}"}}, "redis.url"),
    ("a single value", {"workers": 0}, "workers"),
]
CASES = pytest.mark.parametrize(("fault", "path"), [pytest.param(fault, path, id=name) for name, fault, path in FAULTS])


def meant(document: Any, redis: RedisServer) -> Any:
    """The document with the port of this Redis in it."""
    return json.loads(json.dumps(document).replace("{redis}", str(redis.port)))


def write(file: Path, document: dict[str, Any]) -> None:
    listed = {
        name: {**network, "nodes": [{"id": id, **node} for id, node in network["nodes"].items()]}
        for name, network in document["networks"].items()
    }
    file.write_text(tomlkit.dumps({**document, "networks": listed}))


@CASES
@pytest.mark.parametrize("command", [["check"], ["serve", "--config"]], ids=["check", "serve"])
def test_a_start_says_what_is_wrong_with_its_line_and_exit_code_2(
    command: list[str],
    fault: dict[str, Any],
    path: str,
    tmp_path: Path,
    redis_server: RedisServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "rpcaccel.toml"
    write(file, merge(SOUND, meant(fault, redis_server)))
    assert run([*command, str(file)]) == 2
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert line.startswith(f"rpcaccel: {path}") or line.startswith(f"rpcaccel: {path.replace('.nodes', '.nodes[0]')}")
    assert re.search(rf"\({re.escape(str(file))}, line \d+\)$", line), line
    assert (out, "wrong-pw" in err) == ("", False)


def test_all_rules_that_are_broken_are_told_at_once(
    tmp_path: Path, redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    together: dict[str, Any] = {}
    for name in ("same port", "too large", "no weight", "no method", "no database", "unreadable"):
        together = merge(together, next(fault for known, fault, _ in FAULTS if known == name))
    file = tmp_path / "rpcaccel.toml"
    write(file, merge(SOUND, meant(together, redis_server)))
    said = []
    for command in (["check"], ["serve", "--config"]):
        assert run([*command, str(file)]) == 2
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert {line.split(": ")[1] for line in said[0].splitlines()} == {
        "admin.listen",
        "memory.max_entry",
        "networks.x.nodes",
        "networks.x.rules.eth_getBlance",
        "redis.url",
        "admin.tls_cert",
    }


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Supervisor, str, Path]]:
    """A program that serves a sound file, its admin API, and the file."""
    file = tmp_path / "rpcaccel.toml"
    write(file, SOUND)
    source = options.NodeSource((), file)
    supervisor = Supervisor(
        options.judged_from(source).settings, Origin(str(file), lambda: options.judged_from(source).settings)
    )
    info = await supervisor.start()
    yield supervisor, f"http://{info.admin}/api/v1", file
    await supervisor.stop()


async def refused(asked: aiohttp.ClientResponse) -> list[str]:
    """The paths of the faults that a change is refused for."""
    assert asked.status == 422, await asked.text()
    problem = await asked.json(content_type=None)
    assert problem["code"] == "invalid-settings"
    return [error["path"] for error in problem["errors"]]


async def test_a_running_program_refuses_the_same_and_stays_as_it_is(
    running: tuple[Supervisor, str, Path], redis_server: RedisServer
) -> None:
    supervisor, api, file = running
    before = supervisor.settings
    headers = {"X-Rpcaccel-Request": "page", "If-Match": "*"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for name, fault, path in FAULTS:
            change = meant(fault, redis_server)
            for query in ("", "?dry_run=1"):
                async with http.patch(f"{api}/settings{query}", json=change) as asked:
                    assert await refused(asked) == [path], name
            write(file, merge(SOUND, change))
            async with http.post(f"{api}/reload") as asked:
                assert await refused(asked) == [path], name
        with capture_logs() as lines:
            supervisor.hang_up()
            assert supervisor._renewing is not None
            await supervisor._renewing
    (told,) = [line["reason"] for line in lines if "not adopted" in line["event"]]
    assert re.match(r"workers: found 0, .*, line \d+\)$", told)
    assert (supervisor.settings, supervisor.ledger.revision) == (before, 1)


async def test_a_change_is_told_its_rules_and_what_this_machine_says_at_once(
    running: tuple[Supervisor, str, Path],
) -> None:
    _, api, _ = running
    wrong = {"admin": {"tls_cert": "/none.pem", "listen": "0.0.0.0:0"}, "listen": "203.0.113.7:1"}
    async with (
        aiohttp.ClientSession(headers={"X-Rpcaccel-Request": "page", "If-Match": "*"}) as http,
        http.patch(f"{api}/settings", json=wrong) as asked,
    ):
        told = sorted(await refused(asked))
    assert told == ["admin.listen", "admin.tls_cert", "admin.tls_key", "listen"]


async def test_a_start_with_an_earlier_change_that_hinders_it_names_the_state_file(tmp_path: Path) -> None:
    """What was right when it was changed may be wrong by the next start: a file that has gone, another password."""
    file, state = tmp_path / "rpcaccel.toml", tmp_path / "rpcaccel.state.json"
    write(file, SOUND)
    overlay = next(fault for name, fault, _ in FAULTS if name == "unreadable")
    state_file(state).save(StateDocument(revision=7, overlay=overlay))
    supervisor = Supervisor(options.judged_from(options.NodeSource((), file)).settings, Origin(state=state_file(state)))
    with pytest.raises(ConfigError, match=r"admin\.tls_cert: .*from .*state\.json"):
        await supervisor.start()
    await supervisor.stop()
