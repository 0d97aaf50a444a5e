"""Floods of large requests and large answers, whose size clients and nodes choose."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable
from typing import Any

from benchmarks.attacked import Field, call_of, request_of, says
from tests.support.services import LOOPBACK

MB = 1_000_000
CODE = "eth_getCode"
TRACE = "debug_traceTransaction"
"""A method that the relay alone answers."""
ADDRESS = "0x" + "11" * 20
DEEP_BLOCK = "0x10"
"""A block far below every head, so that what is asked about it may be kept."""


async def non_readers(field: Field) -> None:
    """Six hundred clients that ask for 4 MB each, and do not read."""
    field.relay.scripts[CODE] = says(b'"0x' + b"60" * (2 * MB) + b'"')
    request = request_of(call_of(CODE, ADDRESS, DEEP_BLOCK))
    loop = asyncio.get_running_loop()
    sockets = []
    try:
        for _ in range(600):
            client = socket.socket()
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sockets.append(client)
            with contextlib.suppress(OSError):
                await loop.sock_connect(client, (LOOPBACK, field.port))
                await loop.sock_sendall(client, request)
        await asyncio.sleep(5)  # the clients stay connected: that is the attack
    finally:
        for client in sockets:
            client.close()


async def eight_floods(field: Field) -> None:
    """Batches of hits and of misses, batches of large answers, large answers, wide ranges of logs and of blocks, slow
    readers, and compressed answers, all at once, beside reads that need no node."""
    field.relay.scripts[CODE] = says(b'"0x' + b"60" * (2 * MB) + b'"')
    field.relay.scripts[TRACE] = says(
        b'{"structLogs":[' + b",".join([b'{"pc":1,"op":"PUSH1","depth":1}'] * 300_000) + b"]}"
    )
    known = [call_of("hmyv2_getBlockByNumber", 1 + number % 150, {}, id=number) for number in range(1000)]

    async def ask(make: Callable[[int], Any], headers: dict[str, str] | None = None) -> None:
        for number in itertools.takewhile(lambda _: field.going, itertools.count()):
            async with field.http.post(field.url, json=make(number), headers=headers) as reply:
                await reply.read()

    def accounts(number: int, some: int) -> list[Any]:
        return [call_of("hmyv2_getBalance", f"0x{number * some + one:040x}", id=one) for one in range(some)]

    await asyncio.gather(
        ask(lambda _: known),
        ask(lambda number: accounts(number, 1000)),
        ask(lambda number: [call_of(CODE, f"0x{number:020x}{one:020x}", DEEP_BLOCK, id=one) for one in range(6)]),
        ask(lambda number: call_of(TRACE, f"0x{number:064x}")),
        ask(lambda number: call_of("eth_getLogs", {"fromBlock": hex(number % 50), "toBlock": hex(100 + number % 50)})),
        ask(lambda number: call_of("hmyv2_getBlocks", number % 40, 140, {"fullTx": True})),
        ask(lambda _: call_of(CODE, ADDRESS, DEEP_BLOCK), {"Accept-Encoding": "gzip"}),
        non_readers(field),
    )
