"""`rpcaccel replay`: recorded calls once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report
from rpcaccel.bench.runs import recording, replaying
from rpcaccel.cli.command import AsJson
from rpcaccel.cli.load import bench
from rpcaccel.cli.options import seconds_of


def replay(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `rpcaccel record` wrote.", exists=True, dir_okay=False)
    ],
    url: Annotated[str, typer.Argument(metavar="URL", help="Who is called.")],
    against: Annotated[
        str, typer.Option(metavar="URL", help="Another one, called at the same moments: the answers are compared.")
    ] = "",
    pace: Annotated[
        str, typer.Option(metavar="PACE", help="recorded; 2x: twice as fast; 500/s: a constant rate.")
    ] = "recorded",
    duration: Annotated[str, typer.Option("--duration", "-d", metavar="TIME", help="No longer than that.")] = "",
    network: Annotated[str, typer.Option(metavar="NAME", help="The calls of this network, of several.")] = "",
    follow_head: Annotated[
        bool, typer.Option("--follow-head", help="Calls about blocks near the head are moved to the head of now.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Its answers may differ (a pattern: *). May be repeated."),
    ] = None,
    writes: Annotated[
        bool, typer.Option("--writes", help="Send what changes something, too, where the file has it.")
    ] = False,
    connections: bench.Connections = 256,
    timeout: bench.Timeout = 10.0,
    spin: Annotated[
        bool, typer.Option(help="Keep a core busy to send at exact times; without it up to 1 ms late.")
    ] = True,
    out: bench.Out = None,
    as_json: AsJson = False,
) -> int:
    """Make recorded calls again, each when it is due, whatever became of those before; compare what two targets answer.

    Only reads are replayed. Exit code 1 when answers differ in methods that were not allowed to, or no call succeeded.

    Examples:
    rpcaccel replay calls.jsonl http://127.0.0.1:8888 --pace 500/s -o replay.html
    rpcaccel replay calls.jsonl http://127.0.0.1:8888 --against http://node:9500
    """
    rate, speed = _pace(pace)
    seconds = seconds_of(duration, "--duration") if duration else 0.0
    targets = tuple(bench.target(one) for one in (url, against) if one)

    async def measure(watch: Watch) -> tuple[Report, int]:
        head, lines = recording.read(file)
        chosen = recording.choose(head, lines, network=network, writes=writes)
        if not chosen.lines:
            raise recording.RecordingError(f"{file.name}: no call in it may be replayed")
        asked = replaying.ReplayOptions(
            chosen, targets, rate, speed, seconds, follow_head, tuple(allow or ()), connections, timeout, spin
        )
        found, well = await replaying.replay(asked, watch)
        return found, int(not well)

    return bench.measured(measure, out, as_json=as_json)


def _pace(text: str) -> tuple[float, float]:
    """Calls a second (0: as recorded), and how many times as fast. Raises typer.BadParameter."""
    number, unit = (text.removesuffix("/s"), "/s") if text.endswith("/s") else (text.removesuffix("x"), text[-1:])
    if text == "recorded":
        return 0.0, 1.0
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6 or unit not in ("/s", "x"):
        raise typer.BadParameter(f"--pace: found {text!r}, expected recorded, 2x or 500/s")
    return (value, 1.0) if unit == "/s" else (0.0, value)
