"""`rpcaccel purge`: counts, asks, removes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from rpcaccel.cli.main import app, run


class AdminSide:
    """Answers purges as the admin side does, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.complete = True
        self.kept = {"memory": 1, "disk": 2, "store": 3}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(asked)
                dry = asked.get("dry_run", False)
                self._answer({**outer.kept, "complete": outer.complete, "dry_run": dry})

            def do_GET(self) -> None:
                self._answer({"document": {"networks": {"harmony-s0": {}, "ethereum": {}}}})

            def _answer(self, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def side() -> Iterator[AdminSide]:
    made = AdminSide()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_dry_run_counts_only(side: AdminSide, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["purge", "--method", "m", "--dry-run", "--admin", side.address]) == 0
    assert capsys.readouterr().out == "1 answer in memory, 2 on disk and 3 in Redis would be removed\n"
    assert [asked["dry_run"] for asked in side.asked] == [True]


def test_it_is_removed_once_it_was_agreed_to(side: AdminSide) -> None:
    agreed = CliRunner().invoke(app, ["purge", "--all", "--admin", side.address], input="y\n")
    assert "Remove 1 answer in memory, 2 on disk and 3 in Redis?" in agreed.output
    assert side.asked[-1] == {"network": "", "method": "", "key": "", "all": True}
    refused = CliRunner().invoke(app, ["purge", "--all", "--admin", side.address], input="n\n")
    assert "would be removed" in refused.output
    assert side.asked[-1]["dry_run"] is True
    nobody = CliRunner().invoke(app, ["purge", "--all", "--json", "--admin", side.address], input="")
    assert "nothing is removed; --yes does it without asking" in nobody.stderr
    assert (nobody.stdout.strip(), side.asked[-1]["dry_run"]) == ("", True)


def test_what_could_not_be_reached_is_said(side: AdminSide, capsys: pytest.CaptureFixture[str]) -> None:
    side.complete = False
    assert run(["purge", "--all", "--yes", "--json", "--admin", side.address]) == 1
    assert json.loads(capsys.readouterr().out)["store"] == 3
    assert run(["purge", "--all", "--yes", "--admin", side.address]) == 1
    assert "some may be left" in capsys.readouterr().err


def test_without_an_admin_side_it_says_where_it_looked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["purge", "--all", "--yes", "--admin", "127.0.0.1:1"]) == 1
    assert "no answer from the admin side at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--all", "--method", "m"], ["--key", "k", "--network", "n"]])
def test_what_is_meant_has_to_be_said(side: AdminSide, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["purge", *flags, "--admin", side.address]) == 2
    assert "--all, or --key, or --network and --method" in capsys.readouterr().err
    assert side.asked == []


def test_a_network_that_is_not_there_is_told_with_those_that_are(
    side: AdminSide, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["purge", "--network", "mars", "--dry-run", "--admin", side.address]) == 0  # it was there: much is kept
    side.kept = {"memory": 0, "disk": 0, "store": 0}
    assert run(["purge", "--network", "ethereum", "--yes", "--admin", side.address]) == 0
    assert "0 answers in memory" in capsys.readouterr().out
    side.kept = {"memory": 0, "disk": 1, "store": 0}  # of a network that was removed
    assert run(["purge", "--network", "mars", "--yes", "--admin", side.address]) == 0
    assert "0 answers in memory, 1 on disk and 0 in Redis removed" in capsys.readouterr().out
    side.kept = {"memory": 0, "disk": 0, "store": 0}
    assert run(["purge", "--network", "mars", "--yes", "--admin", side.address]) == 1
    assert "no network is called mars; there is: harmony-s0, ethereum" in capsys.readouterr().err
