"""What deploy/kubernetes holds: the API accepts it, the program understands it, and a pod starts and ends as it says.

There is no cluster to try it in. Every object is held to the schemas that Kubernetes publishes, kustomize renders the
overlays where there is one, and the program is started with the arguments, variables and settings of the manifests.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes_validate
import pytest
import yaml

from rpcaccel.config.errors import ConfigError
from rpcaccel.config.load import load
from rpcaccel.config.value_types import parse_duration, parse_size
from rpcaccel.controlplane.stats.prometheus import EXPOSED
from rpcaccel.simnode.server.factories import harmony_chain
from tests.deep.deploy.manifests import (
    COMPONENTS,
    DEPLOYMENT,
    DOCKERFILE,
    EXAMPLE,
    FOLDER,
    FOLDERS,
    METRICS_PASSWORD,
    OBJECTS,
    OLDEST,
    POD,
    POD_IP,
    SECRETS,
    SERVICE_MONITOR,
    TOMLS,
    documents,
    environment,
    flags_of,
    kustomization,
    merged,
    pod_with,
    quantity,
    secret,
    settings_of,
)
from tests.support.fleet import GatedNode
from tests.support.running import until
from tests.support.services import LOOPBACK, ROOT, Program, free_port

NEWEST = kubernetes_validate.latest_version().rpartition(".")[0]


# ---- files and schemas ----------------------------------------------------------------------------------------------


def named_files(folder: Path) -> list[Path]:
    """The files and folders that a kustomization names."""
    found = kustomization(folder)
    generators = [*found.get("configMapGenerator", ()), *found.get("secretGenerator", ())]
    names = [*found.get("resources", ()), *found.get("components", ())]
    names += [patch["path"] for patch in found.get("patches", ())]
    names += [name for one in generators for name in one.get("files", ())]
    names += [f"{name}.example" for one in generators for name in one.get("envs", ())]
    return [(folder / name).resolve() for name in names]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_kustomization_names_each_file_beside_it_once_and_none_that_is_not_there(folder: Path) -> None:
    named = named_files(folder)
    beside = {path for path in folder.iterdir() if path.name not in {"kustomization.yaml", "prometheus-adapter.yaml"}}
    assert len(set(named)) == len(named)
    assert {path for path in named if path.parent == folder} == beside
    assert all(path.exists() for path in named)


def test_every_component_is_shown_in_the_example() -> None:
    text = (EXAMPLE / "kustomization.yaml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^  (?:# )?- \.\./\.\./components/(\S+)$", text, re.MULTILINE)) == COMPONENTS


def test_no_secret_can_come_into_git_unseen() -> None:
    assert "*.env" in (FOLDER / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert not [one for one in OBJECTS.values() if one["kind"] == "Secret"]
    # An example that was not filled in is refused: its hashes are none.
    with pytest.raises(ConfigError, match=re.escape("`rpcaccel passwd`")):
        settings_of(EXAMPLE / "rpcaccel.toml", "admin", secrets=secret(EXAMPLE, "secrets.env.example"))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_an_object_fits_the_schema_of_its_kind(name: str, version: str) -> None:
    if (one := OBJECTS[name]) is SERVICE_MONITOR:
        return  # its schema is the Prometheus Operator's: the test below looks at each field
    kubernetes_validate.validate(one, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError, match="imagine"):
        kubernetes_validate.validate(merged(one, {"spec": {"imagine": 1}}), version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_what_patches_make_fits_the_schema(version: str) -> None:
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["spec"]["template"]["spec"] = pod_with(*COMPONENTS, EXAMPLE)
    kubernetes_validate.validate(deployment, version, strict=True)
    scaler = copy.deepcopy(OBJECTS["base/HorizontalPodAutoscaler/rpcaccel"])
    (operation,) = documents(FOLDER / "components" / "autoscale-on-calls" / "autoscaler.yaml")[0]
    assert (operation["op"], operation["path"]) == ("add", "/spec/metrics/-")
    scaler["spec"]["metrics"].append(operation["value"])
    kubernetes_validate.validate(merged(scaler, documents(EXAMPLE / "autoscaler.yaml")[0]), version, strict=True)


def renderers() -> list[list[str]]:
    """The programs of this machine that render a kustomization. Where there is none, the tests above stand alone."""
    found = [["kustomize", "build"]] if shutil.which("kustomize") else []
    return [*found, ["kubectl", "kustomize"]] if shutil.which("kubectl") else found


def example_with_all(tmp_path: Path) -> Path:
    """A copy of the example overlay with its secrets and every component."""
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes" / "overlays" / "example"
    for example in overlay.glob("*.env.example"):
        example.rename(example.with_suffix(""))
    file = overlay / "kustomization.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("  # - ", "  - "), encoding="utf-8")
    return overlay


def test_kustomize_renders_base_and_example_where_there_is_one(tmp_path: Path) -> None:
    overlay = example_with_all(tmp_path)
    for renderer in renderers():
        for folder in (overlay.parents[1] / "base", overlay):
            said = subprocess.run([*renderer, folder], capture_output=True, text=True, check=False)
            assert said.returncode == 0, said.stderr
            rendered = {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(said.stdout)}
            for one in rendered.values():
                if one["kind"] != "ServiceMonitor":
                    kubernetes_validate.validate(one, OLDEST, strict=True)
            # Generated names have a hash, and what refers to them follows.
            pod = rendered["Deployment/rpcaccel"]["spec"]["template"]["spec"]
            settings = next(volume for volume in pod["volumes"] if volume["name"] == "settings")
            assert f"ConfigMap/{settings['configMap']['name']}" in rendered
        assert f"Secret/{pod['containers'][0]['envFrom'][0]['secretRef']['name']}" in rendered
        assert f"Secret/{SERVICE_MONITOR['spec']['endpoints'][0]['authorization']['credentials']['name']}" in rendered
        assert pod["containers"][0]["image"] == "registry.example/rpcaccel:0.2.0"
        ours = pod_with(*COMPONENTS, EXAMPLE)["containers"][0]
        assert environment(pod, SECRETS) == environment({"containers": [ours]}, SECRETS)
        theirs = pod["containers"][0]
        assert theirs["resources"] == ours["resources"]
        for key in ("ports", "volumeMounts"):
            assert {one["name"]: one for one in theirs[key]} == {one["name"]: one for one in ours[key]}


# ---- what the program makes of them ---------------------------------------------------------------------------------


def test_the_arguments_are_a_command_and_its_flags_and_name_files_in_mounted_folders() -> None:
    command, *rest = POD["containers"][0]["args"]
    pairs = dict(zip(rest[::2], rest[1::2], strict=True))
    assert pairs.keys() <= flags_of(command)
    mounts = {one["mountPath"]: one for one in POD["containers"][0]["volumeMounts"]}
    assert {str(Path(file).parent) for file in pairs.values()} == mounts.keys()
    assert Path(pairs["--config"]).name in kustomization(FOLDER / "base")["configMapGenerator"][0]["files"]
    assert mounts[str(Path(pairs["--config"]).parent)]["readOnly"]
    assert "readOnly" not in mounts[str(Path(pairs["--state"]).parent)]
    assert {one["name"] for one in mounts.values()} == {volume["name"] for volume in POD["volumes"]}


@pytest.mark.parametrize("toml", TOMLS, ids=lambda path: path.parent.name)
def test_the_settings_are_valid_with_each_component_and_with_all(toml: Path) -> None:
    for folders in ((), *([name] for name in COMPONENTS), COMPONENTS):
        assert settings_of(toml, *folders, secrets=SECRETS).networks


def test_the_base_needs_no_secret_and_its_admin_side_is_inside_the_pod_alone() -> None:
    assert POD["containers"][0]["envFrom"] == [{"secretRef": {"name": "rpcaccel", "optional": True}}]
    settings = settings_of(TOMLS[0])
    assert settings.admin.listen == "127.0.0.1:8889"
    assert not settings.admin.accounts


def container_ports(pod: Mapping[str, Any]) -> dict[str, int]:
    return {one["name"]: one["containerPort"] for one in pod["containers"][0]["ports"]}


@pytest.mark.parametrize("toml", TOMLS, ids=lambda path: path.parent.name)
def test_ports_are_those_listened_on_and_services_and_probes_name_them(toml: Path) -> None:
    settings = settings_of(toml, "admin", secrets=SECRETS)
    pod = pod_with("admin")
    listened = {"calls": settings.listen, "admin": settings.admin.listen}
    assert {name: f"0.0.0.0:{port}" for name, port in container_ports(pod).items()} == listened
    assert container_ports(POD).keys() == {"calls"}
    for name, service in (("calls", "base/Service/rpcaccel"), ("admin", "admin/Service/rpcaccel-admin")):
        (port,) = OBJECTS[service]["spec"]["ports"]
        assert (port["name"], port["targetPort"], port["port"]) == (name, name, container_ports(pod)[name])
    probes = [POD["containers"][0][f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"calls"}
    policy = OBJECTS["admin/NetworkPolicy/rpcaccel"]["spec"]["ingress"]
    assert [rule["ports"] for rule in policy] == [[{"port": "calls"}], [{"port": "admin"}]]
    assert ["from" in rule for rule in policy] == [False, True], "the admin side is for some alone"


def test_the_admin_side_answers_to_the_names_it_is_asked_by_and_needs_an_account() -> None:
    settings = settings_of(TOMLS[0], "admin", secrets=SECRETS)
    assert settings.admin.names == (POD_IP, "rpcaccel-admin")
    assert {name: one.role for name, one in settings.admin.accounts.items()} == {"ops": "admin", "prometheus": "read"}
    with pytest.raises(ConfigError, match=r"admin\.listen"):
        settings_of(TOMLS[0], "admin")


def test_the_redis_to_try_is_the_one_that_is_used_and_has_a_bound() -> None:
    url = settings_of(TOMLS[0], "redis").redis.url.reveal()
    service = OBJECTS["redis/Service/rpcaccel-redis"]
    assert url == f"redis://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/0"
    container = OBJECTS["redis/Deployment/rpcaccel-redis"]["spec"]["template"]["spec"]["containers"][0]
    bound = parse_size(container["args"][container["args"].index("--maxmemory") + 1])
    assert quantity(container["resources"]["requests"]["memory"]) > bound


def test_the_disk_tier_has_a_folder_that_holds_it() -> None:
    disk, pod = settings_of(TOMLS[0], "disk").disk, pod_with("disk")
    mount = next(one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == disk.path)
    volume = next(one for one in pod["volumes"] if one["name"] == mount["name"])
    assert quantity(volume["emptyDir"]["sizeLimit"]) > disk.size


# ---- the pod --------------------------------------------------------------------------------------------------------


def labels_of(owner: Mapping[str, Any]) -> dict[str, str]:
    return dict(owner["spec"]["template"]["metadata"]["labels"])


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_what_selects_pods_selects_those_of_one_deployment_alone(name: str) -> None:
    spec = OBJECTS[name]["spec"]
    selectors = {
        "Service": lambda: spec["selector"],
        "Deployment": lambda: spec["selector"]["matchLabels"],
        "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"],
    }
    selector = selectors.get(OBJECTS[name]["kind"])
    if selector is None:
        assert OBJECTS[name]["kind"] in {"HorizontalPodAutoscaler", "ServiceMonitor"}
        return
    owners = [one for one in OBJECTS.values() if one["kind"] == "Deployment"]
    selected = [one["metadata"]["name"] for one in owners if selector().items() <= labels_of(one).items()]
    assert selected == ["rpcaccel-redis" if name.startswith("redis/") else "rpcaccel"]


def test_pods_are_spread_over_hosts_and_zones_and_scaled_by_their_name() -> None:
    constraints = POD["topologySpreadConstraints"]
    assert {one["topologyKey"] for one in constraints} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    for one in constraints:
        assert one["labelSelector"]["matchLabels"].items() <= labels_of(DEPLOYMENT).items()
    target = OBJECTS["base/HorizontalPodAutoscaler/rpcaccel"]["spec"]["scaleTargetRef"]
    assert target == {key: DEPLOYMENT[key] for key in ("apiVersion", "kind")} | {"name": "rpcaccel"}
    assert "replicas" not in DEPLOYMENT["spec"], "it would undo the autoscaler at each apply"


@pytest.mark.parametrize("name", [name for name in sorted(OBJECTS) if "/Deployment/" in name])
def test_a_pod_fits_the_restricted_standard_of_pod_security(name: str) -> None:
    pod = OBJECTS[name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all(volume.keys() - {"name"} <= {"configMap", "emptyDir"} for volume in pod.get("volumes", ()))
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_user_and_folders_are_those_of_the_image() -> None:
    (uid,) = re.findall(r"useradd .*--uid (\d+) .*\brpcaccel\b", DOCKERFILE)
    assert {POD["securityContext"][key] for key in ("runAsUser", "fsGroup")} == {int(uid)}
    assert 'ENTRYPOINT ["rpcaccel"]' in DOCKERFILE
    written = [one["mountPath"] for one in pod_with("disk")["containers"][0]["volumeMounts"] if "readOnly" not in one]
    assert written
    assert all(path in DOCKERFILE for path in written)


@pytest.mark.parametrize("overlay", ["base", "example"])
def test_memory_is_what_the_documents_say_on_sizing(overlay: str) -> None:
    settings = settings_of(*{"base": (TOMLS[0],), "example": (TOMLS[1], EXAMPLE)}[overlay], secrets=SECRETS)
    resources = pod_with(*{"base": (), "example": (EXAMPLE,)}[overlay])["containers"][0]["resources"]
    assert settings.workers == 1
    assert quantity(resources["requests"]["memory"]) >= 100_000_000 + 1.25 * settings.memory.size
    assert quantity(resources["limits"]["memory"]) > 1.1 * quantity(resources["requests"]["memory"])
    assert quantity(resources["requests"]["cpu"]) == settings.workers


@pytest.mark.parametrize("toml", TOMLS, ids=lambda path: path.parent.name)
def test_a_pod_has_time_to_leave_and_to_finish_its_longest_call_before_it_is_killed(toml: Path) -> None:
    settings = settings_of(toml, secrets=SECRETS)
    before = POD["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert settings.drain_timeout >= max(network.deadline for network in settings.networks.values())
    # The supervisor gives a worker five seconds more than it was told.
    assert before + settings.drain_linger + settings.drain_timeout + 5 < POD["terminationGracePeriodSeconds"]
    # A pod that leaves is out of its Service by itself, and would be by its probe as well before SIGTERM.
    assert before >= 5
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


# ---- metrics --------------------------------------------------------------------------------------------------------


def test_the_service_monitor_finds_the_admin_port_and_what_it_reads_is_the_job_of_the_alerts() -> None:
    spec = SERVICE_MONITOR["spec"]
    # No field that the kind has not: its schema comes with no package for the suite.
    assert spec.keys() == {"jobLabel", "selector", "endpoints"}
    (endpoint,) = spec["endpoints"]
    assert endpoint.keys() == {"port", "path", "interval", "authorization"}
    assert endpoint["authorization"].keys() == {"type", "credentials"}
    services = [one for one in OBJECTS.values() if one["kind"] == "Service"]
    selector = spec["selector"]["matchLabels"].items()
    (found,) = [one for one in services if selector <= one["metadata"]["labels"].items()]
    assert endpoint["port"] in {port["name"] for port in found["spec"]["ports"]}
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert f'up{{job="{found["metadata"]["labels"][spec["jobLabel"]]}"}}' in alerts
    assert parse_duration(endpoint["interval"]) <= 15, "what the alerts are written for"
    credentials = endpoint["authorization"]["credentials"]
    generated = {one["name"]: one for one in kustomization(EXAMPLE)["secretGenerator"]}[credentials["name"]]
    assert generated["options"] == {"disableNameSuffixHash": True}
    assert credentials["key"] in secret(EXAMPLE, "metrics.env.example")
    account = secret(EXAMPLE, "metrics.env.example")[credentials["key"]].partition(":")[0]
    assert settings_of(TOMLS[0], secrets=SECRETS).admin.accounts[account].role == "read"


def test_the_metric_that_pods_are_scaled_by_is_made_from_one_that_is_exposed() -> None:
    folder = FOLDER / "components" / "autoscale-on-calls"
    (operation,) = documents(folder / "autoscaler.yaml")[0]
    (rule,) = documents(folder / "prometheus-adapter.yaml")[0]["rules"]
    (metric,) = [one for one in EXPOSED if one.name == rule["seriesQuery"].partition("{")[0]]
    assert re.fullmatch(rule["name"]["matches"], metric.name)
    assert operation["value"]["pods"]["metric"]["name"] == rule["name"]["as"]
    own = set(re.findall(r"(\w+)!?=", rule["metricsQuery"].partition(">>,")[2]))
    assert own
    assert own <= set(metric.labels)
    assert set(re.findall(r"(\w+)!=", rule["seriesQuery"])) == rule["resources"]["overrides"].keys()


# ---- a pod's life ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def node() -> AsyncIterator[GatedNode]:
    async with GatedNode(harmony_chain(200), name="node") as found:
        yield found


def on_this_machine(folder: Path, node: GatedNode) -> tuple[list[str], dict[str, str], str, str]:
    """Arguments and variables of the container with the component `admin`, its mounts in `folder`, its ports free ones
    of the loopback interface, and over a simulated node; and the addresses."""
    container = pod_with("admin")["containers"][0]
    words = list(container["args"])
    for mount in container["volumeMounts"]:
        place = folder / mount["name"]
        place.mkdir()
        words = [word.replace(mount["mountPath"], str(place)) for word in words]
    shutil.copy(TOMLS[0], folder / "settings")
    calls, admin = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
    own = {
        "RPCACCEL_LISTEN": calls,
        "RPCACCEL_ADMIN__LISTEN": admin,
        "RPCACCEL_NETWORKS__HARMONY_S0__NODES": f"{node.url},id=node",
        "RPCACCEL_NETWORKS__HARMONY_S0__CHAIN_ID": str(node.chain.spec.eth_chain_id),
    }
    accounts = {name: value for name, value in SECRETS.items() if "ACCOUNTS" in name}
    return words, environment({"containers": [container]}, accounts) | own, calls, admin


async def status(http: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with http.get(url, headers=headers) as reply:
        return reply.status


async def refuses(url: str) -> bool:
    """Whether no new connection is taken there."""
    try:
        async with aiohttp.ClientSession() as own:
            await status(own, url)
    except aiohttp.ClientConnectionError:
        return True
    return False


async def test_a_pod_starts_is_scraped_and_ends_as_its_manifest_says(tmp_path: Path, node: GatedNode) -> None:
    arguments, variables, calls, admin = on_this_machine(tmp_path, node)
    container = POD["containers"][0]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    method = "hmyv2_getBlockByNumber"
    node.hold(method)
    with Program(*arguments, env=variables, cwd=tmp_path) as program:
        async with aiohttp.ClientSession() as http:
            await asyncio.to_thread(program.wait_ready, f"http://{calls}{paths['readiness']}")
            assert {await status(http, f"http://{calls}{path}") for path in paths.values()} == {200}

            # Prometheus asks the pod by its address, as the account whose name is in its Secret.
            endpoint = SERVICE_MONITOR["spec"]["endpoints"][0]
            scraped = f"http://{admin}{endpoint['path']}"
            name = secret(EXAMPLE, "metrics.env.example")["credentials"].partition(":")[0]
            bearer = f"{endpoint['authorization']['type']} {name}:{METRICS_PASSWORD}"
            assert await status(http, scraped, Host=f"{POD_IP}:8889", Authorization=bearer) == 200
            assert await status(http, scraped, Host=f"{POD_IP}:8889") == 401
            assert await status(http, scraped, Host="elsewhere.example", Authorization=bearer) == 421

            async def call() -> tuple[int, bytes]:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": [7, {}]}
                async with http.post(f"http://{calls}/", json=body) as reply:
                    return reply.status, await reply.read()

            running = asyncio.create_task(call())
            await node.arrived.wait()
            program.signal(signal.SIGTERM)  # as the kubelet does after preStop
            await until("new connections refused", lambda: refuses(f"http://{calls}/healthz"))
            assert not running.done()
            node.release()
            answered, body = await running
            assert (answered, b'"number":7' in body) == (200, True)
        within = load(TOMLS[0], environ={})
        # Generous all the same: with nothing left to do it ends at once.
        assert await asyncio.to_thread(program.wait, within.drain_linger + within.drain_timeout) == 0
        assert "Traceback" not in program.output
        assert METRICS_PASSWORD not in program.output
    assert sorted(path.name for path in (tmp_path / "settings").iterdir()) == ["rpcaccel.toml"]
    assert os.listdir(tmp_path / "state"), "what is written is written there"
