"""A node of fixed answers over a bare protocol, for measuring what stands in front of it.

    python -m benchmarks.responder --port 9500 --size 1700 --latency 0.05 --work 0.0001

The node costs next to nothing, or with --work as much processor time a call as is said. Batches are answered whole.

It tells a fixed head and a Harmony testnet's ids, and answers every other method with a block of `size` bytes (a call
whose first param is {"bytes": N}: with N bytes), or with what a method answers that answers no object. GET says how
many calls came and how many connections are open.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import time
from typing import cast

import msgspec
import uvloop
from msgspec import Raw, Struct

from rpcaccel import chains

HEAD = 1_000_000
FACTS: dict[str, bytes] = {
    "hmyv2_blockNumber": b"%d" % HEAD,
    "hmyv2_chainId": b"2",
    "hmyv2_getShardID": b"0",
    "hmyv2_getEpoch": b"30",
    "hmyv2_getNodeMetadata": b'{"role":"Validator","is-archival":true,"version":"responder"}',
    "eth_blockNumber": b'"%s"' % hex(HEAD).encode(),
    "eth_chainId": b'"0x6357d2e0"',
    "net_version": b'"2"',
}


FORMS: dict[str, bytes] = {
    rule.method: (b"[0]" if rule.valued else b"[]") if rule.form == "list" else b'"0x1"'
    for rule in chains.load("harmony").rules
    if rule.form in ("scalar", "number", "list")
}
"""Results of methods that never answer an object: a proxy would rightly take a block for a fault, and an empty list
where each block has something."""


class _Call(Struct, gc=False):
    method: str
    id: Raw = Raw(b"null")
    params: Raw = Raw(b"[]")


class _Wanted(Struct, gc=False):
    bytes: int = 0


_call = msgspec.json.Decoder(_Call).decode
_batch = msgspec.json.Decoder(list[_Call]).decode
_wanted = msgspec.json.Decoder(list[_Wanted]).decode


class Responder:
    """The answers of the node, and its counts."""

    def __init__(self, size: int = 1700, latency: float = 0.0, work: float = 0.0) -> None:
        """`latency` is waited for and `work` is processor time, both in seconds."""
        self.latency = latency
        self.work = work
        self.calls = 0
        self.requests = 0
        self.connections = 0
        self.last = b""
        self.asked: dict[str, int] = {}
        self.broken: set[str] = set()
        """Methods that are answered with an error."""
        self._block = block_of(size)

    def answer(self, body: bytes) -> bytes:
        """The reply to a body."""
        self.requests += 1
        self.last = body
        if body[:1] == b"[":
            return b"[" + b",".join([self._reply(call) for call in _batch(body)]) + b"]"
        return self._reply(_call(body))

    def _reply(self, call: _Call) -> bytes:
        self.calls += 1
        if self.work:
            until = time.thread_time() + self.work
            while time.thread_time() < until:
                pass
        self.asked[call.method] = self.asked.get(call.method, 0) + 1
        if call.method in self.broken:
            return b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32000,"message":"broken"}}' % call.id
        result = FACTS.get(call.method) or FORMS.get(call.method) or self._result(call)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call.id, result)

    def _result(self, call: _Call) -> bytes:
        params = bytes(call.params)
        if params.startswith(b'[{"bytes"'):
            return block_of(_wanted(params)[0].bytes)
        named = _NAMED.match(params)
        if named is None:
            return self._block
        number, hash = (named[1], _ANY_HASH) if len(named[1]) < len(_ANY_HASH) else (_ANY_NUMBER, named[1])
        return b'{"number":"%b","hash":"%b"%b' % (number, hash, self._block[_START:])

    def counts(self) -> bytes:
        """The document that a GET is answered with."""
        document = {"calls": self.calls, "requests": self.requests, "connections": self.connections}
        return msgspec.json.encode({**document, "asked": self.asked})


_NAMED = re.compile(rb'\["(0x[0-9a-f]+)"')
"""The block that a call names first, by its number or its hash: a block that did not fit would rightly be refused."""
_ANY_NUMBER, _ANY_HASH = b"0x1", b"0x" + b"ab" * 32
_START = len(b'{"number":"","hash":""') + len(_ANY_NUMBER) + len(_ANY_HASH)


def block_of(size: int) -> bytes:
    """A block of this many bytes, or the smallest there is."""
    head = b'{"number":"%b","hash":"%b","extraData":"0x' % (_ANY_NUMBER, _ANY_HASH)
    return head + b"0" * max(0, size - len(head) - 2) + b'"}'


class Protocol(asyncio.Protocol):
    """One connection, whose requests are answered one after the other."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._responder.connections += 1

    def connection_lost(self, _error: Exception | None) -> None:
        self.transport = None
        self._responder.connections -= 1

    def data_received(self, data: bytes) -> None:
        data = self._buffer = self._buffer + data if self._buffer else data
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                break
            head = data[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15 : head.index(b"\r", start)]) if start >= 0 else 0
            if len(data) < end + length:
                break
            self._serve(head, data[end : end + length])
            data = data[end + length :]
        self._buffer = data

    def _serve(self, head: bytes, body: bytes) -> None:
        answer = self._responder.counts() if head.startswith(b"get ") else self._responder.answer(body)
        reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(answer),
            answer,
        )
        if self._responder.latency:
            self._loop.call_later(self._responder.latency, self._write, reply)
        else:
            self._write(reply)

    def _write(self, reply: bytes) -> None:
        if self.transport is not None:
            self.transport.write(reply)


async def serve(responder: Responder, port: int = 0) -> None:
    """Serve until a signal, and print the URL on stdout."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Protocol(responder), "127.0.0.1", port, backlog=1024)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--size", type=int, default=1700, help="bytes of a result")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--work", type=float, default=0.0, help="seconds of processor time for each call")
    given = parser.parse_args()
    uvloop.run(serve(Responder(given.size, given.latency, given.work), given.port))


if __name__ == "__main__":
    main()
