"""`rpcaccel warm` from the command line, before a real proxy over simulated nodes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from tests.e2e.cli.command_process import CommandProcess
from tests.support.fleet import Fleet, gated_nodes
from tests.support.running import HARMONY, Running, Serve, until
from tests.support.services import Program, free_port

NewProgram = Callable[..., Program]
BLOCK, OWN = "eth_getBlockByNumber", "hmyv2_getBlockByNumber"
FILE = "rpcaccel-warm-harmony-s0.json"


class Warming:
    """Runs the command against one proxy, in a folder of its own."""

    def __init__(self, proxy: Running, commands: CommandProcess, folder: Path) -> None:
        self.folder = folder
        self._proxy = proxy
        self._commands = commands

    def words(self, *flags: str, admin: str = "") -> tuple[str, ...]:
        return "warm", self._proxy.url, *flags, "--admin", admin or self._proxy.admin

    async def end(self, *flags: str, admin: str = "") -> tuple[int, str]:
        """The exit code and what was printed."""
        told = await self._commands.run(*self.words(*flags, admin=admin), folder=self.folder)
        return told.code, told.out + told.err

    async def done(self, *flags: str) -> dict[str, Any]:
        """What a run that succeeds tells programs."""
        told = await self._commands.run(*self.words(*flags, "--json"), folder=self.folder)
        assert told.code == 0, told.err
        found: dict[str, Any] = told.json
        return found


@pytest.fixture
def warming(fleet: Fleet, commands: CommandProcess, tmp_path: Path) -> Warming:
    return Warming(fleet.proxy, commands, tmp_path)


@pytest.mark.smoke
async def test_what_was_fetched_is_there_for_clients_and_for_the_next_run(fleet: Fleet, warming: Warming) -> None:
    before = fleet.asked(BLOCK), fleet.asked(OWN)
    first = await warming.done("--blocks", "101..150")
    assert (first["blocks"], first["calls"], first["there"], first["fetched"]) == (50, 200, 0, 200)
    asked = fleet.asked(BLOCK), fleet.asked(OWN)
    assert (asked[0] - before[0], asked[1] - before[1]) == (100, 100)
    for method, params in (
        (BLOCK, ["0x70", True]),
        (OWN, [112, {"InclStaking": True, "fullTx": True, "inclTx": True}]),
    ):
        assert (await fleet.proxy.call(method, *params)).cache == "memory"
    again = await warming.done("--blocks", "0x65..150")
    assert (again["blocks"], again["there"], again["fetched"]) == (50, 200, 0)
    assert (fleet.asked(BLOCK), fleet.asked(OWN)) == asked
    assert not (warming.folder / FILE).exists()


async def test_receipts_are_fetched_under_the_hashes_that_clients_use(fleet: Fleet, warming: Warming) -> None:
    names = "eth_getTransactionReceipt,hmyv2_getTransactionReceipt,hmyv2_getStakingTransactionByHash"
    assert (await warming.done("--blocks", "1..12", "--methods", names))["failed"] == 0
    for number in range(1, 13):
        eth = (await fleet.proxy.call(BLOCK, hex(number), False)).result["transactions"]
        own = (await fleet.proxy.call(OWN, number, {"inclStaking": True})).result
        for one in eth:
            assert (await fleet.proxy.call("eth_getTransactionReceipt", one)).cache == "memory"
        for one in own["transactions"] + own["stakingTransactions"]:
            assert (await fleet.proxy.call("hmyv2_getTransactionReceipt", one)).cache == "memory"


async def test_a_job_that_is_interrupted_or_killed_in_the_middle_is_gone_on_with(
    serve: Serve, new_program: NewProgram, commands: CommandProcess, tmp_path: Path
) -> None:
    async with gated_nodes(1) as (node,):
        warming = Warming(await serve([node], *HARMONY), commands, tmp_path)
        for how, first in ((signal.SIGINT, 1), (signal.SIGKILL, 101)):
            flags = ("--blocks", f"{first}..{first + 49}", "--methods", BLOCK)
            before = node.counts.asked(BLOCK)  # by the first look
            program = new_program(*warming.words(*flags), "--rate", "40", cwd=tmp_path)

            async def begun(before: int = before) -> bool:
                return node.counts.asked(BLOCK) - before >= 20

            await until("some blocks are fetched", begun)
            node.hold(BLOCK)
            await node.arrived.wait()
            program.signal(how)
            node.release()
            code = await asyncio.to_thread(program.wait)
            assert code == (-9 if how is signal.SIGKILL else 130), program.output
            first_left = json.loads((tmp_path / FILE).read_bytes())["left"][0][0]
            if how is not signal.SIGKILL:  # then the file may be some seconds old
                assert first_left > first
                assert "blocks are left; the same command goes on with them" in program.output
            rest = await warming.done(*flags)
            assert rest["blocks"] <= first + 50 - first_left
            assert node.counts.asked(BLOCK) - before == 100
            assert not (tmp_path / FILE).exists()


async def test_clients_keep_their_part_of_a_quota(
    serve: Serve, new_program: NewProgram, commands: CommandProcess, tmp_path: Path
) -> None:
    async with harmony_nodes(2) as (own, paid):
        config = tmp_path / "rpcaccel.toml"
        config.write_text(
            f"""[networks.harmony-s0]
            nodes = [
              {{ id = "own", url = "{own.url}" }},
              {{ id = "paid", url = "{paid.url}", tags = ["paid"], tier = 1, quota = {{ day = 100 }} }},
            ]
            routes = [{{ methods = ["{BLOCK}"], tag = "paid" }}]
            hedge = {{ quantile = 0 }}
            """
        )
        running = await serve([], "--config", config)
        warming, before = Warming(running, commands, tmp_path), paid.counts.asked(BLOCK)  # by the first look
        flags = ("--blocks", "1..150", "--methods", BLOCK, "--leave", "40%")
        program = new_program(*warming.words(*flags), cwd=tmp_path)

        async def spent() -> bool:
            return paid.counts.asked(BLOCK) - before >= 60

        await until("the job's part is used", spent)
        await asyncio.sleep(0.5)  # a job that does not stop there is far above by then
        program.signal(signal.SIGTERM)
        assert await asyncio.to_thread(program.wait) == 130, program.output
        assert paid.counts.asked(BLOCK) - before == 60


async def test_only_what_is_final_is_fetched(serve: Serve, commands: CommandProcess, tmp_path: Path) -> None:
    async with ethereum_nodes(1, head=400) as nodes:
        running = await serve(nodes)
        warming = Warming(running, commands, tmp_path)
        flags = ("--blocks", "200..399", "--methods", "eth_getTransactionReceipt")
        code, output = await warming.end(*flags)
        assert code == 0, output
        last = int(output.split("it goes up to block ")[1].split(":")[0])
        assert 200 < last < 399
        assert (await running.call(BLOCK, hex(last), False)).cache == "memory"
        assert (await running.call(BLOCK, hex(last + 1), False)).cache == "miss"
        assert (tmp_path / "rpcaccel-warm-ethereum.json").exists()
        code, output = await warming.end("--blocks", "399..", "--anew")
        assert code == 2
        assert f"block 399 is above {last}, the newest block that the proxy keeps for good" in output


async def test_what_fails_is_told_and_tried_again_by_the_next_run_of_that_job_alone(warming: Warming) -> None:
    flags = ("--blocks", "1..5", "--call", 'debug_traceBlockByNumber ["{hex}"]')
    for _ in range(2):
        code, output = await warming.end(*flags)
        assert code == 1
        assert "debug_traceBlockByNumber: -32601" in output
        assert "(and 4 more calls of it)" in output
        assert "5 blocks are left" in output
    code, output = await warming.end("--blocks", "1..6", "--call", 'debug_traceBlockByNumber ["{hex}"]')
    assert code == 2
    assert f"{FILE} is of another job, whose blocks were 1..5, and not 1..6; --anew begins anew" in output
    assert (await warming.done("--blocks", "1..6", "--anew"))["blocks"] == 6
    (warming.folder / FILE).write_text("precious")
    code, output = await warming.end("--blocks", "1..5")
    assert (code, (warming.folder / FILE).read_text()) == (2, "precious")
    assert f"{FILE} is no file of a job of `rpcaccel warm`; --anew writes over it" in output


async def test_without_the_admin_side_it_says_so_and_goes_on(fleet: Fleet, warming: Warming) -> None:
    code, output = await warming.end("--blocks", "7..9", "--network", "harmony-s0", admin=f"127.0.0.1:{free_port()}")
    assert code == 0, output
    assert "no answer from the admin side" in output
    assert "it goes on without: quotas of nodes are not looked at" in output
    assert (await fleet.proxy.call(OWN, 8, {"inclTx": True, "fullTx": True, "InclStaking": True})).cache == "memory"


async def test_what_the_settings_do_not_keep_is_told(fleet: Fleet, warming: Warming) -> None:
    off = (BLOCK, "eth_getTransactionReceipt")
    await fleet.set(rules={method: {"cache": "off"} for method in off})
    _, output = await warming.end("--blocks", "1..2", "--methods", ",".join(off))
    for method in off:
        assert f"{method}: not kept: the settings switch the cache off for this method" in output


async def test_files_and_methods_that_do_not_fit_are_named(warming: Warming) -> None:
    for flags, said in (
        (("--methods", "eth_gasPrice"), "--methods: eth_gasPrice is not known for the chain harmony; known are"),
        (("--state", "no/where.json"), "no/where.json cannot be written: No such file or directory"),
        (("--state", "."), ". cannot be read: Is a directory"),
    ):
        code, output = await warming.end("--blocks", "1..5", *flags)
        assert code == 2
        assert said in output
