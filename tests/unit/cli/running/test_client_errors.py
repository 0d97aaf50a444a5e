"""The errors of a running proxy from the command line."""

from __future__ import annotations

import json

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core.stats.error_log import ErrorLog, ErrorNews
from tests.support.sample_control import SampleControl
from tests.support.sample_errors import TIMEOUT, sample_of, seen_of
from tests.support.sample_view import SampleView
from tests.unit.cli.conftest import Ask


async def test_the_errors_are_listed_with_whose_doing_they_are_and_where_most_come_from(ask: Ask) -> None:
    said = await ask("errors", "--network", "harmony-s0")
    assert said.code == 0
    for text in ("failed", "by caller", "refused", "hmyv2_nope", "-32601", "no answer within # s", "shop", TIMEOUT.id):
        assert text in said.out
    assert said.out.index("failed") < said.out.index("by caller") < said.out.index("too many calls")
    assert len(json.loads((await ask("errors", "--json")).out)["groups"]) == 3


async def test_a_group_is_shown_with_its_samples(ask: Ask) -> None:
    said = await ask("errors", "--samples", TIMEOUT.id)
    assert said.code == 0
    for text in ("client shop (10.0.0.9), request abc-1", '[26,{"a":1}]', "node b, timeout after 10000.0 ms"):
        assert text in said.out
    assert json.loads((await ask("errors", "--samples", TIMEOUT.id, "--json")).out)["samples"][0]["node"] == "b"


async def test_connections_that_nobody_read_are_told_apart_from_refusals(
    ask: Ask, view: SampleView, admin: Admin
) -> None:
    for reason in ("malformed", "slow-reader", "slow-subscriber"):
        view.tally.refused(reason)
    view.advance(1.0)
    admin.sample()
    lines = (await ask("errors")).out.splitlines()
    (refused,) = [line for line in lines if line.startswith("refused before they were a call, since the start: ")]
    assert "malformed" in refused
    assert "slow" not in refused
    assert "connections closed because nobody read, since the start: slow-reader 1, slow-subscriber 1" in lines


async def test_when_no_client_got_an_error_that_is_said(ask: Ask, control: SampleControl) -> None:
    control.errors = ErrorLog()
    said = await ask("errors", "--minutes", "5")
    assert said.out.startswith("no client got an error in the last 5 min\n")


async def test_what_clients_and_nodes_wrote_commands_no_terminal(ask: Ask, control: SampleControl) -> None:
    evil = "\x1b[2J\u202e"
    control.errors = ErrorLog()
    sample = sample_of(params=evil, message=evil, request=evil)
    control.errors.take(ErrorNews((seen_of(TIMEOUT._replace(method=evil), samples=[sample]),)), 0.0)
    (group,) = control.errors.groups()
    for arguments in (("errors",), ("errors", "--samples", group.id)):
        out = (await ask(*arguments)).out
        assert "\x1b[2J" not in out
        assert "\u202e" not in out


async def test_a_group_that_is_not_there_and_an_id_that_is_none_are_told(ask: Ask) -> None:
    gone = await ask("errors", "--samples", "0123456789ab")
    assert (gone.code, gone.out) == (1, "")
    assert gone.err == "rpcaccel: no such group of errors is known, or it was dropped for newer ones\n"
    wrong = await ask("errors", "--samples", "../settings")
    assert "expected an id as `rpcaccel errors` shows it" in wrong.err
    assert "no network is called 'mars'" in (await ask("errors", "--network", "mars")).err
