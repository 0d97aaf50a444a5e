"""Methods allowed and denied by pattern."""

from __future__ import annotations

import pytest

from rpcaccel.core.client_limits import Exposure, Permission


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


@pytest.mark.parametrize(
    ("deny", "expose", "denied", "taken"),
    [
        ((), (), False, True),
        (("evm_*",), (), False, False),
        ((), (), True, False),
        ((), ("anvil_*", "evm_mine"), True, True),
        ((), ("evm_snapshot",), True, False),
        (("evm_*",), ("evm_mine",), True, False),
    ],
)
def test_what_is_for_operators_is_taken_only_by_its_name_and_what_is_refused_never(
    deny: tuple[str, ...], expose: tuple[str, ...], denied: bool, taken: bool
) -> None:
    refusal = Exposure(deny, expose).refusal("evm_mine", denied=denied)
    assert (refusal == "") is taken
    assert taken or refusal.startswith("the method evm_mine ")
    assert ("http.expose" in refusal) is (denied and not taken and not deny)


def test_it_is_shown_short() -> None:
    assert repr(Permission((), ("a",))) == "<permission allow * deny a>"
