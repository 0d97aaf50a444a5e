"""The configuration file end to end: several networks, secrets from the environment, and what is wrong said at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fleet import STEADY
from tests.support.running import LOCAL, Running, found, until
from tests.support.services import Anvil, Program

USER, PASSWORD, KEY, QUERY, TOKEN = (
    "joe-of-ops",
    "hunter2-and-more",
    "path-key-0123456789",
    "query-key-987654",
    "t0ken-x9y8z7",
)
SECRETS = (USER, PASSWORD, KEY, QUERY, TOKEN, "Bearer")
ENVIRON = {"NODE_PASSWORD": PASSWORD, "NODE_KEY": KEY, "NODE_TOKEN": TOKEN}


class Guarded(SimNode):
    """A node behind a key; it notes who came, and may say their secrets to their faces."""

    seen: list[tuple[str, str, str]]
    answers: str = ""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = request.headers
        self.seen.append((request.path_qs, headers.get("Authorization", ""), headers.get("X-Token", "")))
        if self.answers == "refusal":
            return web.Response(status=401, text=f"no: {request.path_qs} {headers}")
        return await super()._handle(request)


def url_of(node: SimNode) -> str:
    return f"http://{USER}:${{NODE_PASSWORD}}@127.0.0.1:{node.port}/v1/${{NODE_KEY}}?key={QUERY}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a configuration file."""

    def write(text: str) -> Path:
        file = tmp_path / "rpcaccel.toml"
        file.write_text(text)
        return file

    return write


async def started(new_program: Callable[..., Program], http: aiohttp.ClientSession, file: Path, **env: str) -> Running:
    running = await found(new_program("serve", "--config", file, *LOCAL, env=env), http)
    await running.ready()
    return running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mixed(anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A program over two networks and one without a node."""
    folder = tmp_path_factory.mktemp("mixed")
    async with harmony_nodes(2) as nodes, aiohttp.ClientSession() as http:
        (folder / "rpcaccel.toml").write_text(
            f"""
            default_network = "harmony-s0"
            [networks.ethereum]
            chain = "ethereum"
            chain_id = 31337
            nodes = ["{anvil.url},id=anvil"]
            [networks.harmony-s0]
            nodes = ["{nodes[0].url}", "${{SECOND}}"]
            [networks.elsewhere]
            chain = "ethereum"
            nodes = ["http://127.0.0.1:1"]
            """
        )
        flags = ("-c", folder / "rpcaccel.toml", *LOCAL)
        with Program("serve", *flags, env=STEADY | {"SECOND": nodes[1].url}, cwd=folder) as program:
            proxy = await found(program, http)

            async def others_serve() -> bool:
                waiting = (await proxy.get(f"{proxy.url}/readyz")).body
                return b"elsewhere" in waiting and b"harmony-s0" not in waiting and b"ethereum" not in waiting

            await until("two networks ready", others_serve)
            yield proxy


@pytest.mark.smoke
async def test_several_networks_are_served_at_once_each_on_its_path(mixed: Running) -> None:
    proxy, harmony, evm = mixed, hex(1666700000), hex(31337)
    expected = {
        "/": harmony,
        "/harmony-s0": harmony,
        "/ethereum": evm,
        "/ethereum/": evm,
        "/api/v1/eth": harmony,
        "/harmony-s0/api/v1/eth": harmony,
    }
    for path, chain_id in expected.items():
        assert (await proxy.call("eth_chainId", path=path)).result == chain_id, path
    block = (await proxy.call("eth_getBlockByNumber", "0x0", False)).result["hash"]
    other = (await proxy.call("eth_getBlockByNumber", "0x0", False, path="/ethereum")).result["hash"]
    assert block != other  # one call, two networks, two answers: nothing is shared
    assert (await proxy.call("eth_getBlockByNumber", "0x0", False, path="/ethereum")).cache == "memory"
    told = await proxy.metrics()
    assert told.sum("rpcaccel_head_block", network="harmony-s0") == 200
    shown = {network["network"] for network in (await proxy.api("overview"))["networks"]}
    assert shown == {"ethereum", "harmony-s0", "elsewhere"}
    ready = await proxy.get(f"{proxy.url}/readyz")
    assert (ready.status, b"elsewhere" in ready.body, b"harmony-s0" in ready.body) == (503, True, False)


async def test_no_secret_leaves_by_any_way(
    new_program: Callable[..., Program], http: aiohttp.ClientSession, write: Callable[[str], Path]
) -> None:
    async with Guarded(harmony_chain(200), name="guarded") as node:
        node.seen = []
        entry = f'{{ id = "guarded", url = "{url_of(node)}", headers = {{ X-Token = "Bearer ${{NODE_TOKEN}}" }} }}'
        file = write(
            f"""
            [log]
            level = "debug"
            [redis]
            url = "redis://{USER}:${{NODE_PASSWORD}}@127.0.0.1:1/0"
            [networks.harmony-s0]
            nodes = [{entry}]
            """
        )
        proxy = await started(new_program, http, file, **ENVIRON)
        texts = [await everything(proxy)]
        assert all(who == (f"/v1/{KEY}?key={QUERY}", *who[1:2], f"Bearer {TOKEN}") for who in node.seen)
        assert all(who[1].startswith("Basic ") for who in node.seen)

        node.knobs.error_text = f"not for {USER}: bad key {KEY} or token {TOKEN}"
        node.knobs.next_faults = ["error"] * 6
        texts.append(await everything(proxy))
        node.answers = "refusal"
        texts.append(await everything(proxy))
        check = new_program("check", file, env=ENVIRON)
        assert await asyncio.to_thread(check.wait) == 1
        await node.kill()

        async def silent() -> bool:
            return (await proxy.nodes())["guarded"]["state"] == "failing"

        await until("the dead node noticed", silent)
        texts.append(await everything(proxy))
        assert await proxy.end() == 0
        texts += [proxy.program.output, check.output]
        assert "Traceback" not in proxy.program.output
        told = "\n".join(texts)
        assert "bad key ***" in told
        assert [secret for secret in SECRETS if secret in told] == []


async def everything(proxy: Running) -> str:
    """All that a client and an operator can read: bodies, headers, health, page, API, metrics, and the log so far."""
    texts: list[Any] = []
    calls = [("hmyv2_getBlockByNumber", [len(proxy.program.output) % 150 + 1, {}]), ("hmyv2_getNodeMetadata", [])]
    for method, params in (*calls, ("no_such", []), ("hmyv2_getBalance", ["one1"])):
        reply = await proxy.call(method, *params)
        texts += [reply.body.decode(), reply.headers]
    for url in (f"{proxy.url}/readyz", f"{proxy.url}/", f"{proxy.admin}/metrics", f"{proxy.admin}/"):
        reply = await proxy.get(url)
        texts += [reply.body.decode(), reply.headers]
    texts += [await proxy.api(name) for name in ("overview", "nodes", "methods", "cache")]
    return "\n".join([*map(str, texts), proxy.program.output])
