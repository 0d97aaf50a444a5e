"""Every swarm runs for some seconds against simulated nodes; its gate is kept, and missed for each reason."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.deep.load.swarm import LONGEST, USUAL, Lab, forked, running
from tests.support.services import ROOT, Process, free_port, wait_until

SHORT = {
    "RPCACCEL_RATE": "10",
    "RPCACCEL_SENDS": "0.02",
    "RPCACCEL_SPIKE_BASE": "60",
    "RPCACCEL_SPIKE_PEAK": "120",
    "RPCACCEL_SPIKE_RAMP": "0.5",
    "RPCACCEL_SPIKE_HOLD": "60",
    "RPCACCEL_SHARES_WINDOW": "0.8",
    "RPCACCEL_SHARES_SETTLE": "0.3",
    "RPCACCEL_SHARES_OFF": "0.2",
    "RPCACCEL_FAULT_SECONDS": "0.4",
}
"""The swarms' own settings, so that each is over in two seconds or so."""
LOOSE = ("--gate-mean", "10s", "--gate-p99", "60s")
"""On a machine that runs a whole suite, what is proven is that calls are answered, not how fast."""
COUNTED = {**SHORT, "RPCACCEL_ENOUGH": "40"}
"""For swarms that are ended by their calls, however long these take."""
WEIGHED = {**SHORT, "RPCACCEL_RATE": "20"}
"""For the swarm that looks at shares: they are told of fifty calls at the least."""
FREE = ("baseline", "dapp", "explorer", "seed_table", "soak", "spike")
"""Swarms that only call."""
SHARED = {"admin_side", "common", "gates", "hits", "live_stream", "proxy_side", "workers"}
"""What is no swarm by itself."""


@pytest.fixture(scope="module")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("swarms")) as made:
        yield made


@pytest.fixture
def lab(_lab: Lab) -> Lab:
    _lab.well()
    return _lab


def test_every_swarm_is_tried_here() -> None:
    files = {path.stem for path in (ROOT / "locustfiles").glob("*.py")}
    assert files - SHARED == {*FREE, "live_weights", "node_failure", "subscribers"}


def test_several_processes_make_the_calls_of_all_swarms_and_their_master_one_page(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    env = {**COUNTED, "RPCACCEL_ENOUGH": "120"}
    code, said = lab.run(FREE, *LOOSE, *forked(), "--html", str(file), "-t", "10s", env=env)
    assert code == 0, said
    assert len(re.findall(r"rpcaccel.load: (?:warm: [1-9]\d* calls|gate: kept)", said)) == 2
    assert re.search(r"rpcaccel.load: [1-9]\d* calls, .* 0 failed, hit ratio \d", said), said
    assert len(re.findall(r"rpcaccel.load: node-\d: calls", said)) == 3, said
    assert "eth_call" in file.read_text(encoding="utf-8")


def test_the_studys_table_has_every_way_and_only_one_opens_a_connection_for_each_call(lab: Lab) -> None:
    ways = {"RPCACCEL_DIRECT": lab.nodes[0], "RPCACCEL_BALANCED": lab.nodes[1], "RPCACCEL_REDIS_PROXY": lab.nodes[2]}
    before = [lab.connections(number) for number in range(2)]
    code, said = lab.run("seed_table", *LOOSE, "-t", "5m", env={**COUNTED, **ways, "RPCACCEL_ENOUGH": "140"})
    assert code == 0, said
    told = dict(re.findall(r"rpcaccel.load: ([a-zR, ]+): (\d+) calls, mean .* 0 failed, hits ", said))
    assert list(told) == ["direct", "kept alive", "balanced", "cold", "warm", "warm, Redis"]
    opened = [lab.connections(number) - before[number] for number in range(2)]
    assert opened[0] >= int(told["direct"]) > 20 > opened[1]


def test_a_lie_is_a_failed_call_in_every_swarm_and_misses_the_gate_beside_all_else_that_is_wrong(lab: Lab) -> None:
    """All of them in one process, over a node that answers HTTP 200 with another caller's id: no status tells it."""
    direct = lab.nodes[0]
    lab.turn(0, faults={"wrong_id": 1.0})
    wrong = {
        "RPCACCEL_BASELINE": direct,
        "RPCACCEL_SPIKE_BASE": "100",
        "RPCACCEL_SOAK_GROWTH": "-0.9",
        "RPCACCEL_SOAK_CACHE": "0",
    }
    code, said = lab.run(FREE, *LOOSE, "-t", "10s", host=direct, env={**COUNTED, **wrong})
    assert code == 1, said
    users = json.loads(re.findall(r"All users spawned: (\{.*?\})", said)[0])
    assert users.keys() == {"Proxied", "Baseline", "Dapp", "Explorer", "SeedTable"}
    assert all(users.values())
    assert "Failed('wrong id')" in said
    assert "gate: 100 % of calls failed" in said
    assert "gate: soak: resident memory grew" in said


def test_a_gate_is_missed_when_nodes_are_slow_and_when_fewer_are_hits_than_asked_for(lab: Lab) -> None:
    lab.turn(latency="150ms")
    code, said = lab.run(
        "seed_table", "--gate-mean", "40ms", "--gate-p99", "100", "--gate-hits", "99.9%", "-t", "5m", env=COUNTED
    )
    assert code == 1, said
    assert re.search(r"gate: the mean is \d+\.\d ms, at most 40 ms is allowed", said)
    assert re.search(r"gate: the 99th percentile is \d+ ms, at most 100 ms is allowed", said)
    assert "gate: the hit ratio is" in said


def test_a_host_where_nothing_answers_is_said_once_and_misses_the_gate(lab: Lab) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    words = f"{nowhere}/ answers neither hmyv2_blockNumber nor eth_blockNumber with a number"
    with lab.swarm("dapp", *USUAL, "-t", "5m", host=nowhere) as process:
        process.wait_for(words, LONGEST)
        process.signal(signal.SIGTERM)
        code, said = process.wait(LONGEST), process.output
    assert (code, "Traceback" in said) == (1, False), said
    assert re.findall(r"rpcaccel.load: (.+)", said)[0] == words
    assert said.count(words) == 2  # once when it is found, once by the gate


def test_weights_are_followed_while_load_runs(lab: Lab) -> None:
    code, said = lab.run("live_weights", *LOOSE, *forked(), "-u", "10", "-t", "5m", env=WEIGHED)
    assert code == 0, said
    assert "hit ratio 0.0 %" in said  # no worker asks what another one asked
    assert len(re.findall(r"live weights: node-0 [\d.]+% of ", said)) == 4


def test_weights_that_are_not_followed_miss_the_gate(lab: Lab) -> None:
    lab.turn(2, faults={"unavailable": 1.0})
    code, said = lab.run("live_weights", *LOOSE, "-u", "10", "-t", "5m", env=WEIGHED)
    assert (code, "gate: live weights: shares do not follow" in said) == (1, True), said


def test_no_call_fails_while_nodes_are_killed_and_revived(lab: Lab) -> None:
    """Two processes call, and their master alone kills: each node is dead while the other one is alive."""
    env = {**COUNTED, "RPCACCEL_SIMNODES": ",".join(lab.nodes[:2]), "RPCACCEL_ENOUGH": "240"}
    code, said = lab.run("node_failure", *LOOSE, *forked(), "-t", "60s", env=env)
    assert code == 0, said
    turns = [f"{lab.nodes[number]} is {state}" for number in (0, 1) for state in ("dead (reset)", "alive again")]
    assert re.findall(r"node failure: (.+)", said)[:3] == turns[:3]


def test_calls_fail_when_the_last_node_is_killed(lab: Lab) -> None:
    lab.turn(0, 1, faults={"reset": 1.0})
    env = {**COUNTED, "RPCACCEL_SIMNODES": lab.nodes[2], "RPCACCEL_FAULT_SECONDS": "1", "RPCACCEL_ENOUGH_FAILED": "2"}
    code, said = lab.run("node_failure", *LOOSE, "-t", "60s", env=env)
    assert (code, "% of calls failed" in said) == (1, True), said


def test_subscribers_are_told_every_block_while_nodes_die_and_push_wrongly_or_not_at_all(lab: Lab) -> None:
    """Beside them the calls of the swarm that kills nodes, so that both are tried at once, in two processes."""
    lab.turn(0, push_faults={"duplicate": 0.2, "disorder": 0.2, "drop": 0.2, "cut": 0.1})
    lab.turn(1, silent=True)
    lab.turn(2, websocket="off")
    env = {**SHORT, "RPCACCEL_SHIFT": "3", "RPCACCEL_SIMNODES": ",".join(lab.nodes[:2])}
    code, said = lab.run(("subscribers", "node_failure"), *LOOSE, *forked(), "-u", "20", "-t", "14s", env=env)
    assert code == 0, said
    assert "gate: kept" in said
    assert said.count("is dead (reset)") >= 2
    assert len(re.findall(r"subscribers: [1-9]\d* blocks", said)) == 1


@pytest.fixture(scope="module")
def direct(_lab: Lab) -> dict[str, tuple[int, str]]:
    """Subscribers to a node that loses notifications, to one that is silent, and to one whose calls are slow: at once,
    since each takes as long as its blocks do."""
    _lab.well()
    _lab.turn(0, push_faults={"drop": 0.5})
    _lab.turn(1, silent=True)
    runs = {
        "losing": (*LOOSE, "-t", "60s"),
        "silent": (*LOOSE, "-t", "4s"),
        "slow": ("--gate-mean", "900", "--gate-p99", "900", *forked(), "-t", "60s"),
    }
    until = {
        "losing": {"RPCACCEL_ENOUGH": "1", "RPCACCEL_ENOUGH_FAILED": "1"},
        "silent": {},
        "slow": {"RPCACCEL_ENOUGH": "1", "RPCACCEL_ENOUGH_LOGS": "18"},  # three for each subscriber
    }
    env = {**SHORT, "RPCACCEL_SHIFT": "60"}
    with ExitStack() as started:
        swarms = {
            name: started.enter_context(
                _lab.swarm("subscribers", *USUAL, *options, host=_lab.nodes[number], env=env | until[name])
            )
            for number, (name, options) in enumerate(runs.items())
        }
        swarms["slow"].wait_for("All users spawned|Spawning is complete", LONGEST)
        _lab.turn(2, latency="1s")
        return {name: (process.wait(LONGEST), process.output) for name, process in swarms.items()}


def test_subscribers_of_a_node_that_loses_notifications_miss_the_gate(direct: dict[str, tuple[int, str]]) -> None:
    code, said = direct["losing"]
    assert (code, "gate: subscribers: newHeads: gap" in said) == (1, True), said


def test_subscribers_of_a_silent_node_miss_the_gate_however_short_the_run(direct: dict[str, tuple[int, str]]) -> None:
    code, said = direct["silent"]
    assert code == 1, said
    assert "gate: nothing was measured of: newHeads" in said
    assert "gate: nothing was measured of: logs of the chain" in said


def test_only_live_notifications_are_gated_for_time(direct: dict[str, tuple[int, str]]) -> None:
    """Calls take longer than the gate of time allows, and notifications do not, even where the machine pauses. Users of
    workers make them when they are told to stop, so the master has to wait for what they see."""
    code, said = direct["slow"]
    assert code == 0, said


@contextmanager
def led(lab: Lab, *arguments: str, env: Mapping[str, str]) -> Iterator[tuple[Process, list[Process]]]:
    """A master and two workers, as on three machines."""
    port = str(free_port())
    master = ("--master", "--master-bind-port", port, "--expect-workers", "2", "--expect-workers-max-wait", "120")
    usual = ("--headless", "--only-summary", *LOOSE, "-u", "6", "-r", "100", "-t", "5m")
    with ExitStack() as started:
        leading = started.enter_context(lab.swarm("dapp", *master, *usual, *arguments, env=env))
        workers = [
            started.enter_context(lab.swarm("dapp", "--worker", "--master-port", port, env=env)) for _ in range(2)
        ]
        yield leading, workers


def test_a_master_judges_and_reports_all_that_its_workers_saw(lab: Lab, tmp_path: Path) -> None:
    env = {**COUNTED, "RPCACCEL_RATE": "40", "RPCACCEL_ENOUGH": "300"}
    before = lab.requests()
    with led(lab, "--gate-hits", "99.9%", "--csv", str(tmp_path / "run"), env=env) as (leading, workers):
        assert leading.wait(LONGEST) == 1, leading.output
        assert [worker.wait(LONGEST) for worker in workers] == [0, 0]
    after = lab.requests()
    with (tmp_path / "run_hits.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert float(rows["eth_chainId"]["hit_ratio"]) == 1.0
    assert 0 < float(rows["Aggregated"]["hit_ratio"]) < 1
    assert "batch" in rows
    with (tmp_path / "run_proxy.csv").open(encoding="utf-8") as file:
        told = {row["figure"]: (row["swarm"], row["proxy"]) for row in csv.DictReader(file)}
    swarm, proxy = (int(text.replace(",", "")) for text in told["requests"])
    assert 0 <= proxy - swarm <= 6  # under way when users were stopped
    assert 0 < after - before - proxy < 12  # those by which the master learnt of the chain
    assert told["failed"][0] == "0"
    assert int(told["node-0: calls"][1].split()[0].replace(",", "")) > 0
    shown = float(told["hit ratio"][0].removesuffix(" %"))  # the file has a rounded ratio, which is not rounded again
    assert abs(shown - float(rows["Aggregated"]["hit_ratio"]) * 100) < 0.1


def test_a_worker_that_is_killed_misses_the_gate(lab: Lab) -> None:
    with led(lab, env={**COUNTED, "RPCACCEL_ENOUGH": "100"}) as (leading, workers):
        leading.wait_for("All users spawned|Spawning is complete", LONGEST)
        workers[0].signal(signal.SIGKILL)
        assert leading.wait(LONGEST) == 1, leading.output
    (missed,) = re.findall(r"gate: (.+)", leading.output)
    assert re.fullmatch(r"worker [01] on \S+ was lost, and with it what it saw after its last report", missed)


def test_the_page_of_locust_shows_hit_ratios(lab: Lab) -> None:
    page = f"http://127.0.0.1:{free_port()}"
    options = ("--web-host", "127.0.0.1", "--web-port", page.rpartition(":")[2], "--autostart", "-u", "4", "-t", "60s")

    def read(path: str) -> str:
        with build_opener(ProxyHandler({})).open(page + path, timeout=5.0) as reply:
            return str(reply.read().decode())

    def shown() -> bool:
        try:
            stats = json.loads(read("/stats/requests"))
        except (URLError, OSError):
            return False
        (hits,) = stats["extended_stats"]
        return bool(hits["key"] == "hits" and len(hits["data"]) > 3)

    with lab.swarm("dapp", *options, env=SHORT):
        wait_until("hit ratios in Locust's page", shown)
        assert '"extended_tabs"' in read("/").replace("&#34;", '"')
        assert read("/hits/csv").startswith("name,hit_ratio,sources")
