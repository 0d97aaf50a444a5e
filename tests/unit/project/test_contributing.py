"""What CONTRIBUTING and SECURITY name is there, and the forms for issues are valid."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECURITY = (ROOT / "SECURITY.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
TEMPLATES = ROOT / ".github"
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", TEMPLATES / "pull_request_template.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_of_make_that_a_page_names_is_one(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.M))
    assert named <= targets
    assert named or page.name == "SECURITY.md"


def test_every_file_and_folder_that_the_form_of_a_pull_request_names_is_there() -> None:
    named = re.findall(r"\(?((?:rpcaccel|tests|docs|\.ci)/[\w./]+\w)", PAGES[2].read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_name_in_code_that_a_contributor_is_sent_to_is_there() -> None:
    places = re.findall(r"`(\w+)`(?:, [^`(\[]*| \(| in | of )\[[^\]]*\]\((\w[\w/.]+\.py)\)", CONTRIBUTING)
    assert {"Secret", "Balancer", "Driver", "SERVED", "OF_A_WORKER"} <= {name for name, _ in places}
    for name, path in places:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (name, path)


def test_every_setting_that_security_names_is_a_key() -> None:
    named = re.findall(r"`((?:http|memory|disk|networks|clients|errors|admin)\.[\w.*]+)(?: = [^`]*)?`", SECURITY)
    tables = {"clients.anonymous", "clients.keys.*"}
    assert len(named) > 15
    assert [key for key in named if key not in tables and f"| `{key}` |" not in SETTINGS] == []


def test_every_form_for_issues_fits_the_schema_of_the_service() -> None:
    files = sorted(str(form) for form in (TEMPLATES / "ISSUE_TEMPLATE").iterdir())
    assert len(files) == 2
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-issue-forms", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
