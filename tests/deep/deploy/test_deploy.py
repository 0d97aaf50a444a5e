"""What is shipped to run the program elsewhere: compose file, image, start of the container, systemd unit.

There is no container engine to try them with. The compose file is held to the schema of the Compose Specification, and
read by Compose itself where there is one; the steps of the Dockerfile are run in a clean folder, and what a container
would start is started.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from rpcaccel.cli.main import app
from rpcaccel.config.load import load
from rpcaccel.config.patch import to_table
from rpcaccel.config.secrets import PasswordHash, hash_password
from tests.support.installed import needed, put_beforehand
from tests.support.services import ROOT, Process, free_port

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
UNIT = (ROOT / "deploy" / "rpcaccel.service").read_text(encoding="utf-8")

CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
VARIABLE = re.compile(r"\$\{(\w+)(:?[-?+][^}]*)?\}")


def judged(file: Path) -> subprocess.CompletedProcess[str]:
    """The verdict of the Compose Specification's own schema (check-jsonschema carries it) on a file."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_compose_file_fits_the_schema_of_the_specification(tmp_path: Path) -> None:
    fits = judged(ROOT / "docker-compose.yml")
    assert fits.returncode == 0, fits.stdout
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(yaml.safe_dump({**COMPOSE, "services": {"proxy": {"imagine": "rpcaccel"}}}), encoding="utf-8")
    assert "imagine" in judged(wrong).stdout


@pytest.mark.parametrize("profile", [[], ["--profile", "load"]], ids=["plain", "load"])
def test_compose_itself_understands_the_file_where_there_is_one(profile: list[str]) -> None:
    for compose in composers():
        command = [*compose, "--file", ROOT / "docker-compose.yml", *profile, "config", "--quiet"]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        said = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
        assert said.returncode == 0, said.stderr


def composers() -> list[list[str]]:
    """The Compose programs of this machine; neither needs an engine to read a file. The schema was looked at anyway."""
    found = [["docker-compose"]] if shutil.which("docker-compose") else []
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        found.append(["docker", "compose"])
    return found


def test_services_depend_on_services_and_volumes_are_declared() -> None:
    services = COMPOSE["services"]
    # No "name": Compose 1.29, which Debian has, knows none.
    assert COMPOSE.keys() == {"services", "volumes"}
    for service in services.values():
        needed = service.get("depends_on", [])
        assert set(needed) <= services.keys()
        if isinstance(needed, dict):
            assert {one["condition"] for one in needed.values()} <= CONDITIONS
            healthy = {name for name, one in needed.items() if one["condition"] == "service_healthy"}
            assert all("healthcheck" in services[name] or "build" in services[name] for name in healthy)
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or source.startswith("./")
            assert not source.startswith("./deploy") or (ROOT / source).exists(), source


def test_images_are_pinned_and_only_the_calls_port_is_open_to_others() -> None:
    for name, service in COMPOSE["services"].items():
        image = service["image"]
        assert "build" in service or re.search(r":v?\d+\.\d+", image), image
        outside = [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]
        assert outside == (["8888:8888"] if name == "proxy" else [])


def test_the_proxys_variables_are_settings_or_arguments(tmp_path: Path) -> None:
    environment = COMPOSE["services"]["proxy"]["environment"]
    file = tmp_path / "rpcaccel.toml"
    account = f'[admin.accounts.admin]\npassword = "{hash_password("x", log_n=4).reveal()}"\n'
    file.write_text(f'{account}[networks.n]\nnodes = ["http://a.example"]\n', encoding="utf-8")
    plain = {name: value for name, value in environment.items() if not VARIABLE.search(value)}
    disk = {"RPCACCEL_DISK__PATH": "/var/cache/rpcaccel", "RPCACCEL_DISK__SIZE": "20GB"}
    assert disk.keys() <= environment.keys()
    document = to_table(load(file, environ=plain | disk))
    assert (document["disk"]["path"], document["disk"]["size"]) == ("/var/cache/rpcaccel", 20_000_000_000)
    assert document["admin"]["listen"] == "0.0.0.0:8889"
    assert document["admin"]["names"] == ["proxy"]
    assert document["redis"]["url"].startswith("redis://redis-primary")
    arguments = {found["envvar"] for command in commands().values() for found in command}
    others = {name for name, value in environment.items() if VARIABLE.search(value)} | {"RPCACCEL_STATE"}
    assert others <= arguments | {"RPCACCEL_ADMIN_PASSWORD", *disk}


def test_the_cache_on_disk_has_a_folder_that_stays_and_may_be_written_but_is_off_until_it_is_asked_for() -> None:
    proxy = COMPOSE["services"]["proxy"]
    assert "cache:/var/cache/rpcaccel" in proxy["volumes"]
    assert proxy["environment"]["RPCACCEL_DISK__PATH"] == "${RPCACCEL_DISK__PATH:-}"
    # A new volume takes over the owner of the folder that the image has in its place.
    made = next(rest for name, rest in steps("proxy") if name == "RUN" and "--owner=10001" in rest)
    assert "/var/cache/rpcaccel" in made.split()
    assert {"CacheDirectory=rpcaccel", "CacheDirectoryMode=0700", "DynamicUser=yes"} <= set(UNIT.splitlines())


def commands() -> dict[str, list[dict[str, Any]]]:
    """The options of each command."""
    group: Any = typer.main.get_command(app)
    return {
        name: [{"flags": param.opts, "envvar": param.envvar} for param in command.params]
        for name, command in group.commands.items()
    }


def test_the_unit_starts_a_command_that_there_is_with_flags_it_has() -> None:
    line = next(line for line in UNIT.splitlines() if line.startswith("ExecStart="))
    program, command, *rest = shlex.split(line.partition("=")[2])
    assert program.endswith("/bin/rpcaccel")
    flags = {flag for option in commands()[command] for flag in option["flags"]}
    assert {word for word in rest if word.startswith("--")} <= flags


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # Then its sections and keys are all that can be looked at.
        assert {"[Unit]", "[Service]", "[Install]"} <= set(UNIT.splitlines())
        return
    (tmp_path / "rpcaccel.service").write_text(
        UNIT.replace("/opt/rpcaccel/bin/rpcaccel", "/bin/true"), encoding="utf-8"
    )
    with Process([analyze, "verify", "--man=no", tmp_path / "rpcaccel.service"]) as verify:
        verify.wait()
        assert "Unknown" not in verify.output
        assert "rpcaccel.service:" not in verify.output


# ---- the image ------------------------------------------------------------------------------------------------------


def steps(stage: str) -> list[tuple[str, str]]:
    """The instructions of a stage: (name, rest), continued lines joined."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    found, inside = [], False
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            inside = rest.endswith(f" AS {stage}")
        elif inside and name.isupper():
            found.append((name, rest))
    return found


def test_the_image_runs_as_a_user_without_rights_and_says_how_it_is() -> None:
    last = dict(steps("proxy"))
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last["USER"]), "by number: Kubernetes cannot tell whose a name is"
    assert yaml_list(last["HEALTHCHECK"]) == ["rpcaccel-healthcheck"]
    assert last["STOPSIGNAL"] == "SIGTERM"


def test_the_image_of_python_is_named_once_by_version_and_release_of_debian() -> None:
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    (named,) = [line.partition("=")[2] for line in lines if line.startswith("ARG ")]
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-[a-z]+", named)
    assert version is not None, named
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases == ["${PYTHON_IMAGE}", "build", "${PYTHON_IMAGE}"]


def test_the_image_says_whose_it_is() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', dict(steps("proxy"))["LABEL"]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert labels == {
        "title": project["name"],
        "description": project["description"],
        "licenses": project["license"],
        "url": project["urls"]["Homepage"],
        "source": project["urls"]["Source"],
        "documentation": project["urls"]["Documentation"],
    }


def copied() -> set[str]:
    """The files and folders of a checkout that the image is made of."""
    found = [rest.split() for stage in ("build", "load", "proxy") for name, rest in steps(stage) if name == "COPY"]
    given = [words for words in found if not any(word.startswith("--from=") for word in words)]
    return {word for words in given for word in words[:-1] if not word.startswith("--")}


def test_the_build_gets_what_is_copied_and_nothing_else_of_a_checkout() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    everything, *given = [line for line in lines if not line.startswith("#")]
    assert everything == "*"
    assert set(given) == {f"!{path}" for path in copied()} | {"**/__pycache__"}
    assert all((ROOT / path).exists() for path in copied())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the build stage makes (/opt/rpcaccel), made by its own steps in a clean place."""
    source, made = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("opt") / "rpcaccel"
    own = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    for name, rest in steps("build"):
        if name == "COPY":
            *sources, target = rest.split()
            for one in sources:
                copy(ROOT / one, source / target if target != "./" else source / one)
        elif name == "RUN":
            command = rest.replace("/opt/rpcaccel", str(made)).replace("python -m", f"{sys.executable} -m")
            subprocess.run(["sh", "-c", command], cwd=source, env=own, check=True, capture_output=True, text=True)
            if "-m venv" in command:
                assert not list(made.glob("bin/pip*"))
                (site,) = made.glob("lib/python*/site-packages")
                put_beforehand(site, *needed("rpcaccel", "otel"))
    return made


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def test_the_steps_of_the_dockerfile_install_the_program_and_its_page(built: Path, tmp_path: Path) -> None:
    with Process([built / "bin" / "rpcaccel", "--version"], cwd=tmp_path) as program:
        assert program.wait() == 0
        assert program.output.startswith("rpcaccel ")
    freeze = [sys.executable, "-I", "-m", "pip", "--python", built / "bin" / "python", "freeze"]
    installed = subprocess.run(freeze, capture_output=True, text=True, check=True).stdout
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pinned = [line for line in installed.lower().splitlines() if "==" in line and not line.startswith("rpcaccel")]
    assert pinned
    assert set(pinned) <= set(constraints)
    assert list(built.glob("lib/python*/site-packages/rpcaccel/dashboard/index.html"))


def test_what_the_container_starts_serves_simulated_nodes_and_lets_prometheus_in(built: Path, tmp_path: Path) -> None:
    calls, admin = free_port(), free_port()
    environment = {
        "PATH": f"{built / 'bin'}:{os.environ['PATH']}",
        "SHARED_FOLDER": str(tmp_path),
        "RPCACCEL_LISTEN": f"127.0.0.1:{calls}",
        "RPCACCEL_ADMIN__LISTEN": f"127.0.0.1:{admin}",
        "RPCACCEL_ADMIN_PASSWORD": "open sesame",
        "NO_COLOR": "1",
    }
    with Process(["sh", ROOT / "deploy" / "start.sh"], env=environment, cwd=tmp_path) as container:
        container.wait_ready(f"http://127.0.0.1:{calls}/readyz")
        assert health(environment) == (0, "")
        token = (tmp_path / "metrics").read_text(encoding="utf-8").strip()
        assert token.startswith("prometheus:")
        assert status(admin, "") == 401
        assert status(admin, token) == 200
        assert "open sesame" not in container.output


def health(environment: dict[str, str]) -> tuple[int, str]:
    """How the health check of the container ends, and what it says."""
    command = [sys.executable, ROOT / "deploy" / "healthcheck.py"]
    ran = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        ("0.0.0.0:{}", "http://127.0.0.1:{}/healthz"),
        (":{}", "http://127.0.0.1:{}/healthz"),
        ("*:{}", "http://127.0.0.1:{}/healthz"),
        ("[::]:{}", "http://[::1]:{}/healthz"),
        ("localhost:{}", "http://localhost:{}/healthz"),
    ],
)
def test_the_health_check_asks_where_the_proxy_listens(listen: str, asked: str) -> None:
    port = free_port()
    code, said = health({"RPCACCEL_LISTEN": listen.format(port)})
    assert (code, said.partition(": ")[0]) == (1, asked.format(port))
    assert "Traceback" not in said


def test_the_health_check_of_a_container_without_an_address_asks_at_the_port_of_the_image() -> None:
    assert dict(steps("proxy"))["ENV"].split()[-1] == "RPCACCEL_LISTEN=0.0.0.0:8888"
    assert 'DEFAULT = "127.0.0.1:8888"' in (ROOT / "deploy" / "healthcheck.py").read_text(encoding="utf-8")


def test_the_password_of_the_container_is_taken_as_it_is_written(tmp_path: Path) -> None:
    """With all at once that a shell, echo or a file of variables might take for something else."""
    password = r""" se\ncret\0pass\\ a"b$c `d'e%s """
    code, said = started(tmp_path, {"RPCACCEL_ADMIN_PASSWORD": password})
    (kept,) = re.findall(r"^RPCACCEL_ADMIN__ACCOUNTS__ADMIN__PASSWORD=(.+)$", said, re.MULTILINE)
    assert (code, PasswordHash(kept).admits(password)) == (0, True)


def test_a_password_that_is_refused_ends_the_container_with_the_reason_alone(tmp_path: Path) -> None:
    assert started(tmp_path, {"RPCACCEL_ADMIN_PASSWORD": "short"}) == (
        1,
        "rpcaccel: a password has at least 8 characters\n",
    )


def started(folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """How start.sh ends and what it says, where the program it starts only shows its environment."""
    program = folder / "rpcaccel"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = passwd ] && exec {sys.executable} -m rpcaccel "$@"\nexec env\n', encoding="utf-8"
    )
    program.chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "SHARED_FOLDER": str(folder), "RPCACCEL_NODES": "http://a"}
    with Process(["sh", ROOT / "deploy" / "start.sh"], env=own | environment, cwd=folder) as script:
        return script.wait(), script.output


def yaml_list(instruction: str) -> list[str]:
    """The JSON form of a command in an instruction."""
    return [str(word) for word in yaml.safe_load(instruction.partition("CMD ")[2])]


def status(port: int, bearer: str) -> int:
    """What GET /metrics answers."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    if bearer:
        asked.add_header("Authorization", f"Bearer {bearer}")
    try:
        with urllib.request.urlopen(asked, timeout=5.0) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_names_of_the_load_profile_are_those_of_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = next(rest for name, rest in steps("load") if name == "RUN" and " install " in rest)
    assert '".[load]"' in installed
    assert {"locust", "websocket-client"} <= set(extras["load"]), "what the swarms import"
