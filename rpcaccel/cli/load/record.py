"""`rpcaccel record`: the calls that clients make through a running proxy, into a file that can be replayed.

With --hash-addresses the recording has pseudonyms for addresses: equal ones for equal addresses, which do not lead back
to them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from msgspec import Raw

from rpcaccel import __version__
from rpcaccel.bench.load.progress import StoppedError, Watch
from rpcaccel.bench.runs import recording
from rpcaccel.cli.admin_client import READ_TIMEOUT_SECONDS, AdminClient, RemoteError, known_network, meanwhile
from rpcaccel.cli.command import CommandResult, asks_proxy
from rpcaccel.cli.load import bench
from rpcaccel.cli.options import seconds_of
from rpcaccel.config.value_types import parse_size
from rpcaccel.simnode.chain.addresses import parse as read
from rpcaccel.simnode.chain.addresses import to_hex, to_one

_ADDRESS = re.compile(r'"((?:0[xX])?[0-9a-fA-F]{40}|one1[02-9ac-hj-np-z]{38}|ONE1[02-9AC-HJ-NP-Z]{38})"')
"""An address as a JSON text, in every spelling that some node accepts."""
_ESCAPED = re.compile(r'"(?=[^"]*\\)(?:[^"\\]|\\.)*"')
_DATA = re.compile(r'"0[xX]((?:[0-9a-fA-F]{2}){32,})"')
"""Calldata as a JSON text: a selector and words, perhaps with more bytes behind them; or words alone, as in topics."""
_SELECTOR, _ADDRESS_LENGTH, _WORD_LENGTH = 8, 40, 64
"""Lengths in hex digits."""
_WORD = re.compile(r"^0{24}([0-9a-fA-F]{40})$")
_SMALL = bytes(8)
"""The beginning of words that stay as they are: numbers, and contracts that every chain has."""


class Pseudonyms:
    """Puts pseudonyms in place of addresses in the params of calls, the same ones throughout a recording."""

    def __init__(self, salt: bytes) -> None:
        """`salt` is not kept: without it nobody can test which address a pseudonym stands for."""
        self._salt = salt
        self._other = lru_cache(maxsize=65536)(self._made)

    def __repr__(self) -> str:
        return "<Pseudonyms>"

    def params(self, text: str) -> str:
        """The raw JSON text with pseudonyms in place of addresses that are a text of their own or a word of
        calldata."""
        plain = _ESCAPED.sub(_unescaped, text) if "\\" in text else text
        return _DATA.sub(self._data, _ADDRESS.sub(self._named, plain))

    def _named(self, found: re.Match[str]) -> str:
        text = found[1].lower()
        if not text.startswith("one1"):
            return f'"{to_hex(self._other(bytes.fromhex(text[-_ADDRESS_LENGTH:])))}"'
        try:
            return f'"{to_one(self._other(read(text)))}"'
        except ValueError:
            return found[0]

    def _data(self, found: re.Match[str]) -> str:
        return f'"0x{self._call(found[1]) if len(found[1]) % _WORD_LENGTH else self._words(found[1])}"'

    def _call(self, data: str) -> str:
        return data[:_SELECTOR] + self._words(data[_SELECTOR:])

    def _words(self, data: str) -> str:
        """Words with pseudonyms in them, also in calls that are an argument of type bytes (Solidity's ABI), as those of
        a multicall are."""
        told: list[str] = []
        at = 0
        while at + _WORD_LENGTH <= len(data):
            word = data[at : at + _WORD_LENGTH]
            told.append(self._word(word))
            at += _WORD_LENGTH
            if length := _call_length(word, data, at):
                told.append(self._call(data[at : at + length]))
                at += length
                told.append(data[at : at + _WORD_LENGTH - _SELECTOR])
                at += _WORD_LENGTH - _SELECTOR
        return "".join(told) + data[at:]

    def _word(self, word: str) -> str:
        found = _WORD.match(word)
        return word if found is None else "0" * 24 + self._other(bytes.fromhex(found[1])).hex()

    def _made(self, address: bytes) -> bytes:
        if address.startswith(_SMALL):
            return address
        return blake2b(address, digest_size=20, key=self._salt).digest()


def _unescaped(found: re.Match[str]) -> str:
    """A JSON text without its escapes if it is an address or data; any other text as it is."""
    try:
        plain = f'"{json.loads(found[0])}"'
    except ValueError:
        return found[0]
    return plain if _ADDRESS.fullmatch(plain) or _DATA.fullmatch(plain) else found[0]


def _call_length(word: str, data: str, at: int) -> int:
    """The hex digits of the call that begins at `at`, if `word`, which stands before it, is its length; else 0.

    Any number may look like a length, but a call has a selector, and zeros behind it up to the next word.
    """
    if word[:48].strip("0"):
        return 0
    length = 2 * int(word, 16)
    end = at + length
    padding = data[end : end + _WORD_LENGTH - _SELECTOR]
    fits = length % _WORD_LENGTH == _SELECTOR and end <= len(data) and not padding.strip("0")
    return length if fits and data[at : at + _SELECTOR].strip("0") else 0


EVERY = 0.5
"""Seconds between two requests for the calls that the proxy has recorded."""


class Written:
    """The file of a recording while it is written."""

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
        """Write the first line, which describes the recording."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        said = recording.RecordingHeader(recording.VERSION, __version__, started, sample, self._hidden is not None)
        self._write(recording.encode(said))

    def add(self, document: dict[str, Any]) -> None:
        """Write the calls that the proxy handed over; calls beyond the limit of the file's size are left out."""
        self.missed += document["missed"]
        for seen in document["calls"]:
            if self._network in ("", seen["network"]):
                self._one(seen)
        self._file.flush()

    def _one(self, seen: dict[str, Any]) -> None:
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


@asks_proxy
def record(
    proxy: AdminClient,
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
) -> CommandResult:
    """Record what clients call through a running proxy: methods and params, when, and at which head; never who.

    No keys, headers or addresses of clients; transactions as hashes; nothing of methods that no rule knows.

    Ctrl-C ends it early. `rpcaccel replay` makes the calls again.

    Examples:
    rpcaccel record --to calls.jsonl --duration 60s
    rpcaccel record --to calls.jsonl --sample 0.1 --limit 20MB --hash-addresses
    """
    seconds = seconds_of(duration, "--duration")
    try:
        most = parse_size(limit)
    except ValueError as error:
        raise typer.BadParameter(f"--limit: found {limit!r}, expected {error}") from None
    if network:
        known_network(network, proxy.get("settings")["document"]["networks"])
    try:
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise typer.BadParameter(f"--to {to} exists; a recording does not overwrite it") from None
    except OSError as error:
        raise typer.BadParameter(f"--to {to} cannot be written: {error.strerror}") from None
    with open(descriptor, "wb") as file:
        written = Written(file, most, network, Pseudonyms(secrets.token_bytes(32)) if hash_addresses else None)
        written.head(sample)
        code = _recorded(written, seconds, sample, proxy)
    if code and not written.calls:
        to.unlink()
        raise typer.Exit(code)
    return _told(written, to, code)


def _recorded(written: Written, seconds: float, sample: float, proxy: AdminClient) -> int:
    """Fetch calls from the proxy until the time is over; returns the exit code."""

    async def ask(*, stop: bool = False) -> dict[str, Any]:
        order = {"sample": sample, "stop": stop}
        return await meanwhile(lambda: dict(proxy.post("record", order, timeout=READ_TIMEOUT_SECONDS)))

    async def record_all(watch: Watch) -> None:
        written.add(await watch.unless_stopped(ask()))
        began = time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0 and not written.full:
            if await watch.pause(min(left, EVERY)):
                break
            written.add(await ask())
            watch.part(f"recording: {written.calls} calls, {written.size} bytes", 0, 1)
            watch.at(1 - max(0.0, left - EVERY) / seconds)
        written.add(await ask(stop=True))

    try:
        bench.watched(record_all)
    except StoppedError:
        return bench.INTERRUPTED
    except RemoteError as error:
        typer.echo(f"rpcaccel: {error}", err=True)
        return 1
    return 0


def _told(written: Written, to: Path, code: int) -> CommandResult:
    """The answer about a recording; warnings are printed on stderr."""
    if written.missed:
        typer.echo(f"rpcaccel: {written.missed} calls found no room in the proxy: try a smaller --sample", err=True)
    if written.full:
        typer.echo("rpcaccel: --limit was reached: what came later is not in it", err=True)
    counted = {"calls": written.calls, "bytes": written.size, "transactions": written.writes}
    document = {"file": str(to), **counted, "missed": written.missed, "full": written.full}
    shown = [f"{written.calls} calls, {written.size} bytes: {to}"]
    if written.writes:
        shown.append(f"transactions among them, as hashes, which are not replayed: {written.writes}")
    return CommandResult(document, shown, code)
