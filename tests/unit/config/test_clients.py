"""The settings of who may call."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.config.errors import Fault
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import ClientsSettings, LimitSettings
from rpcaccel.config.validate import validate

HASH = "sha256:" + "a1" * 32
OTHER = "sha256:" + "b2" * 32


def faults(clients: dict[str, Any]) -> list[Fault]:
    found = validate({"networks": {"x": {"nodes": ["http://a"]}}, "clients": clients})
    assert isinstance(found, list)
    return found


def test_by_default_nobody_is_limited() -> None:
    settings = ClientsSettings()
    assert not settings.anonymous.limits(settings.heavy_cost).any
    assert not settings.keys


def test_what_is_written_is_kept_in_one_form() -> None:
    settings = ClientsSettings.model_validate(
        {
            "keys": {"dapp": {"hashes": f"{HASH.upper().replace('SHA', 'sha')} {OTHER}", "rate": 2, "deny": "debug_*"}},
            "trusted_proxies": "10.0.0.1 2001:db8::/32",
        }
    )
    assert settings.keys["dapp"].hashes == (HASH, OTHER)
    assert settings.trusted_proxies == ("10.0.0.1/32", "2001:db8::/32")
    limits = settings.keys["dapp"].limits(7)
    assert (limits.rate, limits.heavy_cost, limits.deny) == (2.0, 7, ("debug_*",))


@pytest.mark.parametrize(
    "clients",
    [
        {"keys": {"dapp": {}}},
        {"keys": {"dapp": {"hashes": []}}},
        {"keys": {"Dapp!": {"hashes": [HASH]}}},
        {"keys": {"dapp": {"hashes": [HASH]}, "other": {"hashes": [HASH]}}},
        {"keys": {"anonymous": {"hashes": [HASH]}}},
        {"keys": {"dapp": {"hashes": [HASH], "rate": -1}}},
        {"keys": {"dapp": {"hashes": [HASH], "rate": float("inf")}}},
        {"require_key": True},
        {"trusted_proxies": ["10.0.0"]},
        {"forwarded_header": "x-real-ip"},
        {"anonymous": {"hashes": [HASH]}},
    ],
)
def test_what_makes_no_sense_is_refused_with_a_place(clients: dict[str, Any]) -> None:
    assert all(fault.path.startswith("clients") for fault in faults(clients))


def test_a_key_written_where_its_hash_belongs_is_not_shown() -> None:
    (fault,) = faults({"keys": {"dapp": {"hashes": ["rpcaccel_s3cret"]}}})
    assert "s3cret" not in str(fault)
    assert "rpcaccel key" in str(fault)


def test_settings_hold_them() -> None:
    settings = Settings.model_validate(
        {"networks": {"x": {"nodes": ["http://a"]}}, "clients": {"anonymous": {"rate": 5}}}
    )
    assert settings.clients.anonymous == LimitSettings(rate=5)
