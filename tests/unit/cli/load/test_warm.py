"""Filling the cache: what is read of flags and settings, what is refused, and the words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.cli.admin_client import AdminClient, RemoteError
from rpcaccel.cli.load import warm, warm_proxy
from rpcaccel.cli.load.warm_proxy import IDLE, ProxyFacts
from rpcaccel.cli.main import run
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.warming.job import WarmingJob, WarmingOrder
from rpcaccel.warming.runner import WarmingRunner
from rpcaccel.warming.warming_limits import QuotaGuard, Spare
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView
from tests.support.services import free_port
from tests.unit.cli.conftest import Ask

URL = "http://127.0.0.1:8888"
FACTS = ProxyFacts(network="x", chain="harmony", told=True, hidden_lag=0.0, block_time=2.0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--blocks", ""), "--blocks: found '', expected A..B"),
        (("--blocks", "5"), "--blocks: found '5', expected A..B"),
        (("--blocks", "9..5"), "--blocks: A is 9, which is above B, 5"),
        (("--blocks", "-1..5"), "--blocks: A is '-1', expected a block such as 1234 or 0x4d2"),
        (("--blocks", "..5"), "--blocks: A is '', expected a block"),
        (("--blocks", "1..latest"), "--blocks: B is 'latest', expected a block such as 1234 or 0x4d2, or final"),
        (("--blocks", "1..1e9"), "--blocks: B is '1e9'"),
        (("--blocks", "1..5", "--leave", "150%"), "--leave: found '150%', expected a share such as 50%"),
        (("--blocks", "1..5", "--leave", "some"), "--leave: found 'some'"),
        (("--blocks", "1..5", "--network", "../x"), "--network: found '../x'"),
    ],
)
def test_a_faulty_flag_is_named(flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_faulty_url_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm", "http://", "--blocks", "1..5"]) == 2
    assert "a URL: expected" in capsys.readouterr().err


async def test_a_proxy_that_does_not_answer_is_named(ask: Ask, tmp_path: Path) -> None:
    port = free_port()
    code, _, err = await ask("warm", f"http://127.0.0.1:{port}", "--blocks", "1..5", "--state", str(tmp_path / "a"))
    assert code == 1
    assert f"http://127.0.0.1:{port} does not tell the newest block: connect" in err
    assert not (tmp_path / "a").exists()


async def test_a_network_that_is_not_there_is_named(ask: Ask) -> None:
    code, _, err = await ask("warm", URL, "--blocks", "1..5", "--network", "nope")
    assert code == 1
    assert "no network is called nope; there is: harmony-s0" in err


def test_calls_go_to_the_path_of_the_network() -> None:
    assert warm_proxy.called(URL, "") == URL
    assert warm_proxy.called("127.0.0.1:8888", "s1") == f"{URL}/s1"
    assert warm_proxy.called(f"{URL}/key/KEY/", "s1") == f"{URL}/key/KEY/s1"
    assert warm_proxy.called(f"{URL}/key/KEY/s1", "s1") == f"{URL}/key/KEY/s1"


def document(**more: Any) -> dict[str, Any]:
    """Settings as the admin side tells them."""
    networks = {
        "s0": {"nodes": ["http://a,id=own"], "hidden_lag": 60},
        "s1": {"nodes": [{"id": "paid", "url": "http://b", "quota": {"day": 100, "heavy": 20}}], "block_time": 1},
    }
    found = Settings.model_validate({"networks": networks, **more}).model_dump(mode="json")
    for network in found["networks"].values():
        network["nodes"] = {node["id"]: node for node in network["nodes"]}
    return found


def test_the_settings_tell_what_matters() -> None:
    facts = warm_proxy.told(document(), URL, "")
    assert facts == ProxyFacts(
        network="s0", chain="harmony", told=True, lasts=False, hidden_lag=60.0, block_time=2.0, heavy={"own": 1.0}
    )
    other = warm_proxy.told(document(), f"{URL}/key/KEY/s1/api/v1/eth", "")
    assert (other.network, other.block_time, other.heavy) == ("s1", 1.0, {"paid": 20.0})
    assert warm_proxy.told(document(default_network="s1"), URL, "").network == "s1"
    assert warm_proxy.told(document(), URL, "s1").network == "s1"
    with pytest.raises(RemoteError, match="no network is called s2"):
        warm_proxy.told(document(), URL, "s2")


def test_a_disk_tier_or_redis_keeps_what_is_fetched() -> None:
    assert warm_proxy.told(document(disk={"path": "/x"}), URL, "").lasts
    assert warm_proxy.told(document(redis={"url": "redis://x"}), URL, "").lasts


async def spared(**more: Any) -> Spare:
    """What there is to spare where every node is as said: c has a quota."""
    facts = ProxyFacts(network="harmony-s0", chain="harmony", told=True, hidden_lag=0.0, block_time=2.0)
    view = SampleView()
    view.node_list = [replace(node, **more) for node in view.node_list]
    view.advance(0.2)
    served = Admin(view, "127.0.0.1:0", control=SampleControl(), files={})
    await served.start()
    async with ConnectionPool(parse(URL), 1) as pool:
        found = await warm_proxy.WarmedProxy(pool, AdminClient(served.address), 1.0).spare(facts, 0.1)
    await served.close()
    return found


async def test_quotas_are_read_of_the_networks_nodes_whatever_their_tier() -> None:
    for found in (await spared(), await spared(tier=0), await spared(state="parked")):
        assert found.calls == 88_000
        assert found.why.startswith("c has 19% of its month's quota left, which renews at 2026-")


async def test_nothing_is_spent_while_no_node_takes_calls() -> None:
    for state in ("cordoned", "drained", "wrong-chain"):
        assert await spared(state=state) == Spare(0, IDLE)


class Told:
    """An admin side that says what a test wants it to."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    async def unwritten(self) -> int:
        if not self.counts:
            raise RemoteError("it restarts")
        return self.counts.pop(0)

    async def spare(self, facts: ProxyFacts, leave: float) -> Spare:
        return Spare(7, "")


async def test_a_tier_that_does_not_keep_up_is_noticed_from_the_first_look_on() -> None:
    admin, behind = Told(), list[int]()
    admin.counts = [5, 5, 9, 2, 3]
    looks = warm_proxy.AdminLooks(admin, FACTS, 0.5, behind.append)
    assert [await looks.spare() for _ in range(6)] == [Spare(7, "")] * 5 + [None]
    assert behind == [4, 1]


def made(last: int = 5, newest: int = 100) -> WarmingJob:
    return WarmingJob(WarmingOrder("http://a", "x", 1, last, ("a [{block}]",)), newest)


def finish(job: WarmingJob, *outcomes: bool) -> None:
    """Do the next blocks, each well or not."""
    for well in outcomes:
        block = job.take()
        assert block is not None
        job.finish(block, well=well)


async def ran(job: WarmingJob, **more: Any) -> WarmingRunner:
    """A runner that has made no call."""

    async def post(_body: bytes) -> str:
        return "connect"

    return WarmingRunner(job, {}, post, **more)


def test_the_operator_is_warned_of_what_makes_the_job_useless() -> None:
    facts = warm_proxy.told(document(), URL, "")
    first, second, third = warm.warnings(facts, made(9, 5), {"eth_call": "not kept: the settings say so"})
    assert "neither a disk tier (--disk) nor Redis" in first
    assert second == "eth_call: not kept: the settings say so"
    assert third.startswith("it goes up to block 5: ")
    assert list(warm.warnings(FACTS, made(), {})) == []


async def test_the_progress_is_told_in_a_line() -> None:
    runner = await ran(made(5000, 9000))
    assert warm.progress(runner) == "0 of 5,000 blocks"
    finish(runner.job, True)
    for source in ("memory", "disk", "miss", "miss"):
        runner.tally.answered(source, 1000)
    runner.trouble = "-32005 too many\x1b"
    runner.tally.failed(2, "a", "no")
    line = warm.progress(runner)
    assert line == "1 of 5,000 blocks, 0 calls/s, 50% hits, 4.0 kB, 1 failed, waits: -32005 too many\\x1b"


async def test_a_pause_for_the_sake_of_quotas_is_told() -> None:
    async def read() -> Spare:
        return Spare(0, "a has 50% of its day's quota left")

    guard = QuotaGuard(read)
    await guard.look()
    runner = await ran(made(), guard=guard)
    assert "waits: a has 50% of its day's quota left" in warm.progress(runner)


async def test_the_end_is_told_in_words_and_for_programs(tmp_path: Path) -> None:
    runner = await ran(made())
    finish(runner.job, True, False)
    runner.tally.answered("disk", 500)
    runner.tally.answered("miss", 500)
    for _ in range(3):
        runner.tally.failed(2, "a", "no")
    said = warm.summary(runner, FACTS, 65.0)
    assert said == "x: 1 blocks of 1..5 done in 0:01:05; 2 calls, 1.0 kB: 1 were there already, 1 fetched, 3 failed"
    found = warm.document(runner, FACTS, 65.0)
    assert (found["blocks"], found["left"], found["there"], found["fetched"], found["failed"]) == (1, 4, 1, 1, 3)
    assert found["failures"] == [{"method": "a", "text": "no", "first": 2, "count": 3}]
    runner.broken = "50 blocks in a row failed"
    runner.tally.unwritten = 7
    assert list(warm.complaints(runner, tmp_path)) == [
        "block 2: a: no (and 2 more calls of it)",
        "7 answers found no room in the queue to the disk or Redis, so some may be in memory alone; "
        "a lower --rate prevents that",
        "given up: 50 blocks in a row failed",
        f"4 blocks are left; the same command goes on with them ({tmp_path})",
    ]


async def test_a_proxy_that_tells_no_sources_is_not_taken_for_one_that_had_nothing() -> None:
    runner = await ran(made())
    runner.tally.answered("", 500)
    assert "the proxy does not tell which it had" in warm.summary(runner, FACTS, 1.0)
    assert "hits" not in warm.progress(runner)


async def test_nothing_to_do_is_said() -> None:
    job = made()
    finish(job, *[True] * 5)
    job.blocks = 0
    said = warm.summary(await ran(job), FACTS, 0.1)
    assert said == "x: nothing to do, everything up to block 5 was fetched before"
