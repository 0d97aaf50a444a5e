"""What a node may be asked for, on the page: tiers, tags, quotas and times in its row, routes in Settings."""

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.schema import described
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.settings.ledger import Author
from rpcaccel.controlplane.stats.snapshot import Notice
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import apply, field, opened, weight
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView

TAGGED = {"networks": {NETWORK: {"nodes": {"c": {"tags": ["archive"]}}}}}
KNOWN = "import('/src/store.js').then(({ store }) => store.current.revision)"
ROUTED = {"networks": {NETWORK: {"routes": [{"methods": ["eth_getLogs"], "tag": "archive"}]}}}


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "nodes")


def network(control: SampleControl) -> NetworkSettings:
    return control.ledger.settings.networks[NETWORK]


def node(control: SampleControl, name: str) -> NodeSettings:
    return next(one for one in network(control).nodes if one.id == name)


async def changed(control: SampleControl, *changes: dict[str, object]) -> None:
    for change in changes:
        await control.ledger.change(change, Author("ops", "api"))


async def test_a_node_s_row_has_every_setting_with_a_path_to_copy_and_what_the_node_says_it_is(page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    detail = await opened(page, "a")
    await expect(detail.locator(".setting").first).to_be_visible()
    named = await detail.locator(".setting > label").evaluate_all("all => all.map(one => [one.title, one.textContent])")
    prefix = f"networks.{NETWORK}.nodes.a."
    own = {"weight", "drain"}  # have controls of their own
    wanted = {one.path.removeprefix("networks.*.nodes.*.") for one in described() if ".nodes." in one.path} - own
    assert {path.removeprefix(prefix) for path, _ in named} == wanted
    assert not [name for _, name in named if "_" in name or "·" in name]  # each has a name in words
    await expect(detail.locator(".setting", has_text="Roles")).to_contain_text("any of archive, explorer")

    for path in [f"{prefix}{name}" for name in ("weight", "drain", "timeout")]:
        await detail.get_by_role("button", name=path, exact=True).click()
        await expect(detail.get_by_text("copied", exact=True).first).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == path
    await page.get_by_role("button", name="a", exact=True).click()
    detail = await opened(page, "c")
    await expect(detail.locator(".facts").first).to_contain_text("rolesarchiveby its own wordexplorer, not archive")

    await page.evaluate("location.hash = '#/settings'")
    await expect(page.locator(".setting").first).to_be_visible()
    paths = await page.locator(".setting button.copies").all_inner_texts()
    assert paths == await page.locator(".setting > label").evaluate_all("all => all.map((one) => one.title)")


async def test_a_tier_changes_the_shares_a_wrong_field_is_told_and_settings_of_a_node_are_applied_with_its_weight(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["422"]
    means = page.locator(".tune .means")
    await expect(means.nth(1)).to_have_text("1 of 6 → 16.7\u202f%")
    detail = await opened(page, "b")
    await field(detail, "Tier").fill("2")
    await expect(means.nth(1)).to_have_text("stands by in tier 2")
    await expect(means.nth(0)).to_contain_text("5 of 5 → 100\u202f%")

    await field(detail, "Time limit to connect").fill("0")
    row = detail.locator(".setting", has=field(page, "Time limit to connect"))
    await expect(row.get_by_role("alert")).to_contain_text("more than 0")
    await expect(page.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
    await field(detail, "Time limit to connect").fill("3 s")

    await weight(page, "b").fill("4")
    await field(detail, "Tier").fill("1")
    await field(detail, "Tags").fill("archive, big")
    await field(detail, "Quota per month").fill("3000000")
    await field(detail, "Time limit of an attempt").fill("2500 ms")
    await expect(page.locator(".bar")).to_contain_text("node b: Time limit of an attempt 10 s → 2.5 s")
    await apply(page)
    found = node(control, "b")
    assert (found.weight, found.tier, found.tags) == (4, 1, {"archive", "big"})
    assert (found.quota.month, found.timeout) == (3_000_000, 2.5)
    assert len(control.published) == 1


async def test_what_calls_cost_is_told_in_the_node_s_units_and_changed_row_by_row(
    page: Page, visitor: Visitor, control: SampleControl, view: SampleView
) -> None:
    visitor.expected = ["422"]
    detail = await opened(page, "b")
    unit = detail.locator(".setting", has_text="Quota per day").locator(".unit")
    costs = detail.locator(".group").last
    await expect(unit).to_have_text("calls")
    await expect(costs).to_contain_text("None, and no provider: each call counts as one")
    rows = {"eth_getLogs": 75, "debug_*": 40}
    await changed(control, {"networks": {NETWORK: {"nodes": {"b": {"quota": {"costs": rows}}}}}})
    view.node_list[1] = replace(view.node_list[1], unit="compute units")
    await expect(unit).to_have_text("compute units")
    await expect(costs).to_contain_text("in compute units; a name wins")
    await detail.get_by_label("Calls cost what this provider bills", exact=True).select_option("infura")
    await expect(unit).to_have_text("units")
    await expect(costs).to_contain_text("in units, before the provider's; a name wins")

    await field(costs, "Cost of eth_getLogs").fill("-1")
    row = costs.locator(".setting", has=field(page, "Cost of eth_getLogs"))
    await expect(row.get_by_role("alert")).to_contain_text("at least 0")
    await field(costs, "Cost of eth_getLogs").fill("12.5")
    await costs.get_by_role("button", name="Remove the cost of debug_*").click()
    await costs.get_by_role("button", name="Add a cost").click()
    await field(costs, "Method of a new cost").fill("trace_*")
    await field(costs, "Units of a new cost").fill("3")
    await costs.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator(".bar")).to_contain_text("node b: cost of eth_getLogs 75 → 12.5")
    await apply(page)
    quota = node(control, "b").quota
    assert (quota.provider, quota.costs) == ("infura", {"eth_getLogs": 12.5, "trace_*": 3.0})
    await expect(costs.locator(".setting")).to_have_count(2)


async def test_whom_a_route_tells_a_transaction_is_asked_where_it_takes_some(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    await changed(control, TAGGED, ROUTED)
    page = await visitor.open(admin.address, "settings")
    whom = page.get_by_label("A transaction of route 1 goes to", exact=True)
    await expect(page.get_by_label("Agreeing answers of route 1")).to_have_value("1")
    await expect(whom).to_be_hidden()
    await page.get_by_label("Methods of route 1").fill("eth_sendRawTransaction")
    after = page.get_by_label("Blocks after which a transaction of route 1 goes to others")
    await expect(after).to_be_hidden()
    await whom.select_option("one of them alone")
    await after.fill("25")
    said = "eth_sendRawTransaction to archive, a transaction to one of them alone, and as others are after 25 blocks"
    await expect(page.locator(".bar")).to_contain_text(f"eth_getLogs to archive → {said}")
    await apply(page)
    (route,) = network(control).routes
    assert (route.broadcast, route.fallback) == (False, 25)
    await whom.select_option("all of them")
    await apply(page)
    (route,) = network(control).routes
    assert (route.broadcast, route.fallback) == (True, 0)


async def test_a_route_is_made_to_a_tag_that_is_given_with_it_and_routes_are_changed_put_in_order_and_taken_away(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    visitor.expected = ["422"]
    page = await visitor.open(admin.address, "settings")
    await expect(page.locator("main")).to_contain_text("give a node a tag first")
    await expect(page.get_by_role("button", name="Add a route")).to_be_hidden()
    await page.evaluate("location.hash = '#/nodes'")
    await field(await opened(page, "c"), "Tags").fill("archive")
    await page.evaluate("location.hash = '#/settings'")
    await page.get_by_role("button", name="Add a route").click()
    await page.get_by_label("Methods of a new route").fill("*_getLogs trace_*")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator(".bar")).to_contain_text("routes none → *_getLogs, trace_* to archive")
    await apply(page)
    (route,) = network(control).routes
    assert (route.methods, route.tag, node(control, "c").tags) == (("*_getLogs", "trace_*"), "archive", {"archive"})

    two = [{"methods": [name], "tag": "archive"} for name in ("eth_getLogs", "debug_*")]
    await changed(control, {"networks": {NETWORK: {"routes": two}}})
    second = page.get_by_label("Methods of route 2")
    await second.fill("trace_ü")
    await expect(page.locator(".route", has=second).get_by_role("alert")).to_contain_text("expected a method name")
    await second.fill("trace_*")
    await page.get_by_role("button", name="Try route 2 earlier").click()
    await expect(page.get_by_label("Methods of route 1")).to_have_value("trace_*")
    await apply(page)
    assert [route.methods for route in network(control).routes] == [("trace_*",), ("eth_getLogs",)]
    for left in (1, 0):
        await page.get_by_role("button", name="Remove route 1").click()
        await expect(page.get_by_role("button", name="Remove route")).to_have_count(left)
    await apply(page)
    assert network(control).routes == ()


async def test_a_route_added_while_another_is_added_elsewhere_leaves_both_once(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    await changed(control, TAGGED, ROUTED)
    page = await visitor.open(admin.address, "settings")
    await page.get_by_role("button", name="Add a route").click()
    await page.get_by_label("Methods of a new route").fill("trace_*")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await changed(control, {"workers": 2})  # every part of the settings is read anew, the routes as they were
    await page.wait_for_function(f"{KNOWN}.then((known) => known === {control.ledger.revision})")
    theirs = [{"methods": [name], "tag": "archive"} for name in ("eth_getLogs", "debug_*")]
    await changed(control, {"networks": {NETWORK: {"routes": theirs}}})
    await expect(page.get_by_label("Methods of route 3")).to_have_value("trace_*")
    await apply(page)
    assert [route.methods for route in network(control).routes] == [("eth_getLogs",), ("debug_*",), ("trace_*",)]


async def fill_in(page: Page, name: str) -> None:
    await page.get_by_role("button", name="Add a node").click()
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Address").fill(f"https://{name}.example")


@pytest.mark.smoke
async def test_a_node_is_tested_before_it_is_added_and_one_that_failed_is_added_by_a_second_click_alone(
    page: Page, control: SampleControl
) -> None:
    verdict, found = page.locator("form .said"), dict[str, object]()
    await page.route("**/api/v1/nodes/test", lambda route: route.fulfill(status=200, json=found))
    for name, (answer, said) in zip("efh", FAILED, strict=True):
        found.clear()
        found.update(answer)
        await fill_in(page, name)
        await page.get_by_role("button", name="Add to the pending changes").click()  # nobody asked for a test
        await expect(verdict).to_contain_text(said)
        await expect(page.locator(".bar")).not_to_contain_text(f"node {name}")
        await page.get_by_label("Address").fill("https://g.example")  # another node was not tested yet
        await expect(page.get_by_role("button", name="Add it all the same")).to_be_hidden()
        await page.get_by_role("button", name="Test").click()
        await page.get_by_role("button", name="Add it all the same").click()
        await expect(page.locator(".bar")).to_contain_text(f"node {name}: add https://g.example")

    await page.unroute("**/api/v1/nodes/test")
    await page.get_by_role("button", name="Discard").click()
    await fill_in(page, "d")
    await page.get_by_role("button", name="Test").click()
    await expect(verdict).to_contain_text("It answers and serves the right chain: head 7, level with the network")
    await expect(page.locator(".bar")).to_be_hidden()
    await page.get_by_label("Tier").fill("1")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator(".bar")).to_contain_text("node d: add https://d.example")
    await apply(page)
    assert [one.id for one in network(control).nodes] == ["a", "b", "c", "d"]
    assert (node(control, "d").weight, node(control, "d").tier) == (1, 1)


WRONG = {"answering": True, "chain_ok": False, "head": 9, "chain_id": 1, "latency": 0.02, "lag": None}
FAILED: list[tuple[dict[str, object], str]] = [
    ({**WRONG, "note": "it says chain 1, the others 1666600000"}, "It serves another chain: it says chain 1"),
    ({**WRONG, "answering": False, "head": None, "note": "it serves chain id 1"}, "It serves another chain: it serves"),
    ({**WRONG, "answering": False, "chain_ok": None, "chain_id": None, "note": "no connection"}, "It does not answer"),
]


async def test_a_suspected_node_has_one_state_and_a_row_says_why_a_failing_node_gets_calls_and_when_one_may_be_stopped(
    page: Page, admin: Admin, view: SampleView
) -> None:
    a, b, c = view.node_list
    states = page.get_by_role("region", name="Nodes", exact=True).locator('td[data-title="State"]')
    await expect(states.nth(1)).to_contain_text("serving")
    drained = replace(c, state="drained", why="it takes no new calls", since=60.0)
    failing = replace(b, state="failing", why="no connection; it gets calls until those fail too")
    view.node_list = [replace(a, suspect=True), failing, drained]
    admin.sample()
    await expect(states.nth(0).locator(".state")).to_have_text(["✖suspected"])
    await expect(states.nth(0)).to_contain_text("suspected · serving for")
    await expect(states.nth(1)).to_contain_text("no connection; it gets calls until those fail too")
    await expect(page.locator(".strip .chip")).to_contain_text("3 take calls, 1 failing, 1 suspected")
    await expect(states.nth(2)).to_contain_text("· it may be stopped: this host has no calls in flight")
    detail = await opened(page, "a")
    await expect(detail.locator(":is(.doubt, .reason) .state")).to_have_text(["✖suspected"])
    await expect(detail.locator(".reason")).to_have_text("Apart from that: serving")
    view.tally.node(NETWORK, "c").in_flight = 2
    view.node_list = [a, replace(b, state="serving", why=""), drained]
    view.notices.append(
        Notice("warn", f"{NETWORK}/b", f"node {NETWORK}/b fails eth_call where others answer it", "failing")
    )
    admin.sample()
    await expect(states.nth(2)).not_to_contain_text("may be stopped")
    await expect(states.nth(1).locator(".state")).to_have_text(["▲serving"])
    await expect(states.nth(1)).to_contain_text("· it fails eth_call where others answer it")


async def test_figures_of_nodes_say_how_far_back_they_look_which_is_a_minute_once_that_has_passed(
    visitor: Visitor, start: Start, view: SampleView, control: SampleControl
) -> None:
    admin = await start(view, control, seconds=12, load=0.2)
    page = await visitor.open(admin.address, "nodes")
    head = page.locator(".head", has_text="take calls")
    detail = await opened(page, "a")
    for seconds, said in ((0, "last 12\u202fs"), (60, "last minute")):
        for _ in range(seconds):
            view.advance(1.0, load=0.02)
            admin.sample()
        await expect(head).to_contain_text(f"latency and failures of the {said}")
        for figures in ("Latency", "retried", "Attempts without a result"):
            await expect(detail).to_contain_text(f"{figures}, {said}")
    await page.evaluate("location.hash = '#/overview'")
    await expect(page.locator(".head", has_text="tune them")).to_contain_text("latency and failures of the last minute")


async def test_what_is_pressed_stays_until_it_is_let_go_while_figures_go_on(page: Page, view: SampleView) -> None:
    detail = await opened(page, "a")
    calls = detail.get_by_role("row", name="calls since the start").get_by_role("cell").last
    copies = [await one.element_handle() for one in await detail.locator("button.copies").all()]
    before = await calls.inner_text()
    await calls.hover()
    await page.mouse.down()
    head = page.locator('tr.row td[data-title="Head"]').first
    shown = await head.inner_text()
    view.advance(60.0, load=5)
    await expect(head).not_to_have_text(shown)
    assert await calls.inner_text() == before
    await page.mouse.up()
    view.advance(1.0, load=5)
    await expect(calls).not_to_have_text(before)
    assert all([await copy.evaluate("one => one.isConnected") for copy in copies])
