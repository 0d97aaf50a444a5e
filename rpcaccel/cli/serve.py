"""`rpcaccel serve`: serve nodes until told to stop; and what a start prints, as lines for people or as JSON
(`log.format`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from rpcaccel.cli import options
from rpcaccel.config.errors import ConfigError
from rpcaccel.config.value_types import format_size
from rpcaccel.controlplane.workers.sockets import ListenError

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.settings.ledger import Origin
    from rpcaccel.controlplane.supervisor import RunningInfo

ADDRESS, CONFIGURATION = 1, 2
"""Exit codes of a start that fails for an address, or for the state file."""


def serve(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    nodes: options.NodeUrls = None,
    config: options.ConfigFile = None,
    chain: options.ChainName = None,
    shard: options.Shard = None,
    listen: options.ListenAddress = None,
    admin: options.AdminListen = None,
    redis: options.Redis = None,
    balancer: options.BalancerName = None,
    memory: options.Memory = None,
    disk: options.Disk = None,
    disk_size: options.DiskSize = None,
    workers: options.WorkerNumber = None,
    state: options.State = None,
) -> int:
    """Serve nodes behind one cached, balanced endpoint, until Ctrl-C or SIGTERM.

    Nodes are asked which chain and shard they serve, unless --chain and --shard say so; each makes a network with a
    path of its own, and that of the first URL is on /.
    Flags win over environment variables (RPCACCEL_LISTEN, RPCACCEL_REDIS__URL, …), those over the file.

    Examples:
    rpcaccel serve https://api.s0.t.hmny.io
    rpcaccel serve https://a.example,weight=3 https://b.example,id=backup
    rpcaccel serve https://api.s0.t.hmny.io https://api.s1.t.hmny.io
    rpcaccel serve --chain ethereum http://127.0.0.1:8545 --memory 1GB
    rpcaccel serve https://a.example --disk /var/cache/rpcaccel --disk-size 50GB
    rpcaccel serve --config rpcaccel.toml
    """

    given = {
        "listen": listen,
        "admin": admin,
        "redis": redis,
        "balancer": balancer,
        "memory": memory,
        "disk": disk,
        "disk_size": disk_size,
        "workers": workers,
    }
    source = options.source(nodes or (), config, chain, shard, **given)

    read = partial(options.judged_from, source, **given)
    form = "console"
    try:
        settings, told = read()
        form = settings.log.format
    finally:
        say(source.notes, form, "warning")
    from rpcaccel.controlplane.settings.ledger import Origin, state_file

    kept = state or (config.with_suffix(".state.json") if config else None)
    origin = Origin(
        source=str(config) if config else None,
        reread=(lambda: read().settings) if config else None,
        state=state_file(kept.absolute()) if kept else None,
        told=told,
    )
    return _serve(settings, origin)


def _serve(settings: Settings, origin: Origin) -> int:
    """Serve until told to stop; returns the exit code. Raises ConfigError or ListenError, unless the log is JSON: then
    the fault is a line of it."""
    from rpcaccel.controlplane import run

    try:
        return run.run(settings, banner=announce, origin=origin)
    except (ConfigError, ListenError) as error:
        if settings.log.format == "console":
            raise
        say(str(error).splitlines(), settings.log.format, "error")
        return CONFIGURATION if isinstance(error, ConfigError) else ADDRESS


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
