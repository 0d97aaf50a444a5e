"""A proxy under attack: three simulated nodes and the program, each in a process of its own, and a hostile relay.

The floods of large requests and large answers are here, too; the other attacks are in `benchmarks.attacks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import tomlkit
from aiohttp import web

from benchmarks.storms import Node
from tests.support.services import LOOPBACK, Program, free_port
from tests.support.storm import NETWORK

JSON = {"Content-Type": "application/json"}
MB = 1_000_000
CODE = "eth_getCode"
TRACE = "debug_traceTransaction"
"""A method that the relay alone answers."""
ADDRESS = "0x" + "11" * 20
DEEP_BLOCK = "0x10"
"""A block far below every head, so that what is asked about it may be kept."""
Script = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]
"""Answers the call whose id is given as JSON text."""


class Relay:
    """A URL whose calls are answered by the nodes behind it in turn, but for the methods that a script answers."""

    def __init__(self, node: Node) -> None:
        self.scripts: dict[str, Script] = {}
        self.behind = [node]
        self._runner: web.ServerRunner | None = None
        self._http: aiohttp.ClientSession | None = None
        self.url = ""

    async def start(self) -> None:
        self._http = aiohttp.ClientSession()
        self._runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.1)  # type: ignore[arg-type]
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, free_port())
        await site.start()
        self.url = site.name

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._http is not None:
            await self._http.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert self._http is not None
        if request.method != "POST":  # a proxy that looks for this node's WebSocket
            return web.Response(status=405)
        body = await request.read()
        asked = orjson.loads(body)
        script = self.scripts.get(asked["method"]) if isinstance(asked, dict) else None
        if script is not None:
            return await script(request, orjson.dumps(asked["id"]))
        self.behind.append(node := self.behind.pop(0))
        async with self._http.post(node.url, data=body, headers=JSON) as reply:
            return web.Response(body=await reply.read(), content_type="application/json")


@dataclass
class Field:
    """The targets of an attack: the nodes, and the proxy as clients and its operator reach it."""

    nodes: list[Node]
    relay: Relay
    program: Program
    config: Path
    port: int
    admin: str
    http: aiohttp.ClientSession
    going: bool = True
    """Whether ordinary reads still come. An attack without an end of its own ends with them."""
    wrong: list[str] = field(default_factory=list)
    """Faults that the attack found in the answers to its own calls."""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    async def post(self, asked: Any, path: str = "", *, at: str = "") -> bytes:
        """The body of the answer to one call or batch, as it came: the proxy's, or that of a URL."""
        body = asked if isinstance(asked, bytes) else orjson.dumps(asked)
        async with self.http.post((at or self.url) + path, data=body, headers=JSON) as reply:
            return await reply.read()

    async def call(self, method: str, *params: Any, id: Any = 1) -> Any:
        """The decoded answer to one call."""
        return read(await self.post(call_of(method, *params, id=id)))

    async def known(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until something holds for the second and the third node as the proxy's API shows them."""
        while True:
            async with self.http.get(f"{self.admin}/api/v1/nodes") as reply:
                nodes = (await reply.json())["nodes"]
            if all(holds(node) for node in nodes if node["id"] != "a"):
                return
            await asyncio.sleep(0.05)  # between two looks: this has no events to wait for

    async def leave_to_first(self, method: str) -> None:
        """Have no node but the first serve a method."""
        for node in self.nodes[1:]:
            await node.turn(missing=[method])

    def expect(self, holds: bool, what: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.wrong.append(what)

    def memory(self, name: str) -> int:
        """Bytes of the proxy: VmRSS now, or VmHWM, the most since `forget_peak` (proc(5))."""
        for line in Path(f"/proc/{self.program.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise ValueError(name)

    async def longest_turn(self) -> float:
        """Seconds of the longest turn of the proxy's event loop in the last minute; 0 where that asks for a login."""
        async with self.http.get(f"{self.admin}/api/v1/workers") as reply:
            told = (await reply.json()).get("workers", ())
            return max((float(worker["longest_turn"] or 0.0) for worker in told), default=0.0)

    def forget_peak(self) -> None:
        """Reset the peak that VmHWM tells."""
        Path(f"/proc/{self.program.pid}/clear_refs").write_text("5", encoding="ascii")


Attack = Callable[[Field], Awaitable[None]]


class Case(NamedTuple):
    """An attack, and the settings under which it is made."""

    attack: Attack
    settings: Mapping[str, Any] = {}
    hostile: bool = False
    """Whether the first node is reached through the relay."""
    memory: str = "0"
    """The size of the memory tier; with 0 every ordinary read goes to a node."""
    weight: int = 1
    """The weight of the first node; the others have 1 each."""


def read(body: bytes) -> Any:
    """The decoded answer; an empty object where it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}


def call_of(method: str, *params: Any, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": list(params)}


def says(result: bytes) -> Script:
    async def script(_: web.Request, call_id: bytes) -> web.StreamResponse:
        return web.Response(body=b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result))

    return script


def streams(parts: Iterable[bytes], encoding: str = "identity") -> Script:
    """A script that answers with a body in parts, for as long as the client takes them."""

    async def script(request: web.Request, _: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Encoding": encoding, "Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                await response.write(part)
        return response

    return script


@contextlib.asynccontextmanager
async def under(case: Case) -> AsyncIterator[Field]:
    """The nodes and the proxy as the attack finds them."""
    nodes = [Node("one"), Node("two"), Node("three")]
    relay = Relay(nodes[0])
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        program = None
        try:
            await asyncio.gather(relay.start(), *(node.start() for node in nodes))
            urls = [relay.url if case.hostile else nodes[0].url, nodes[1].url, nodes[2].url]
            config = Path(folder, "rpcaccel.toml")
            text = tomlkit.dumps(_settings(case, urls, port, admin))
            await asyncio.to_thread(config.write_text, text, encoding="utf-8")
            program = Program("serve", "--config", config, measured=False)
            await asyncio.to_thread(program.wait_ready, f"http://{LOOPBACK}:{port}/readyz")
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
                yield Field(nodes, relay, program, config, port, f"http://{LOOPBACK}:{admin}", http)
        finally:
            if program is not None:
                program.kill()
            for node in nodes:
                node.end()
            await relay.stop()


def _settings(case: Case, urls: list[str], port: int, admin: int) -> dict[str, Any]:
    nodes = [
        {"id": name, "url": url, "gather": not case.hostile, "weight": weight}
        for name, url, weight in zip("abc", urls, (case.weight, 1, 1), strict=True)
    ]
    plain: dict[str, Any] = {
        "listen": f"{LOOPBACK}:{port}",
        "admin": {"listen": f"{LOOPBACK}:{admin}"},
        "memory": {"size": case.memory},
        "networks": {NETWORK: {"chain": "harmony", "deadline": "8s", "nodes": nodes}},
    }
    for section, more in case.settings.items():
        plain[section] = plain.get(section, {}) | more
    return plain


def request_of(asked: Any, *, close: bool = False) -> bytes:
    body = orjson.dumps(asked)
    last = b"Connection: close\r\n" if close else b""
    return b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (last, len(body), body)


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
