"""`rpcaccel record`: the calls that clients make through a running proxy, into a file that can be replayed."""

from __future__ import annotations

import os
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rpcaccel import __version__
from rpcaccel.commands import bench, progress_bar, remote
from rpcaccel.commands.pseudonyms import Pseudonyms
from rpcaccel.config.units import parse_size

if TYPE_CHECKING:
    from rpcaccel.bench.watch import Watch

EVERY = 0.5
"""Seconds between two times that the proxy is asked for what it kept."""


class Written:
    """The file while it is written."""

    def __init__(self, file: BinaryIO, limit: int, network: str, hidden: Pseudonyms | None) -> None:
        """`limit` in bytes."""
        self.calls = self.writes = self.missed = self.size = 0
        self.full = False
        self._file = file
        self._limit = limit
        self._network = network
        self._hidden = hidden
        self._began: float | None = None

    def head(self, sample: float) -> None:
        """The first line."""
        from rpcaccel.bench import recording

        started = datetime.now(UTC).isoformat(timespec="seconds")
        said = recording.Head(recording.VERSION, __version__, started, sample, self._hidden is not None)
        self._write(recording.encode(said))

    def add(self, document: dict[str, Any]) -> None:
        """What the proxy handed over; what does not fit is left out."""
        self.missed += document["missed"]
        for seen in document["calls"]:
            if self._network in ("", seen["network"]):
                self._one(seen)
        self._file.flush()

    def _one(self, seen: dict[str, Any]) -> None:
        from msgspec import Raw

        from rpcaccel.bench import recording

        if self._began is None:
            self._began = seen["at"]
        params = self._hidden.params(seen["params"]) if self._hidden is not None else seen["params"]
        line = recording.Line(
            at=round(seen["at"] - self._began, 6),
            method=seen["method"],
            params=Raw(" ".join(params.split("\n")).encode()),
            network=seen["network"],
            head=seen["head"],
            block=seen["block"],
            first=seen["first"],
            source=seen["source"],
            ms=round(seen["seconds"] * 1000, 3),
            hashed=seen["hashed"],
        )
        text = recording.encode(line)
        if self.full or self.size + len(text) >= self._limit:
            self.full = True
            return
        self._write(text)
        self.calls += 1
        self.writes += line.hashed

    def _write(self, text: bytes) -> None:
        self.size += self._file.write(text + b"\n")


def record(
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where to; a new file of JSON lines.")],
    duration: Annotated[str, typer.Option("--duration", "-d", metavar="TIME", help="How long.")] = "60s",
    sample: Annotated[
        float, typer.Option(min=0.000001, max=1.0, metavar="SHARE", help="The share of all calls that is kept.")
    ] = 1.0,
    limit: Annotated[str, typer.Option(metavar="SIZE", help="The file grows no larger.")] = "100MB",
    network: Annotated[str, typer.Option(metavar="NAME", help="Calls of this network alone.")] = "",
    hash_addresses: Annotated[
        bool, typer.Option("--hash-addresses", help="Other addresses in place of the real ones, the same for the same.")
    ] = False,
    admin: remote.Admin = remote.DEFAULT,
) -> int:
    """Record what clients call through a running proxy: methods and params, when, and at which head; never who.

    No keys, headers or addresses of clients; transactions as hashes; nothing of methods that no rule knows.

    Ctrl-C ends it early. `rpcaccel replay` makes the calls again.

    Examples:
    rpcaccel record --to calls.jsonl --duration 60s
    rpcaccel record --to calls.jsonl --sample 0.1 --limit 20MB --hash-addresses
    """
    seconds, most = _read(duration, limit)
    try:
        remote.known_network(admin, network)
    except remote.RemoteError as error:
        return remote.failed(error)
    try:
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise typer.BadParameter(f"--to {to} exists; a recording does not overwrite it") from None
    except OSError as error:
        raise typer.BadParameter(f"--to {to} cannot be written: {error.strerror}") from None
    with open(descriptor, "wb") as file:
        written = Written(file, most, network, Pseudonyms(secrets.token_bytes(32)) if hash_addresses else None)
        written.head(sample)
        code = _recorded(written, seconds, sample, admin)
    if code and not written.calls:
        to.unlink()
        return code
    _tell(written, to)
    return code


def _read(duration: str, limit: str) -> tuple[float, int]:
    seconds = bench.seconds(duration)
    try:
        return seconds, parse_size(limit)
    except ValueError as error:
        raise typer.BadParameter(f"--limit: found {limit!r}, expected {error}") from None


def _recorded(written: Written, seconds: float, sample: float, admin: str) -> int:
    """Ask the proxy again and again; the exit code."""
    from rpcaccel.bench.watch import StoppedError, Watch
    from rpcaccel.dataplane import loop

    async def ask(*, stop: bool = False) -> dict[str, Any]:
        order = f'{{"sample": {sample!r}, "stop": {"true" if stop else "false"}}}'
        return await remote.meanwhile(lambda: remote.post(admin, "/api/v1/record", order))

    async def watched(watch: Watch) -> None:
        written.add(await watch.unless_stopped(ask()))
        began = time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0 and not written.full:
            if await watch.pause(min(left, EVERY)):
                break
            written.add(await ask())
            watch.part(f"recording: {written.calls} calls, {written.size} bytes", 0, 1)
            watch.at(1 - max(0.0, left - EVERY) / seconds)
        written.add(await ask(stop=True))

    async def main() -> None:
        with progress_bar.progress() as progress:
            watch = Watch(progress)
            with watch.interruptible():
                await watched(watch)

    try:
        loop.run(main())
    except StoppedError:
        return bench.INTERRUPTED
    except remote.RemoteError as error:
        return remote.failed(error)
    return 0


def _tell(written: Written, to: Path) -> None:
    typer.echo(f"{written.calls} calls, {written.size} bytes: {to}")
    if written.writes:
        typer.echo(f"transactions among them, as hashes, which are not replayed: {written.writes}")
    if written.missed:
        typer.echo(f"rpcaccel: {written.missed} calls found no room in the proxy: try a smaller --sample", err=True)
    if written.full:
        typer.echo("rpcaccel: --limit was reached: what came later is not in it", err=True)
