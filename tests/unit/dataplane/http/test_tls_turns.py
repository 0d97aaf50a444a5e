"""TLS between two ends in memory: what one turn of the loop does, and what is left of an answer when its client ends or
breaks the connection."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.controlplane.certificates import write_self_signed
from rpcaccel.dataplane.certificate import tls_context
from rpcaccel.dataplane.http.tls_transport import TURN_BYTES, TlsTransport

ANSWER = b"x" * (3 * TURN_BYTES)
OVERHEAD = 1.01
"""The most that records take beside what they hold, as a factor."""
BROKEN_RECORD = b"\x17\x03\x03\x00\x40" + b"z" * 64
CLOSE_NOTIFY = b"\x15\x03\x03\x00\x02\x01\x00"
"""The alert of a client that has no keys yet."""


class Wire(asyncio.Transport):
    """The loop's transport: it takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """What the client sends from here on is no longer read."""

    def get_write_buffer_size(self) -> int:
        return 0


class Server(asyncio.Protocol):
    """The protocol above TLS."""

    def __init__(self, *, goes_on: bool = False) -> None:
        """`goes_on`: does it write after its client has said that it sends no more?"""
        self.ends = 0
        self._goes_on = goes_on

    def eof_received(self) -> bool:
        self.ends += 1
        return self._goes_on


class Ends:
    """A server and its client. They shake hands at once, without `shakes` when the client is told to."""

    def __init__(self, folder: Path, *, goes_on: bool = False, shakes: bool = True) -> None:
        cert, key = write_self_signed(folder)
        self.failures: list[str] = []
        self.wire, self.server = Wire(), Server(goes_on=goes_on)
        self.transport = TlsTransport(tls_context(str(cert), str(key)), self.server, self.failures.append)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = ssl.create_default_context(cafile=str(cert))
        self.client = trusting.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.transport.connection_made(self.wire)
        while shakes and not self.shake():
            pass

    def shake(self) -> bool:
        """The client's next step of the handshake; returns whether it was the last."""
        with suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.send()
        return self.client.cipher() is not None

    def send(self) -> None:
        """Let each end have what the other has sent."""
        self.transport.data_received(self._out.read())
        self.take()

    def take(self) -> int:
        """Let the client have what the server has sent; returns its bytes."""
        size, self.wire.sent = self._in.write(self.wire.sent), b""
        return size

    def read(self) -> bytes:
        """What the client finds in what it has. Raises ssl.SSLError for an alert."""
        found = b""
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self.client.read(1 << 16):
                found += piece
        return found


async def turns(ends: Ends) -> list[int]:
    """The bytes that each turn of the loop sends from here, until one sends none."""
    sizes: list[int] = []
    while not sizes or sizes[-1]:
        await asyncio.sleep(0)
        sizes.append(ends.take())
    return sizes[:-1]


async def test_a_turn_encrypts_its_share_however_often_is_written_in_it(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    for _ in range(4):
        ends.transport.write(ANSWER)
    sizes = [ends.take(), *await turns(ends)]
    assert len(sizes) == 4 * len(ANSWER) / TURN_BYTES
    assert max(sizes) < OVERHEAD * TURN_BYTES
    assert ends.read() == 4 * ANSWER


@pytest.mark.parametrize("full", [False, True])
async def test_a_broken_record_in_the_middle_of_an_answer_ends_the_connection_with_an_alert(
    tmp_path: Path, *, full: bool
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
    ends = Ends(tmp_path)
    ends.transport.write(ANSWER)
    if full:
        ends.transport.pause_writing()
    ends.take()
    ends.transport.data_received(BROKEN_RECORD)
    assert 0 < ends.take() < 100
    assert ends.transport.get_write_buffer_size() == 0
    if full:
        ends.transport.resume_writing()
    ends.transport.write(ANSWER)
    assert await turns(ends) == []
    assert (ends.wire.closed, ends.failures, faults) == (True, ["tls-failed"], [])
    with pytest.raises(ssl.SSLError, match=r"(?i)bad record mac"):
        ends.read()


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("end", ["close_notify", "FIN"])
async def test_a_client_that_sends_no_more_gets_the_answer_whole(tmp_path: Path, end: str, *, goes_on: bool) -> None:
    ends = Ends(tmp_path, goes_on=goes_on)
    ends.transport.write(ANSWER)
    if end == "FIN":
        assert ends.transport.eof_received()
    else:
        with pytest.raises(ssl.SSLWantReadError):
            ends.client.unwrap()
        ends.send()
    assert (ends.server.ends, ends.transport.is_closing()) == (1, not goes_on)
    await turns(ends)
    assert ends.wire.closed is not goes_on
    if goes_on:
        ends.transport.write(b"more")
        ends.transport.close()
        ends.take()
    assert ends.read() == ANSWER + (b"more" if goes_on else b"")
    assert ends.wire.closed


async def test_a_client_that_ends_in_the_middle_of_the_handshake_breaks_no_rule(tmp_path: Path) -> None:
    ends = Ends(tmp_path, shakes=False)
    ends.shake()
    ends.transport.data_received(CLOSE_NOTIFY)
    assert (ends.wire.closed, ends.server.ends, ends.failures) == (True, 0, [])
