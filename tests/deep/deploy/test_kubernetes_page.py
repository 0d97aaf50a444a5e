"""What docs/install.md says of the manifests is so: files, components, flags, patches and numbers."""

from __future__ import annotations

import re

import kubernetes_validate
import yaml

from rpcaccel.config.load import load
from tests.deep.deploy.manifests import COMPONENTS, FOLDER, OBJECTS, OLDEST, POD, TOMLS, flags_of, merged
from tests.support.services import ROOT

TEXT = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").partition("## In Kubernetes")[2]


def shown(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def test_the_page_names_files_that_are_there_and_flags_that_commands_have() -> None:
    named = set(re.findall(r"deploy/kubernetes(?:/[\w.-]+)*", TEXT))
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]
    assert all((FOLDER / "components" / name).is_dir() for name in re.findall(r"component `([\w-]+)`", TEXT))
    assert set(re.findall(r"component `([\w-]+)`", TEXT)) == set(COMPONENTS)
    for command, rest in re.findall(r"(?:rpcaccel|--) (passwd|serve|check) ([^\n]*)", "\n".join(shown("sh"))):
        assert set(re.findall(r"(?<=\s)--[a-z-]+", f" {rest}")) <= flags_of(command)
    assert f"Kubernetes {OLDEST}" in TEXT


def test_what_the_page_shows_as_patches_fits_the_schema() -> None:
    whole = {(one["kind"], one["metadata"]["name"]): one for one in OBJECTS.values()}
    patches = [yaml.safe_load(one["patch"]) for text in shown("yaml") for one in yaml.safe_load(text)["patches"]]
    assert {patch["kind"] for patch in patches} == {"Deployment", "HorizontalPodAutoscaler"}
    for patch in patches:
        made = merged(whole[patch["kind"], patch["metadata"]["name"]], patch)
        if made.pop("$patch", "") != "delete":
            kubernetes_validate.validate(made, OLDEST, strict=True)


def test_the_numbers_of_an_upgrade_on_the_page_are_those_of_the_manifests() -> None:
    settings = load(TOMLS[0], environ={})
    numbers = re.findall(r"\*\*(\d+) s\*\*.*?\(`(\w+)`\)", TEXT)
    told = {name: float(seconds) for seconds, name in numbers}
    assert told == {
        "preStop": POD["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"],
        "drain_linger": settings.drain_linger,
        "drain_timeout": settings.drain_timeout,
        "terminationGracePeriodSeconds": POD["terminationGracePeriodSeconds"],
    }
