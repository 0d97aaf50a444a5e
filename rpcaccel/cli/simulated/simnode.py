"""`rpcaccel simnode`: one simulated node, to try the proxy or a client against."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rpcaccel.cli.options import seconds_of
from rpcaccel.cli.serve import reachable
from rpcaccel.config.errors import reason_of
from rpcaccel.config.secrets import Listen, format_listen
from rpcaccel.controlplane.workers.sockets import ListenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rpcaccel.simnode.server.sim_server import SimNode


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def simnode(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Where it listens; 0 takes a free port.")
    ] = 0,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address it listens on.")] = "127.0.0.1",
    seed: Annotated[int, typer.Option(metavar="N", help="Equal seeds are equal chains, in any process.")] = 1,
    kind: Annotated[Literal["harmony", "ethereum"], typer.Option(help="What it imitates.")] = "harmony",
    shard: Annotated[int, typer.Option(min=0, max=3, metavar="N", help="Shard of a Harmony node.")] = 0,
    latency: Annotated[
        str, typer.Option(metavar="TIME", help="40ms, uniform:20ms-60ms, lognormal:40ms,0.5 or jitter:40ms+10ms.")
    ] = "0ms",
    connect: Annotated[
        str, typer.Option(metavar="TIME", help="What opening a connection costs, as the round trips to a far node do.")
    ] = "0ms",
    tls: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serve HTTPS with this key and certificate (PEM); made where there is none."),
    ] = None,
    lag: Annotated[int, typer.Option(min=0, metavar="N", help="Blocks it is behind the chain.")] = 0,
    block_time: Annotated[
        str, typer.Option(metavar="TIME", help="Time between blocks; 2s, or 12s for ethereum, when not given.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print its address as a line of JSON.")] = False,
) -> int:
    """Run a simulated node: deterministic from its seed, truthful, with faults to turn on while it runs.

    Processes of one chain (equal --seed, --kind, --shard, --block-time) share
    what clients send, until the last of them ends: in rpcaccel-simnode-...
    of the directory for temporary files (TMPDIR), 16 MB at the most. They
    share neither knobs nor reorganisations.

    Examples:
    rpcaccel simnode --port 9500 --latency jitter:40ms+10ms
    rpcaccel simnode --kind ethereum --block-time 2s
    rpcaccel simnode --tls node.pem --connect 990ms   (SSL_CERT_FILE=node.pem)
    curl -d '{"lag": 3}' http://127.0.0.1:9500/simnode/knobs
    curl -d '{"faults": {"error": 0.2}}' http://127.0.0.1:9500/simnode/knobs
    curl -d '{"lies": {"old_state": 0.01}}' http://127.0.0.1:9500/simnode/knobs
    curl -d '{"push_faults": {"drop": 0.2}}' http://127.0.0.1:9500/simnode/knobs
    """
    from rpcaccel.dataplane import output
    from rpcaccel.simnode.chain.shared_sends import NotShared

    spec: dict[str, Any] = {"seed": seed, "shard": shard}
    folder = Path(tempfile.gettempdir())
    if block_time:
        spec["block_time"] = seconds_of(block_time, "--block-time", some=True)
    try:
        node = build(kind, spec, port=port, tls=tls, shared=folder, latency=latency, connect=connect, lag=lag)
    except ValueError as error:
        raise typer.BadParameter(f"--latency, --connect: {error}") from None
    except OSError as error:
        raise typer.BadParameter(f"--tls {tls}: {reason_of(error)}") from None
    except NotShared as error:
        raise typer.BadParameter(f"TMPDIR: {error}") from None
    output.shield("stdout")
    with closing(node.chain):
        return asyncio.run(serve(node, host, as_json=as_json))


def build(
    kind: str,
    spec: dict[str, Any],
    *,
    port: int,
    tls: Path | None = None,
    shared: Path | None = None,
    **positions: Any,
) -> SimNode:
    """The node, not started; below the folder `shared` it shares what it is sent. Raises ValueError for what cannot be
    simulated, OSError for a certificate's file, NotShared."""
    from rpcaccel.simnode.chain.blocks import ChainSpec
    from rpcaccel.simnode.chain.shared_sends import SharedSends
    from rpcaccel.simnode.chain.sim_chain import SimChain
    from rpcaccel.simnode.server.factories import ethereum_spec, knobs
    from rpcaccel.simnode.server.sim_connections import server_context
    from rpcaccel.simnode.server.sim_server import SimNode

    made = ethereum_spec(**spec) if kind == "ethereum" else ChainSpec(**spec)
    context, turned = None if tls is None else server_context(tls), knobs(**positions)
    chain = SimChain(made, shared=None if shared is None else SharedSends(made, shared))
    return SimNode(chain, name=f"sim-{kind}", port=port, knobs=turned, tls=context)


async def serve(
    node: SimNode,
    host: str,
    *,
    stop: asyncio.Event | None = None,
    say: Callable[[str], None] = typer.echo,
    as_json: bool = False,
) -> int:
    """Serve until `stop` or a signal. Raises ListenError."""
    stop = stop or asyncio.Event()
    try:
        await node.start(host)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}:{node.port}: {reason_of(error)}") from None
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        place = reachable(format_listen(Listen(host or "0.0.0.0", node.port)))
        url = f"{node.url.partition(':')[0]}://{place}"
        document = {"name": node.name, "url": url, "head": node.head, "knobs": f"{url}/simnode/knobs"}
        text = f"{node.name} at {url}, head {node.head}; knobs at /simnode/knobs"
        say(json.dumps(document) if as_json else text)
        await stop.wait()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        await node.stop()
    return 0
