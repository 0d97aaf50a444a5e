"""The few lines printed when the program is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rpcaccel.config.value_types import format_size

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.supervisor import RunningInfo


def announce(info: RunningInfo) -> None:
    """Print the banner and the notes on stderr, where they do not mix with output."""
    for line in (*lines(info.settings, info.listen, info.admin), *(f"  note           {note}" for note in info.notes)):
        typer.echo(line, err=True)


def lines(settings: Settings, listen: str, admin: str) -> list[str]:
    """The lines of the banner: the addresses of networks, page and caches. They hold no secret."""
    base = f"http://{reachable(listen)}"
    served = []
    for name, network in settings.networks.items():
        nodes = ", ".join(f"{node.id} (weight {node.weight})" for node in network.nodes)
        place = f"{base}/" if name == settings.main_network else f"{base}/{name}"
        served.append(f"  {name:<14} {place}  <- {nodes}")
    memory = f"{format_size(settings.memory.size)} of memory" if settings.memory.size else "none in memory"
    redis = f", then {settings.redis.url}" if settings.redis.url else ""
    return [
        "rpcaccel serves",
        *served,
        f"  page           {'https' if settings.admin.tls_cert else 'http'}://{reachable(admin)}/",
        f"  cache          {memory}{redis}",
    ]


def reachable(listen: str) -> str:
    """An address a browser on this machine can open, for one that means every interface."""
    host, _, port = listen.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else listen
