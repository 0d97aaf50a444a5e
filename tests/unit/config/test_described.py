"""What can be set, described."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rpcaccel.config.model import Settings
from rpcaccel.config.patch import to_table
from rpcaccel.config.schema import Described, described

SETTINGS = Settings.model_validate(
    {
        "networks": {"n": {"nodes": ["http://127.0.0.1:1,id=n"]}},
        "clients": {"keys": {"n": {"hashes": [f"sha256:{'0' * 64}"]}}},
    }
)


def of(path: str) -> Described:
    return next(one for one in described() if one.path == path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("memory.size", "size"),
        ("networks.*.hedge.at_least", "duration"),
        ("networks.*.hedge.quantile", "number"),
        ("networks.*.attempts", "whole"),
        ("networks.*.finality_depth", "whole"),
        ("networks.*.block_time", "duration"),
        ("log.level", "choice"),
        ("log.access", "switch"),
        ("http.deny", "list"),
        ("redis.prefix", "text"),
        ("networks.*.nodes.*.timeout", "duration"),
        ("networks.*.nodes.*.tags", "list"),
        ("networks.*.nodes.*.quota.month", "number"),
    ],
)
def test_each_setting_has_the_kind_of_its_values(path: str, kind: str) -> None:
    assert of(path).kind == kind


def test_explanation_default_bounds_and_choices_are_those_of_the_model() -> None:
    assert "with keys, overheads" in of("memory.size").text
    assert of("memory.size").default == 256_000_000
    quantile = of("networks.*.hedge.quantile")
    assert (quantile.least, quantile.below, quantile.most) == (0.0, 1.0, None)
    assert (of("networks.*.deadline").above, of("networks.*.block_time").above) == (0.0, 0.0)
    assert of("log.level").choices == ("debug", "info", "warning", "error")
    assert of("networks.*.block_time").default is msgspec.UNSET  # the chain's own
    assert "archive" in of("networks.*.nodes.*.roles").choices  # of a list, what its members are


def test_every_described_path_leads_to_a_value_in_the_settings() -> None:
    for one in described():
        found: Any = to_table(SETTINGS)
        for part in one.path.replace("*", "n").split("."):
            assert part in found, one.path
            found = found[part]
        assert not isinstance(found, dict), one.path
        assert one.text, one.path


def test_nothing_that_may_be_secret_is_there_and_nothing_of_the_admin_side() -> None:
    paths = [one.path for one in described()]
    assert not [path for path in paths if path.startswith("admin") or "url" in path or "hashes" in path]
    assert not [path for path in paths if path.startswith(("redis.replicas", "networks.*.nodes.*.headers"))]
