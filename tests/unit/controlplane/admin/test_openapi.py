"""The description of the admin API is of the API that is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from tests.support.running_admin import running_admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView


def document() -> dict[str, Any]:
    admin = Admin(SampleView(), "127.0.0.1:0", control=SampleControl(), files={})
    return describe(ROUTES, lambda name: attrgetter(name)(admin))


def plain(path: str) -> str:
    return re.sub(r"\{(\w+)[^}]*\}", r"{\1}", path)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method, path) for path, methods in document()["paths"].items() for method in methods}
    assert described == {(route.method.lower(), plain(route.path)) for route in ROUTES}


def test_every_operation_says_what_it_does_under_a_name_of_its_own() -> None:
    operations = [operation for methods in document()["paths"].values() for operation in methods.values()]
    assert all(operation["summary"].endswith(".") for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_every_reference_leads_somewhere() -> None:
    found = document()
    names = {reference.removeprefix("#/components/schemas/") for reference in references(found)}
    assert names <= set(found["components"]["schemas"])
    assert {"SettingsNow", "Problem", "Changes"} <= names


def test_path_parameters_and_preconditions_are_named() -> None:
    paths = document()["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
    assert any(one["name"] == "If-Match" for one in paths["/api/v1/settings"]["patch"]["parameters"])
    assert paths["/api/v1/session"]["post"]["security"] == []


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("purge", {"key", "network", "method", "all", "dry_run"}),
        ("record", {"sample", "stop"}),
        ("explain", {"call", "network"}),
        ("run", {"call", "network"}),
        ("errors/try", {"network", "message", "code", "http_status", "rules"}),
    ],
)
def test_what_a_request_says_is_described(path: str, members: set[str]) -> None:
    found = document()
    (body,) = found["paths"][f"/api/v1/{path}"]["post"]["requestBody"]["content"].values()
    name = body["schema"]["$ref"].rpartition("/")[2]
    assert set(found["components"]["schemas"][name]["properties"]) == members


async def test_the_settings_have_the_members_that_are_described() -> None:
    async with running_admin() as (_, http), http.get("/api/v1/settings") as reply:
        told = set(await reply.json())
    described = document()["components"]["schemas"]["SettingsNow"]
    assert set(described["properties"]) == told | {"change"}
    assert set(described["required"]) == told
