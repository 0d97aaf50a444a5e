"""The settings as a config file: what differs from the defaults, secrets hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tomlkit

from rpcaccel.config.model import Settings
from rpcaccel.config.secrets import REVEAL


def to_toml(settings: Settings, title: str) -> str:
    """TOML that `rpcaccel serve --config` reads once the hidden values, listed on top, are filled in."""
    shown = _plain(settings.model_dump(mode="json", exclude_defaults=True))
    real = _plain(settings.model_dump(mode="json", exclude_defaults=True, context=REVEAL))
    document = tomlkit.document()
    document.add(tomlkit.comment(title))
    for path in _hidden(shown, real):
        document.add(tomlkit.comment(f"hidden here, to be filled in: {path}"))
    document.add(tomlkit.nl())
    for key, value in shown.items():
        document.add(key, tomlkit.item(value))
    return tomlkit.dumps(document)


def _plain(value: Any) -> Any:
    """The value without None, which TOML does not have and which is always the default."""
    if isinstance(value, Mapping):
        ordered = sorted(value.items(), key=lambda item: isinstance(item[1], Mapping | list))
        return {key: _plain(inner) for key, inner in ordered if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _hidden(shown: Any, real: Any, path: str = "") -> Iterator[str]:
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            yield from _hidden(value, real[key], f"{path}.{key}" if path else key)
    elif isinstance(shown, list):
        for index, value in enumerate(shown):
            yield from _hidden(value, real[index], f"{path}[{index}]")
    elif shown != real:
        yield path
