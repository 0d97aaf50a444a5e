"""The workflows of the hosting service: they fit its schema, and what they name is there.

They run on the runners of that service alone; what can be held here is that they ask for what the repository has.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import rpcaccel
from tests.support.services import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yml"))
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = '__version__ = "1.2.3"\n'


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every job, with the name of its workflow."""
    for name, workflow in WORKFLOWS.items():
        for job, settings in workflow["jobs"].items():
            yield f"{name}: {job}", settings


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step, with the names of its workflow and job."""
    for name, job in jobs():
        for step in job.get("steps", ()):
            yield name, step


def triggers(name: str) -> dict[str, Any]:
    """What starts a workflow. YAML 1.1 reads the key `on` as true."""
    found: dict[str, Any] = WORKFLOWS[name][True]
    return found


def judged(*files: Path) -> subprocess.CompletedProcess[str]:
    """The verdict of the published schema (check-jsonschema carries it)."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_workflows_fit_the_published_schema_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {a: {runs-on: x, steps: [{imagine: y}]}}\n", encoding="utf-8")
    said = judged(*sorted(FOLDER.glob("*.yml")), wrong)
    assert said.returncode == 1
    assert "imagine" in said.stdout
    assert [name for name in WORKFLOWS if name in said.stdout] == []


def test_every_python_that_the_project_names_is_tested_on_linux_and_macos() -> None:
    named = [found[1] for text in PROJECT["classifiers"] if (found := re.fullmatch(r".* :: (3\.\d+)", text))]
    matrix = WORKFLOWS["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}
    assert {"Operating System :: POSIX :: Linux", "Operating System :: MacOS"} <= set(PROJECT["classifiers"])
    others = [step["with"]["python-version"] for _, step in steps() if "setup-python" in step.get("uses", "")]
    assert set(others) <= {*named, "${{ matrix.python }}"}


def test_what_a_step_runs_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made, files = [], []
    for _, step in steps():
        run = step.get("run", "")
        made += re.findall(r"^make (\S+)", run, re.MULTILINE)
        files += re.findall(r"(?<=[\s\"])(?:\.github|deploy|tests)/[\w./-]+", f" {run}")
        files += [step["with"][name] for name in ("file", "cache-dependency-path") if name in step.get("with", {})]
    assert {"lint", "test", "test-all"} <= set(made) <= targets
    assert {".github/release.py", "deploy/Dockerfile", "constraints.txt"} <= set(files)
    assert [path for path in files if not (ROOT / path).exists()] == []
    called = [job["uses"] for _, job in jobs() if "uses" in job]
    assert called == ["./.github/workflows/ci.yml"]
    assert "workflow_call" in triggers("ci.yml")


def test_an_image_is_built_of_a_stage_that_there_is() -> None:
    stages = re.findall(
        r"^FROM .* AS (\w+)$", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    built = [step["with"]["target"] for _, step in steps() if "build-push-action" in step.get("uses", "")]
    assert built == ["proxy", "proxy"]
    assert set(built) <= set(stages)


def test_the_registry_of_the_image_is_a_variable_and_a_release_without_it_ends_before_anything_is_published() -> None:
    registry = "${{ vars.IMAGE_REGISTRY }}"
    inputs = [step.get("with", {}) for _, step in steps()]
    assert [one["registry"] for one in inputs if "registry" in one] == [registry]
    named = [one[key] for one in inputs for key in ("images", "subject-name") if key in one]
    assert named == [f"{registry}/${{{{ github.repository }}}}"] * 2
    first = WORKFLOWS["release.yml"]["jobs"]["tag"]["steps"][0]
    assert first["env"] == {"IMAGE_REGISTRY": registry}
    for host, code in (("", 1), ("registry.example", 0)):
        environment = {"PATH": "/usr/bin:/bin", "IMAGE_REGISTRY": host}
        done = subprocess.run(
            ["bash", "-c", first["run"]], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "IMAGE_REGISTRY" in done.stderr) == (code, bool(code))


def test_every_action_names_its_version() -> None:
    used = [step["uses"] for _, step in steps() if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", one)] == []


def test_every_job_ends_some_time_and_may_do_no_more_than_it_must() -> None:
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        assert workflow["concurrency"]["group"].startswith(f"{name.removesuffix('.yml')}-"), name
    for name, job in jobs():
        assert "uses" in job or 0 < job["timeout-minutes"] <= 90, name
    writes = {
        name: [right for right, may in job.get("permissions", {}).items() if may == "write"] for name, job in jobs()
    }
    assert {name: rights for name, rights in writes.items() if rights} == {
        "release.yml: index": ["id-token", "attestations"],
        "release.yml: image": ["packages", "id-token", "attestations"],
        "release.yml: release": ["contents"],
    }


def test_no_step_puts_into_a_script_what_others_may_write() -> None:
    """An expression is pasted into a script as it is: a branch whose name is a command would have it run."""
    assert [step for _, step in steps() if "${{" in step.get("run", "")] == []


def test_a_release_is_made_of_a_tag_once_all_tests_have_passed() -> None:
    assert triggers("release.yml") == {"push": {"tags": ["v*"]}}
    needs = {name: job.get("needs") for name, job in WORKFLOWS["release.yml"]["jobs"].items()}
    assert needs == {"tag": None, "ci": "tag", "index": "ci", "image": "ci", "release": ["index", "image"]}


# ---- the check of the tag -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The script that the workflow runs, as a module."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".github" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(tag: str) -> subprocess.CompletedProcess[str]:
    """The step itself: its command, with the tag where the service puts it."""
    (command,) = [step["run"] for _, step in steps() if "release.py" in step.get("run", "")]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "GITHUB_REF_NAME": tag}
    only = command.partition(" | ")[0]
    return subprocess.run(["bash", "-c", only], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_tag_of_this_version_is_released_with_its_notes() -> None:
    done = run(f"v{rpcaccel.__version__}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert not re.search(r"^## |^\[", done.stdout, re.MULTILINE)


def test_another_tag_is_refused_with_the_one_that_was_expected() -> None:
    done = run("v9.9.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"expected the tag 'v{rpcaccel.__version__}'" in done.stderr


@pytest.mark.parametrize(
    ("tag", "changelog", "reason"),
    [
        ("1.2.3", "## [1.2.3] - 2026-01-01\n- new\n", "expected the tag 'v1.2.3'"),
        ("v1.2.3", "## [1.2.2] - 2026-01-01\n- new\n", "no section [1.2.3]"),
        ("v1.2.3", "## [1x2.3] - 2026-01-01\n- new\n", "no section [1.2.3]"),
        ("v1.2.3", "## [1.2.3]\n- new\n", "no date"),
        ("v1.2.3", "## [1.2.3] - 2026-01-01\n\n## [1.2.2] - 2026-01-01\n- old\n", "says nothing"),
    ],
)
def test_what_is_no_release_is_refused_with_the_reason(
    release: ModuleType, tag: str, changelog: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        release.notes(tag, SOURCE, changelog)


def test_the_notes_are_the_section_of_the_version_alone(release: ModuleType) -> None:
    changelog = (
        "# Changelog\n\n## [Unreleased]\n- next\n\n## [1.2.3] - 2026-01-01\n\n### Added\n\n- new\n\n"
        "## [1.2.2] - 2025-01-01\n- old\n\n[1.2.3]: https://example.org\n"
    )
    assert release.notes("v1.2.3", SOURCE, changelog) == "### Added\n\n- new"
    last = "## [1.2.3] - 2026-01-01\n- new\n\n[1.2.3]: https://example.org\n"
    assert release.notes("v1.2.3", SOURCE, last) == "- new"
