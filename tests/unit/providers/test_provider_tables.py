"""The figures of providers: each file reads, says where it is from, and names methods that exist."""

from __future__ import annotations

import datetime
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import pytest

from rpcaccel import chains, providers

KNOWN = frozenset(rule.method for chain in chains.names() for rule in chains.load(chain).rules)


def test_there_are_providers_in_order_and_no_others() -> None:
    assert {"alchemy", "infura", "quicknode"} <= set(providers.names())
    assert providers.names() == sorted(providers.names())
    with pytest.raises(KeyError, match="nobody"):
        providers.load("nobody")


@pytest.mark.parametrize("name", providers.names())
def test_figures_say_when_and_where_they_were_read_and_what_they_leave_out(name: str) -> None:
    about = providers.load(name).provider
    assert datetime.date(2025, 1, 1) < about.read
    assert about.sources
    assert all(urlsplit(source).scheme == "https" for source in about.sources)
    assert about.left_out.endswith(".")
    assert about.unit not in ("", "calls")


@pytest.mark.parametrize("name", providers.names())
def test_every_row_is_of_a_method_that_a_chain_has_or_stands_among_the_others(name: str) -> None:
    table = providers.load(name)
    assert "*" in table.costs
    assert all(0 <= units <= 1e6 for units in table.rows.values())
    for pattern in table.costs:
        assert any(fnmatchcase(method, pattern) for method in KNOWN), pattern
    for pattern in table.others:
        assert not any(fnmatchcase(method, pattern) for method in KNOWN), f"{pattern} belongs among the costs"
    assert not table.costs.keys() & table.others.keys()


@pytest.mark.parametrize(
    ("name", "method", "units"),
    [
        ("alchemy", "eth_chainId", 0),
        ("alchemy", "eth_call", 26),
        ("alchemy", "debug_traceCall", 40),
        ("infura", "eth_getLogs", 255),
        ("quicknode", "trace_replayTransaction", 80),
        ("quicknode", "trace_block", 40),
        ("tenderly", "tenderly_estimateGas", 40),
        ("ankr", "eth_getBlocks", 200),
    ],
)
def test_a_name_comes_before_the_patterns_of_its_file(name: str, method: str, units: float) -> None:
    rows = providers.load(name).rows
    fitting = [cost for row, cost in rows.items() if row != "*" and fnmatchcase(method, row)]
    assert rows.get(method, [*fitting, rows["*"]][0]) == units
