"""`rpcaccel serve`: serve nodes until told to stop; and what a start prints, as lines for people or as JSON
(`log.format`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rpcaccel.cli import options
from rpcaccel.config.errors import ConfigError, shown
from rpcaccel.config.load import Loaded
from rpcaccel.config.secrets import is_loopback, parse_listen
from rpcaccel.config.validate import Misfit
from rpcaccel.config.value_types import format_size
from rpcaccel.controlplane.workers.sockets import ListenError

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.settings.ledger import Origin
    from rpcaccel.controlplane.supervisor import RunningInfo

LOOPBACK_ALONE = (
    "an address of this machine alone (127.0.0.1, ::1 or localhost), since --self-signed makes a certificate that no "
    "other machine trusts: for other machines there are --tls-cert and --tls-key"
)
ADDRESS, CONFIGURATION = 1, 2
"""Exit codes of a start that fails for an address, or for the state file."""


def serve(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    nodes: options.NodeUrls = None,
    config: options.ConfigFile = None,
    chain: options.ChainName = None,
    shard: options.Shard = None,
    listen: options.ListenAddress = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="HTTPS with a certificate made for this start, on loopback alone.")
    ] = False,
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
    path of its own, and that of the first URL is on /. The name of a chain stands for public endpoints, for a first
    look. Without nodes and without a file, the page asks for the first nodes; calls get an error until then.
    Flags win over environment variables (RPCACCEL_LISTEN, RPCACCEL_REDIS__URL, …), those over the file.

    Examples:
    rpcaccel serve
    rpcaccel serve harmony
    rpcaccel serve https://a.example,weight=3 https://b.example,id=backup
    rpcaccel serve https://api.s0.t.hmny.io https://api.s1.t.hmny.io
    rpcaccel serve --chain ethereum http://127.0.0.1:8545 --memory 1GB
    rpcaccel serve https://a.example --disk /var/cache/rpcaccel --disk-size 50GB
    rpcaccel serve --config rpcaccel.toml
    rpcaccel serve https://a.example --self-signed
    """
    given = {
        "listen": listen,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "admin": admin,
        "redis": redis,
        "balancer": balancer,
        "memory": memory,
        "disk": disk,
        "disk_size": disk_size,
        "workers": workers,
    }
    with ExitStack() as to_the_end:
        source = options.source(nodes or (), config, chain, shard, **given)
        made = _self_signed(to_the_end) if self_signed else {}
        settings, origin = _read(source, given, config, state, made)
        if self_signed:
            trusted = f"--self-signed: clients trust {settings.tls_cert}, which is there until the end"
            say([trusted], settings.log.format, "info")
        return _serve(settings, origin)


def _read(
    source: options.NodeSource,
    given: Mapping[str, str | None],
    config: Path | None,
    state: Path | None,
    made: Mapping[str, str],
) -> tuple[Settings, Origin]:
    """The settings of a start, and where they come from. `made`: the settings of a certificate that was made for it.
    Raises ConfigError."""
    # The page takes the first nodes where none are named; a file says which, and a balancer is one of a network.
    later = config is None and given["balancer"] is None

    def read() -> Loaded:
        against = _against_self_signed if made else None
        found = options.judged_from(source, against, networks_later=later, **given)
        told = dict(found.told)
        for name in made:
            told[(name,)] = "--self-signed"
        return Loaded(found.settings.model_copy(update=made), told)

    form = "console"
    try:
        settings, told = read()
        form = settings.log.format
    finally:
        say(source.notes, form, "warning")
    from rpcaccel.controlplane.settings.ledger import Origin, state_file

    kept = state or (config.with_suffix(".state.json") if config else None)
    return settings, Origin(
        source=str(config) if config else None,
        reread=(lambda: read().settings) if config else None,
        state=state_file(kept.absolute()) if kept else None,
        told=told,
        of_this_start=made,
    )


def _against_self_signed(settings: Settings) -> Iterator[Misfit]:
    """A certificate that --self-signed would overrule, and an address where nobody trusts what it makes."""
    if settings.tls_cert:
        expected = "no file beside --self-signed, which makes a certificate: leave one of them out"
        yield Misfit(("tls_cert",), shown(settings.tls_cert), expected)
    if not is_loopback(parse_listen(settings.listen).host):
        yield Misfit(("listen",), shown(settings.listen), LOOPBACK_ALONE)


def _self_signed(to_the_end: ExitStack) -> dict[str, str]:
    """The settings with the files of a certificate that is made now and removed at the end."""
    from rpcaccel.controlplane.certificates import write_self_signed

    folder = to_the_end.enter_context(TemporaryDirectory(prefix="rpcaccel-"))
    cert, key = map(str, write_self_signed(Path(folder)))
    return {"tls_cert": cert, "tls_key": key}


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
    return {"networks": networks, "page": page_url(settings, info.admin), "cache": cache, "notes": list(info.notes)}


def lines(settings: Settings, listen: str, admin: str) -> list[str]:
    """The lines of the banner: the addresses of networks, page and caches. They hold no secret."""
    served = []
    for name, network in settings.networks.items():
        nodes = ", ".join(
            f"{node.id} (weight {node.weight}{f', tier {node.tier}' if node.tier else ''})" for node in network.nodes
        )
        served.append(f"  {name:<14} {_url(settings, listen, name)}  <- {nodes}")
    memory = f"{format_size(settings.memory.size)} of memory" if settings.memory.size else "none in memory"
    disk = f", then {format_size(settings.disk.size)} in {settings.disk.path}" if settings.disk.path else ""
    redis = f", then {settings.redis.url}" if settings.redis.url else ""
    if not served:
        served = [f"  {'no nodes yet':<14} {_url(settings, listen, '')}  <- the page takes the first ones"]
    return [SERVES, *served, f"  page           {page_url(settings, admin)}", f"  cache          {memory}{disk}{redis}"]


def _url(settings: Settings, listen: str, network: str) -> str:
    base = f"{'https' if settings.tls_cert else 'http'}://{reachable(listen)}"
    return f"{base}/" if network == settings.main_network else f"{base}/{network}"


def page_url(settings: Settings, admin: str) -> str:
    """The URL of the page of an admin side at `admin`, HOST:PORT."""
    return f"{'https' if settings.admin.tls_cert else 'http'}://{reachable(admin)}/"


def reachable(listen: str) -> str:
    """An address a browser on this machine can open, for one that means every interface."""
    host, _, port = listen.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else listen
