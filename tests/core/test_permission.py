"""Methods allowed and denied by pattern."""

from __future__ import annotations

import pytest

from rpcaccel.core.permission import Permission


@pytest.mark.parametrize(
    ("allow", "deny", "method", "allowed"),
    [
        ((), (), "eth_call", True),
        (("eth_*",), (), "eth_call", True),
        (("eth_*",), (), "hmy_call", False),
        (("eth_*", "net_version"), (), "net_version", True),
        ((), ("debug_*",), "debug_traceBlock", False),
        ((), ("debug_*",), "eth_call", True),
        (("*",), ("eth_sendRawTransaction",), "eth_sendRawTransaction", False),
        (("eth_call",), (), "eth_callMany", False),
        (("eth_call",), (), "Eth_call", False),
        (("eth_*",), (), "eth_\n", True),
        (("a.b",), (), "axb", False),
    ],
)
def test_what_is_denied_wins_and_no_allowance_allows_all(
    allow: tuple[str, ...], deny: tuple[str, ...], method: str, allowed: bool
) -> None:
    assert Permission(allow, deny).allows(method) is allowed


def test_it_is_shown_short() -> None:
    assert repr(Permission((), ("a",))) == "<permission allow * deny a>"
