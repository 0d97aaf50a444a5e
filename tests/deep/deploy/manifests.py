"""The objects under deploy/kubernetes: read, merged with patches, and made into what the program is started with."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import yaml

from rpcaccel.cli.main import app
from rpcaccel.config.load import load
from rpcaccel.config.model import Settings
from rpcaccel.config.secrets import hash_password
from tests.support.services import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
EXAMPLE = FOLDER / "overlays" / "example"
COMPONENTS = sorted(folder.name for folder in (FOLDER / "components").iterdir())
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
OLDEST = "1.30"
"""The oldest Kubernetes that knows all that is used; docs/install.md names it."""
POD_IP = "10.1.2.3"
METRICS_PASSWORD = "scrapes all day"


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> dict[str, Any]:
    (found,) = documents(folder / "kustomization.yaml")
    return dict(found)


FOLDERS = [FOLDER / "base", *(FOLDER / "components" / name for name in COMPONENTS), EXAMPLE]
OBJECTS = {
    f"{folder.name}/{one['kind']}/{one['metadata']['name']}": one
    for folder in FOLDERS
    for name in kustomization(folder).get("resources", ())
    if name.endswith(".yaml")
    for one in documents(folder / name)
}
"""Every whole object, by folder, kind and name."""
DEPLOYMENT: dict[str, Any] = OBJECTS["base/Deployment/rpcaccel"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
SERVICE_MONITOR = OBJECTS["service-monitor/ServiceMonitor/rpcaccel"]


def merged(base: Any, patch: Any) -> Any:
    """A strategic merge as kustomize does it, of what the patches here have: tables, and lists by name or mountPath."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {key: merged(base[key], value) if key in base else value for key, value in patch.items()}
    if isinstance(base, list) and isinstance(patch, list):
        key = next(key for key in ("mountPath", "name") if key in patch[0])
        found = {one[key]: one for one in patch}
        kept = [merged(one, found.pop(one[key], {})) for one in base]
        return [*found.values(), *kept]
    return patch


def pod_with(*folders: str | Path) -> dict[str, Any]:
    """The pod of the base with the patches of components, by name, or of an overlay."""
    deployment = copy.deepcopy(DEPLOYMENT)
    for folder in folders:
        where = FOLDER / "components" / folder
        for patch in kustomization(where).get("patches", ()):
            (change,) = documents(where / patch["path"])
            if isinstance(change, dict) and change["kind"] == "Deployment":
                deployment = merged(deployment, change)
    return dict(deployment["spec"]["template"]["spec"])


def secret(folder: Path, name: str) -> dict[str, str]:
    """The variables of an example file of secrets, which is where the real one is looked for."""
    lines = (folder / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def with_passwords(variables: Mapping[str, str]) -> dict[str, str]:
    """Those with hashes in place of what an operator has to fill in."""
    hashed = hash_password(METRICS_PASSWORD, log_n=4).reveal()
    return {name: hashed if name.endswith("PASSWORD") else value for name, value in variables.items()}


def environment(pod: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
    """The variables of the container as the kubelet makes them: the image's, the Secret's, the manifest's. A reference
    $(NAME) sees what stands before it alone."""
    image = dict(re.findall(r"(RPCACCEL_\w+)=(\S+)", DOCKERFILE))
    found: dict[str, str] = {}
    for one in pod["containers"][0].get("env", ()):
        field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        value = {"status.podIP": POD_IP}[field] if field else one["value"]
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match, known=dict(found): known[match[1]], value)
    return image | dict(secrets) | found


def settings_of(toml: Path, *folders: str | Path, secrets: Mapping[str, str] | None = None) -> Settings:
    return load(toml, environ=environment(pod_with(*folders), secrets or {}))


TOMLS = (FOLDER / "base" / "rpcaccel.toml", EXAMPLE / "rpcaccel.toml")
SECRETS = with_passwords(secret(EXAMPLE, "secrets.env.example"))


def quantity(text: str) -> float:
    """Bytes or cores of a quantity."""
    number, unit = re.fullmatch(r"([\d.]+)([A-Za-z]*)", text).groups()
    units = {"": 1, "m": 1e-3, "M": 10**6, "G": 10**9, "Mi": 2**20, "Gi": 2**30}
    return float(number) * units[unit]


def flags_of(command: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    return {flag for param in group.commands[command].params for flag in param.opts}
