"""The settings as a config file."""

from __future__ import annotations

import tomllib

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.config_file import to_toml
from tests.support.sample_control import sample_settings


def test_what_has_no_secret_comes_back_as_it_was() -> None:
    settings = Settings.model_validate(
        {
            "workers": 3,
            "memory": {"size": "1GB"},
            "http": {"deny": ["debug_*"], "cors_origins": []},
            "networks": {
                "x-y": {
                    "shard": 1,
                    "chain_id": 7,
                    "nodes": ["http://a:1,weight=3", {"url": "http://b", "roles": ["archive"]}],
                },
                "z": {"nodes": ["http://c"]},
            },
        }
    )
    text = to_toml(settings, "a title")
    assert text.startswith("# a title\n")
    assert "hidden" not in text
    assert Settings.model_validate(tomllib.loads(text)) == settings


def test_secrets_are_hidden_and_listed() -> None:
    text = to_toml(sample_settings(redis={"url": "redis://u:s3cret-token@r"}), "t")
    assert "s3cret-token" not in text
    assert "# hidden here, to be filled in: networks.harmony-s0.nodes[0].url" in text
    assert "# hidden here, to be filled in: redis.url" in text
    assert "nodes[1].url" not in text
    tomllib.loads(text)
