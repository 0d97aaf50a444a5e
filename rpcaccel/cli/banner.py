"""What is printed when the program is up, and before: lines for people, or JSON as in the log (`log.format`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from rpcaccel.config.value_types import format_size

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.supervisor import RunningInfo

SERVES = "rpcaccel serves"


def announce(info: RunningInfo) -> None:
    """Print the banner and the notes on stderr, where they do not mix with output."""
    if info.settings.log.format == "json":
        typer.echo(as_log(SERVES, "info", document(info)), err=True)
        return
    for line in (*lines(info.settings, info.listen, info.admin), *(f"  note           {note}" for note in info.notes)):
        typer.echo(line, err=True)


def say(notes: Iterable[str], form: str, level: str) -> None:
    """Print notes about the start on stderr, in the form of the log."""
    for note in notes:
        typer.echo(as_log(note, level, {}) if form == "json" else f"rpcaccel: {note}", err=True)


def as_log(event: str, level: str, about: dict[str, Any]) -> str:
    """A line as the log writes it in JSON. Its level keeps none of them back: a start is told in any case."""
    timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({**about, "event": event, "level": level, "timestamp": timestamp})


def document(info: RunningInfo) -> dict[str, Any]:
    """The banner for programs. It holds no secret."""
    settings = info.settings
    networks = {
        name: {
            "url": _url(settings, info.listen, name),
            "nodes": [{"id": node.id, "weight": node.weight} for node in network.nodes],
        }
        for name, network in settings.networks.items()
    }
    disk = {"path": settings.disk.path, "size": settings.disk.size} if settings.disk.path else None
    cache = {"memory": settings.memory.size, "disk": disk, "redis": str(settings.redis.url) or None}
    return {"networks": networks, "page": _page(settings, info.admin), "cache": cache, "notes": list(info.notes)}


def lines(settings: Settings, listen: str, admin: str) -> list[str]:
    """The lines of the banner: the addresses of networks, page and caches. They hold no secret."""
    served = []
    for name, network in settings.networks.items():
        nodes = ", ".join(f"{node.id} (weight {node.weight})" for node in network.nodes)
        served.append(f"  {name:<14} {_url(settings, listen, name)}  <- {nodes}")
    memory = f"{format_size(settings.memory.size)} of memory" if settings.memory.size else "none in memory"
    disk = f", then {format_size(settings.disk.size)} in {settings.disk.path}" if settings.disk.path else ""
    redis = f", then {settings.redis.url}" if settings.redis.url else ""
    return [SERVES, *served, f"  page           {_page(settings, admin)}", f"  cache          {memory}{disk}{redis}"]


def _url(settings: Settings, listen: str, network: str) -> str:
    base = f"http://{reachable(listen)}"
    return f"{base}/" if network == settings.main_network else f"{base}/{network}"


def _page(settings: Settings, admin: str) -> str:
    return f"{'https' if settings.admin.tls_cert else 'http'}://{reachable(admin)}/"


def reachable(listen: str) -> str:
    """An address a browser on this machine can open, for one that means every interface."""
    host, _, port = listen.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else listen
