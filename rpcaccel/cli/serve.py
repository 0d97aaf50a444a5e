"""`rpcaccel serve`: serve nodes until told to stop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rpcaccel.cli import banner, options
from rpcaccel.config.errors import ConfigError
from rpcaccel.controlplane.workers.sockets import ListenError

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.settings.ledger import Origin

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
        banner.say(source.notes, form, "warning")
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
        return run.run(settings, banner=banner.announce, origin=origin)
    except (ConfigError, ListenError) as error:
        if settings.log.format == "console":
            raise
        banner.say(str(error).splitlines(), settings.log.format, "error")
        return CONFIGURATION if isinstance(error, ConfigError) else ADDRESS
