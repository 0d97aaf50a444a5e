"""The hosts that share one Redis, from the command line."""

from __future__ import annotations

import json

from rpcaccel.controlplane.admin.admin_routes import ROUTES
from rpcaccel.controlplane.admin.openapi import describe
from rpcaccel.stores.redis.board_entries import HostEntry, Met
from tests.support.described_answers import problems
from tests.support.sample_control import SampleControl
from tests.support.sample_hosts import OTHERS, meet
from tests.unit.cli.conftest import Ask


async def test_each_host_is_a_line_with_what_it_does_and_those_that_are_not_well_have_a_sentence(
    ask: Ask, control: SampleControl
) -> None:
    meet(control, OTHERS)
    said = await ask("hosts")
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0].split()[:2] == ["host", "state"]
    assert lines[1].startswith("proxy-a (here)")
    assert "1.82e+03" not in lines[1]
    assert [line.split()[0] for line in lines[2:7]] == ["proxy-b", "proxy-c", "proxy-d", "proxy-e", "proxy-e"]
    assert [word in lines[3] for word in ("behind", "97.2 %", "0.2.0")] == [True] * 3
    assert lines[7].startswith("5 together")
    assert "proxy-c: what other hosts changed is not in force on it: networks.harmony-s0.nodes.d: unknown" in lines
    assert "proxy-d: last heard 60 s ago; it was killed, or is cut off from Redis" in lines


async def test_what_is_told_to_programs_is_as_it_is_described(ask: Ask, control: SampleControl) -> None:
    meet(control, OTHERS)
    found = json.loads((await ask("hosts", "--json")).out)
    assert len(found["hosts"]) == 6
    assert problems(describe(ROUTES, lambda _: None), "GET", "/api/v1/hosts", found) == []


async def test_a_host_by_itself_says_why_it_knows_no_others(ask: Ask) -> None:
    said = await ask("hosts")
    assert "here (here)" in said.out
    assert said.out.endswith("no other hosts are known: the settings name no Redis to share with them\n")


async def test_while_redis_is_away_that_is_said(ask: Ask, control: SampleControl) -> None:
    meet(control, {"aa": OTHERS["aa"]})
    control.book.lose("no answer in time", control.now + 30)
    control.now += 30
    said = await ask("hosts")
    assert "unknown" in said.out
    assert "30 s ago" in said.out
    assert said.out.endswith("Redis is away (no answer in time): the other hosts are not known\n")


async def test_entries_that_are_no_documents_are_counted(ask: Ask, control: SampleControl) -> None:
    meet(control, {})
    control.book.hear(Met([HostEntry("x", 0.0, b"junk")], 2), control.now, {})
    assert "3 entries in Redis are not documents of hosts, and are not shown" in (await ask("hosts")).out
