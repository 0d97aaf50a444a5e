"""Every command of the README is run as a stranger would run it, in a copy of the checkout.

Nothing is fetched meanwhile: what the commands install is copied into their environments beforehand, and pip may ask
no index. Addresses of nodes are replaced by those of simulated nodes, and ports that may be taken by free ones. There
is no container engine: of a command for one, all that it names must be there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from rpcaccel.cli.main import app
from rpcaccel.config.load import PREFIX
from tests.support.installed import needed, put_beforehand
from tests.support.services import ROOT, Process, Program

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = [
    command.partition("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    for command in line.split(" && ")
]
TABLE = {
    "make": r"make (run|test)\b.*",
    "curl": r"curl -i http://127\.0\.0\.1:8888 .*",
    "wheel": r"python3 -m pip wheel .*",
    "install": r"pipx install .*|uv tool install .*",
    "environment": r"python3 -m venv .*|\S+/bin/pip install .*",
    "program": r"rpcaccel (check|init|serve) .*",
    "container": r"(RPCACCEL_\w+=\S.* )?docker .*",
}
"""What kind each command is of. A kind has a test below, which runs all its commands."""

URL = re.compile(r"https://[\w.-]+(:\d+)?")
FREE = "--listen 127.0.0.1:0 --admin 127.0.0.1:0"


def of_kind(kind: str) -> list[str]:
    found = [command for command in SHOWN if re.fullmatch(TABLE[kind], command)]
    assert found, kind
    return found


def test_every_command_of_the_readme_is_of_a_kind_that_is_run() -> None:
    kinds = {command: [kind for kind, pattern in TABLE.items() if re.fullmatch(pattern, command)] for command in SHOWN}
    assert {command: found for command, found in kinds.items() if len(found) != 1} == {}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stranger has after `git clone`."""
    made = tmp_path_factory.mktemp("stranger") / "rpcaccel"
    shutil.copytree(
        ROOT, made, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "dist")
    )
    return made


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[str]]:
    """Two simulated nodes that stand for those that the README names."""
    with Program("simnode", "--port", "0") as one, Program("simnode", "--port", "0") as other:
        yield [node.wait_for(r"at (http://\S+),")[1] for node in (one, other)]


def environment(*folders: Path) -> dict[str, str]:
    """Of a shell with these folders in front of its PATH, in which pip fetches nothing."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV", "LANE"} and not name.startswith((PREFIX, "COVERAGE_", "MAKE"))
    }
    path = os.pathsep.join(map(str, (*folders, Path(sys.executable).parent, own["PATH"])))
    return own | {"PATH": path, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "NO_COLOR": "1", "COLUMNS": "200"}


def said(command: str, folder: Path, *folders: Path) -> str:
    """What a shell says to a command that must go well."""
    run = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment(*folders), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"
    return run.stdout


def over(nodes: list[str], command: str) -> str:
    """The command with addresses of simulated nodes in place of those that it names."""
    left = iter(nodes)
    return URL.sub(lambda _: next(left), command)


def fill(folder: Path, *further: str) -> None:
    """Put what the program needs into the virtual environment in a folder."""
    (site,) = folder.glob("lib/python*/site-packages")
    put_beforehand(site, *needed("rpcaccel"), *further)


def started(command: str, folder: Path, *folders: Path) -> Process:
    """A command that goes on until it is ended, once the proxy that it starts is ready."""
    process = Process(["sh", "-c", f"exec {command}"], cwd=folder, env=environment(*folders))
    process.wait_ready(f"{address(process)}/readyz")
    return process


def address(process: Process) -> str:
    process.wait_for(r"page +http://")
    return process.wait_for(r"(http://[^/\s]+)/\S*  <-")[1]


def test_the_commands_for_a_checkout_serve_and_the_call_is_answered(checkout: Path, nodes: list[str]) -> None:
    said("make .venv/bin/python", checkout)  # the first step of `make run`, so that pip finds there what it needs
    fill(checkout / ".venv", "hatch-fancy-pypi-readme", *needed("hatch-fancy-pypi-readme"))
    for command in of_kind("make"):
        if command.startswith("make test"):
            # What it would run are the tests that are running. A dry run enters this recipe, since it calls make.
            assert "pytest -m not deep" in said(f'{command} --dry-run PYTEST="echo pytest"', checkout)
            continue
        freely = re.sub(r' ARGS="[^"]*"', "", command) + f' ARGS="{FREE}"'
        with started(over(nodes, freely), checkout) as proxy:
            for call in of_kind("curl"):
                answer = said(call.replace("http://127.0.0.1:8888", address(proxy)), checkout)
                assert "X-Rpcaccel-Cache: " in answer
                assert '"result":{' in answer


def test_the_wheel_is_built_and_installed_and_what_it_installs_checks_and_serves(
    checkout: Path, nodes: list[str], tmp_path: Path
) -> None:
    for command in of_kind("wheel"):
        said(command, checkout)
    assert list(checkout.glob("dist/rpcaccel-*.whl"))
    for command in of_kind("install"):
        tool = command.split()[0]
        if shutil.which(tool):
            homes = {"PIPX_HOME": "p", "PIPX_BIN_DIR": "pb", "UV_TOOL_DIR": "u", "UV_TOOL_BIN_DIR": "ub"}
            apart = " ".join(f"{name}={tmp_path / folder}" for name, folder in homes.items())
            said(f"env -u PIP_NO_INDEX -u PIP_NO_BUILD_ISOLATION {apart} {command}", checkout)
        assert command.split()[-1] == "dist/rpcaccel-*.whl"
    for command in of_kind("environment"):
        said(command, checkout)
        if " -m venv " in command:
            fill(checkout / command.split()[-1])
    binaries = checkout / "rpcaccel-env" / "bin"
    for command in of_kind("program"):
        if command.startswith("rpcaccel check "):
            assert "harmony" in said(over(nodes, command), tmp_path, binaries)
        elif command.startswith("rpcaccel init "):
            assert "rpcaccel.toml is written: harmony" in said(over(nodes, command), tmp_path, binaries)
        else:
            with started(f"{over(nodes, command)} {FREE}", tmp_path, binaries) as proxy:
                assert re.search(r"\(weight 3\)", proxy.output)


def test_what_the_commands_for_containers_name_is_there() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    variables = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8")))
    images = set()
    for command in of_kind("container"):
        words = shlex.split(command)
        while "=" in words[0]:
            assert words.pop(0).partition("=")[0] in variables
        match words[1:]:
            case ["compose", "up", *services]:
                assert set(services) <= compose.keys()
            case ["build", "--file", file, "--tag", image, "."]:
                assert (ROOT / file).is_file()
                images.add(image)
            case ["run", "--publish", ports, image, name, *rest]:
                assert image in images
                assert ports.rpartition(":")[2] in exposed()
                known = {flag for param in commands()[name].params for flag in param.opts}
                assert {word for word in rest if word.startswith("-")} <= known
            case _:
                pytest.fail(f"not looked into: {command}")


def exposed() -> list[str]:
    """The ports of the image."""
    found = re.search(r"^EXPOSE (.*)$", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


def commands() -> dict[str, typer.core.TyperCommand]:
    group: typer.core.TyperGroup = typer.main.get_command(app)  # type: ignore[assignment]
    return group.commands  # type: ignore[return-value]
