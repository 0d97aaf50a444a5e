"""A worker over simulated nodes, with the heads told by hand: the data plane alone, over real sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from rpcaccel.config.model import Settings
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.dataplane.worker import Worker
from rpcaccel.simnode.server.sim_server import SimNode

HARMONY_ID = 1666700000
QUIET: dict[str, Any] = {"hidden_lag": 0, "agreement": {"share": 0}}
"""Each URL is one machine, and no call is made that no client made."""
PATIENT_REDIS = {"read_timeout": 10, "write_timeout": 10, "connect_timeout": 10}
"""Seconds. On a busy machine a healthy Redis may take longer than the defaults of 30 ms and 0.5 s."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)  # not orjson: it makes floats of large integers

    @property
    def result(self) -> Any:
        return self.json["result"]

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def cache(self) -> str:
        """Where the answer came from."""
        return self.headers["X-Rpcaccel-Cache"]

    @property
    def node(self) -> str:
        return self.headers.get("X-Rpcaccel-Node", "")


class Proxy:
    """What a test says to the worker."""

    def __init__(self, worker: Worker, nodes: Sequence[SimNode], http: aiohttp.ClientSession, network: str) -> None:
        self.worker = worker
        self.nodes = nodes
        self.network = network
        self.url = f"http://127.0.0.1:{worker.port}"
        self._http = http

    async def post(self, body: bytes, path: str = "/", **headers: str) -> Reply:
        """Send a body as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.post(self.url + path, data=body, headers=named) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def get(self, path: str, **headers: str) -> Reply:
        """Ask by GET."""
        async with self._http.get(self.url + path, headers=headers) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def call(self, method: str, *params: Any, id: Any = 1, path: str = "/") -> Reply:
        """One call."""
        return await self.post(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), path)

    def see(
        self,
        head: int | None = None,
        *,
        serve: int | None = None,
        nodes: Sequence[int] = (),
        final: int | None = None,
        fork_epoch: int = 0,
        doubted: int = -1,
        genesis: str = "",
        block_one: str | None = "",
    ) -> None:
        """Tell the heads: of every node `head`, or of each its own in `nodes`; `serve` is what clients see, and
        `final` what of it is; `doubted`: the fork epoch since which that is in doubt; `genesis` and
        `block_one`: the hashes of blocks 0 and 1."""
        told = list(nodes) or [head if head is not None else node.head for node in self.nodes]
        served = max(told) if serve is None else serve
        final = served if final is None else final
        self.worker.see(
            NetworkHeads(
                network=self.network,
                served=Served(head=served, final=final, fork_epoch=fork_epoch, doubted=doubted),
                genesis=genesis,
                block_one=block_one,
                eth_chain_id=HARMONY_ID,
                network_id=2,
                nodes=tuple(
                    NodeHead(id=node.name, head=its, chain_ok=True, answering=True)
                    for node, its in zip(self.nodes, told, strict=True)
                ),
            )
        )

    def asked(self, method: str) -> int:
        """How often the nodes were asked, all together."""
        return sum(node.counts.asked(method) for node in self.nodes)


class BreakingClock:
    """A clock that can be made to raise, as a bug in whatever asks for the time would."""

    def __init__(self) -> None:
        self._raises = 0

    def __call__(self) -> float:
        if self._raises:
            self._raises -= 1
            raise ArithmeticError("a bug that a test made")
        return 1000.0

    def break_once(self) -> None:
        """Raise when the time is asked for next."""
        self._raises += 1


def settings_for(nodes: Sequence[SimNode], network: str = "harmony-s0", **more: Any) -> Settings:
    """Settings that serve these nodes; `more` goes to the top level, `net` to the network. Redis is PATIENT_REDIS."""
    net = more.pop("net", {})
    if "redis" in more:
        more["redis"] = PATIENT_REDIS | more["redis"]
    return Settings.model_validate(
        {
            "listen": "127.0.0.1:0",
            "networks": {network: {"nodes": [{"id": node.name, "url": node.url} for node in nodes], **QUIET, **net}},
            **more,
        }
    )


@asynccontextmanager
async def proxying(nodes: Sequence[SimNode], **more: Any) -> AsyncIterator[Proxy]:
    """A worker that serves `nodes`, heads told, drained at the end; `clock` instead of the real one, `final` instead of
    the head, `on_hint` told what the supervisor would be, and TLS with `certificate`, if given."""
    final, certificate = more.pop("final", None), more.pop("certificate", None)
    network, clock = more.pop("network", "harmony-s0"), more.pop("clock", time.monotonic)
    on_hint = more.pop("on_hint", lambda _hint: None)
    worker = Worker("w1", settings_for(nodes, network, **more), clock=clock, on_hint=on_hint)
    sock = socket.create_server(("127.0.0.1", 0))
    await worker.start(sock, certificate=certificate)
    async with aiohttp.ClientSession() as http:
        proxy = Proxy(worker, nodes, http, network)
        proxy.see(final=final)
        try:
            yield proxy
        finally:
            await http.close()  # a connection left open would be waited for
            await worker.drain(1.0)
