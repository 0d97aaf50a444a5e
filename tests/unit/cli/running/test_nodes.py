"""The nodes of a running proxy from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from rich.console import Console

from rpcaccel.cli.main import run
from rpcaccel.cli.running.nodes import NODES, doing, met
from rpcaccel.cli.terminal import Listing, table
from tests.support.sample_control import SampleControl
from tests.unit.cli.conftest import Answer, Ask


async def test_the_nodes_are_listed(ask: Ask) -> None:
    said = await ask("nodes")
    assert said.code == 0
    for text in ("harmony-s0", "a.example:443", "behind", "14 blocks behind", "weight"):
        assert text in said.out
    listed = json.loads((await ask("nodes", "--json")).out)["nodes"]
    assert [node["pushes"] for node in listed] == [True, False, False]


def test_a_node_that_pushes_its_heads_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"network": "x", "id": "a", "address": "a", "state": "serving", "head": 7, "weight": 1, "why": ""}
    node |= {"share_wanted": 0.5, "share_got": 0.75}
    Console(width=120).print(
        table(
            Listing(
                NODES,
                [{**node, "pushes": True}, {**node, "id": "b", "pushes": False}],
                why_under="state",
            )
        )
    )
    heading, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert [row[heading.index("heads")] for row in rows] == ["pushed", "asked"]


def test_a_suspicion_stands_beside_the_state_and_the_tier_beside_the_weight(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"network": "x", "id": "a", "address": "a", "state": "serving", "head": 7, "weight": 1, "why": ""}
    node |= {"share_wanted": 0.5, "share_got": 0.75, "suspect": True, "tier": 2}
    Console(width=120).print(table(Listing(NODES, [node], why_under="state")))
    said = capsys.readouterr().out
    assert "suspected, serving" in said
    assert "1 (tier 2)" in said


def test_an_address_in_brackets_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"network": "x", "id": "a", "address": "[fd00::1]:9500", "state": "down", "head": None, "weight": 1}
    node |= {"share_wanted": 0.5, "share_got": None, "why": "no connection to [fd00::1]:9500"}
    Console(width=120).print(table(Listing(NODES, [node], why_under="state")))
    assert capsys.readouterr().out.count("[fd00::1]:9500") == 2


def test_the_share_wanted_is_marked_where_the_balancer_looks_at_more_than_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = {"network": "x", "id": "a", "address": "a", "state": "serving", "head": 1, "weight": 1, "why": ""}
    node |= {"share_wanted": 0.5, "share_got": 0.75}
    Console(width=120).print(table(Listing(NODES, [{**node, "share_aim": "shares of the keys"}], why_under="state")))
    assert "~50 %" in capsys.readouterr().out
    Console(width=120).print(
        table(
            Listing(
                NODES,
                [{**node, "share_aim": ""}, {**node, "share_wanted": None, "share_aim": "keys"}],
                why_under="state",
            )
        )
    )
    assert "~" not in capsys.readouterr().out


def test_what_a_node_said_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"network": "x", "id": "a", "address": "a", "state": "down", "head": None, "weight": 1}
    node |= {"share_wanted": 0.5, "share_got": None, "why": "it says \x1b[2J\u202e"}
    Console(width=120).print(table(Listing(NODES, [node], why_under="state")))
    assert r"it says \x1b[2J\u202e" in capsys.readouterr().out


async def test_a_weight_is_given_and_a_node_drained(ask: Ask, control: SampleControl) -> None:
    said = await ask("weight", "b", "4")
    assert said.code == 0
    assert said.out.startswith(
        "revision 2: networks.harmony-s0.nodes.b.weight: 1 -> 4 (1 worker)\nchanges live until the restart"
    )
    assert control.ledger.settings.networks["harmony-s0"].nodes[1].weight == 4
    assert control.ledger.audit[-1].via == "cli"
    await ask("drain", "harmony-s0/b")
    assert control.ledger.settings.networks["harmony-s0"].nodes[1].drain
    await ask("drain", "b", "--end")
    assert not control.ledger.settings.networks["harmony-s0"].nodes[1].drain
    assert (await ask("drain", "b", "--end")).out == "nothing to change; revision 4\n"


async def test_a_node_that_is_not_there_is_told_with_those_that_are(ask: Ask) -> None:
    said = await ask("weight", "zz", "4")
    assert (said.code, said.out) == (1, "")
    assert said.err == ("rpcaccel: no node is called zz; there is: harmony-s0/a, harmony-s0/b, harmony-s0/c\n")


@pytest.mark.parametrize("number", ["-1", "1001"])
def test_a_weight_out_of_bounds_names_the_bound(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["weight", "b", number]) == 2
    assert "Invalid value for 'N'" in capsys.readouterr().err


async def test_a_refusal_is_told(ask: Ask, control: SampleControl) -> None:
    control.refusal = "worker w1: no"
    assert (await ask("weight", "b", "4")).err == "rpcaccel: worker w1: no\n"


def test_where_nobody_answers_it_is_said(capsys: pytest.CaptureFixture[str], free_port: Callable[[], int]) -> None:
    assert run(["nodes", "--admin", f"127.0.0.1:{free_port()}"]) == 1
    assert "RPCACCEL_ADMIN says where it is" in capsys.readouterr().err


async def test_a_node_is_added_once_it_was_asked_and_removed_again(ask: Ask, control: SampleControl) -> None:
    said = await ask("node", "add", "http://new.example:9500,weight=2", "--id", "new", "--header", "X-Team: a")
    assert said.code == 0
    assert said.out.startswith("harmony-s0/new: chain id 1666600000, head 7\nrevision 2: ")
    assert "new is being examined by calls in the shadow: it gets calls once that has ended" in said.out
    (new,) = [node for node in control.ledger.settings.networks["harmony-s0"].nodes if node.id == "new"]
    assert (new.weight, list(new.headers)) == (2, ["X-Team"])
    again = await ask("node", "add", "http://new.example:9500", "--id", "new")
    assert "harmony-s0 has a node new already" in again.err
    gone = json.loads((await ask("node", "remove", "new", "--yes", "--json")).out)
    assert gone["revision"] == 3
    assert [node.id for node in control.ledger.settings.networks["harmony-s0"].nodes] == ["a", "b", "c"]


async def test_a_node_that_cannot_be_added_is_refused_with_what_was_expected(ask: Ask, control: SampleControl) -> None:
    for arguments, expected in (
        (("http://x.example", "--network", "mars"), "no network is called mars; there is: harmony-s0"),
        (("ftp://u:hunter2@a",), "the node: expected an address http://HOST"),
        (("http://a,wieght=2",), "did you mean weight= for wieght=?"),
        (("http://x.example,weight=many",), "the node: expected a whole number as weight"),
        (("http://x.example,weight=-1",), "the node: expected a weight of 0 to 1000"),
        (("http://x.example", "--header", "none"), "--header: expected 'NAME: VALUE'"),
        (("http://x.example", "--header", "X Y: 1"), 'headers."X Y": found this name'),
    ):
        said = await ask("node", "add", *arguments)
        assert said.code != 0
        assert (expected in said.err, "hunter2" in said.err) == (True, False)
    assert control.ledger.revision == 1


async def test_a_removal_says_what_the_node_does_and_waits_for_a_yes(answer: Answer, control: SampleControl) -> None:
    nobody = await answer("", "node", "remove", "b")
    assert "nothing is changed; --yes does it without asking" in nobody.stderr
    refused = await answer("n\n", "node", "remove", "b")
    assert "Of the 2 other nodes 1 take calls now.\nRemove harmony-s0/b?" in refused.stderr
    assert refused.stdout == "nothing to change; revision 1\n"
    agreed = await answer("y\n", "node", "remove", "b")
    assert (agreed.exit_code, "nodes.b: " in agreed.stdout) == (0, True)
    assert [node.id for node in control.ledger.settings.networks["harmony-s0"].nodes] == ["a", "c"]


async def test_every_change_is_told_to_programs_in_json_alone(ask: Ask) -> None:
    for command in (
        ("weight", "b", "3"),
        ("drain", "b"),
        ("drain", "b", "--end"),
        ("settings", "set", "log.level=debug"),
        ("settings", "undo"),
    ):
        told = await ask(*command, "--json")
        assert (told.code, told.err, "change" in json.loads(told.out)) == (0, "", True), command


def test_a_tried_node_and_what_a_node_does_are_told_in_words() -> None:
    found = {"chain_id": 5, "head": None, "lag": 2, "latency": 0.012, "note": "it is old"}
    assert met(found) == "chain id 5, no head, 2 blocks behind, 12.0 ms, it is old"
    one = {"network": "n", "id": "a", "share_got": 0.25, "calls_per_second": 12.0, "in_flight": 3, "eligible": True}
    other = {**one, "id": "b"}
    gets = "It gets 25% of the calls of n that reach a node (12 a second), 3 under way."
    assert doing([one, other], "n", "a") == f"{gets} Of the 1 other nodes 1 take calls now."
    assert doing([one], "n", "c").startswith("It gets no calls. Of the 1 other")
    assert doing([], "n", "a") == "It gets no calls. No other node takes calls now."
