from __future__ import annotations

from rpcaccel.core.plan.rules import Routes, TagRoute

ROUTES = Routes([TagRoute(("eth_getLogs", "trace_*"), "archive"), TagRoute(("*_sendRaw*", "trace_call"), "relay")])


def test_the_first_route_that_fits_decides() -> None:
    assert [ROUTES.tag_of(name) for name in ("eth_getLogs", "trace_call", "eth_sendRawTransaction", "eth_call")] == [
        "archive",
        "archive",
        "relay",
        "",
    ]
    assert ROUTES.tag_of("eth_getlogs") == "", "as nodes look names up"
    assert repr(ROUTES) == "<Routes archive, relay>"


def test_without_routes_any_node_will_do() -> None:
    assert Routes().tag_of("eth_getLogs") == ""


def test_invented_names_do_not_pile_up() -> None:
    routes = Routes([TagRoute(("a",), "x")])
    for number in range(10_000):
        routes.tag_of(f"m{number}")
    assert len(routes._tags) <= 4096
    assert routes.tag_of("a") == "x"
