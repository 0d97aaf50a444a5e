"""The first screen: the big picture above the fold, one span for all charts, one network for all figures; and a client,
opened."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import NODES, SampleControl
from tests.support.sample_view import NETWORK, SampleView

OTHER = "mainnet"
BEGAN = 1_790_000_000.0


@pytest.fixture
def control() -> SampleControl:
    nodes = {"nodes": NODES}
    networks = {NETWORK: {**nodes, "price": 50.0}, OTHER: {"nodes": ["http://10.0.0.9:8545,id=eth"]}}
    return SampleControl(Settings.model_validate({"networks": networks}))


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    view.networks = [NETWORK, OTHER]
    times = {"clock": lambda: 1000.0 + view.elapsed, "wall": lambda: BEGAN + view.elapsed}
    admin = await start(view, control, **times)
    for _ in range(120):
        passed(admin, view)
    return admin


def passed(admin: Admin, view: SampleView, failed: int = 0, by_clients: int = 0) -> None:
    """A second, with a few calls of the other network and some failures."""
    for _ in range(2):
        view.tally.cell(OTHER, "hmyv2_blockNumber", CacheClass.HEAD).done(AnswerSource.MEMORY, 2e-5, 10)
    view.advance(1.0, load=0.02)
    view.fail(failed)
    view.fail(by_clients, by_client=True)
    admin.sample()


def chart(page: Page, label: str) -> Locator:
    return page.locator(f".plot[aria-label='{label}']")


COLOURS = """(plot) => {
    const canvas = plot.querySelector("canvas");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const found = {};
    for (let at = 0; at < pixels.length; at += 4) {
        if (pixels[at + 3] < 20) continue;
        const [red, green, blue] = pixels.slice(at, at + 3);
        const name = blue > red + 60 ? "blue" : red > blue + 60 ? (green > blue + 30 ? "orange" : "red") : "other";
        found[name] = (found[name] ?? 0) + 1;
    }
    return found;
}"""
"""How many pixels of a chart have a hue."""

SHOWN = """() => [...document.querySelectorAll(".first .plot")].map(({ chart }) => {
    const { min, max } = chart.plot.scales.x;
    return [Math.round(min), Math.round(max)];
})"""
"""From when to when each chart of the first screen shows."""


async def test_readings_and_charts_are_above_the_fold_of_a_small_screen(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    for _ in range(20):
        passed(admin, view, failed=3, by_clients=1)
    page = await visitor.open(admin.address, width=1366)
    await resize(page, 1366, 768)
    for label in ("Calls", "Hit ratio", "Latency", "Errors"):
        await expect(chart(page, label).locator("canvas")).to_be_visible()
    boxes = [await one.bounding_box() for one in await page.locator(".first .reading, .first .chart").all()]
    assert len(boxes) == 8
    assert all(box is not None and box["y"] + box["height"] <= 768 for box in boxes)
    await expect(chart(page, "Calls")).to_have_attribute("role", "img")
    calls, latency, errors = [await chart(page, one).evaluate(COLOURS) for one in ("Calls", "Latency", "Errors")]
    assert calls["blue"] > 1000, "hits are an area"
    assert min(calls["orange"], calls["red"]) > 100, "nodes' answers and failures lie on it"
    assert min(latency["blue"], latency["orange"]) > 500, "hits and misses are heat of their own colours"
    assert errors["red"] > 100
    dashed = page.locator(".first figure", has_text="Latency").locator(".dashed").first
    assert "gradient" in await dashed.evaluate("one => getComputedStyle(one).maskImage"), "there are gaps in it"
    await expect(page.locator(".first figure", has_text="Errors").locator(".keys")).to_contain_text("-32603")


async def test_a_drag_over_one_chart_zooms_all_and_there_is_a_way_back(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, width=1220)
    over = chart(page, "Hit ratio").locator(".u-over")
    await expect(over).to_be_visible()
    whole = await page.evaluate(SHOWN)
    box = await over.bounding_box()
    assert box is not None
    back = page.get_by_role("button", name="Back", exact=True)
    for leave in ("button", "double click"):
        async with page.expect_response(re.compile(r"/history\?.*&from=\d+\.\d&to=")) as asked:
            await page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
            await page.mouse.down()
            await page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
            await page.mouse.up()
        document = await (await asked.value).json()
        await expect(back).to_be_visible()
        assert await over.bounding_box() == box, "nothing moved"
        shown = await page.evaluate(SHOWN)
        assert len({tuple(one) for one in shown}) == 1, "all charts show the same"
        length = whole[0][1] - whole[0][0]
        assert shown[0][0] == pytest.approx(whole[0][0] + length / 4, abs=2)
        assert shown[0][1] == pytest.approx(whole[0][0] + length / 2, abs=2)
        assert document["columns"]["at"][-1] <= shown[0][1] + 2
        if leave == "button":
            await back.click()
        else:
            await over.dblclick(position={"x": 100, "y": 60})
        await expect(back).to_be_hidden()
        await page.wait_for_function(f"(whole) => JSON.stringify(({SHOWN})()) === JSON.stringify(whole)", arg=whole)


async def test_nodes_of_one_name_are_told_apart_by_their_network(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    node = view.tally.node(OTHER, "a")
    node.calls += 1
    node.answered(0.1, 100)
    passed(admin, view)
    page = await visitor.open(admin.address, "nodes")
    keys = page.locator("figure", has_text="Calls to each node").locator(".key")
    await expect(keys.filter(has_text=f"{OTHER}/a")).to_have_count(1)
    await expect(keys.filter(has_text=f"{NETWORK}/a")).to_have_count(1)
    await expect(keys.filter(has_text="b")).not_to_contain_text(NETWORK)
    await expect(page.locator("main")).not_to_contain_text("busiest")


async def test_a_node_keeps_its_colour_beside_a_new_one_and_the_legend_has_the_order_of_the_table(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "nodes")
    keys = page.locator("figure", has_text="Calls to each node").locator(".key")
    await expect(keys).to_have_text([re.compile("^a "), re.compile("^b ")])
    colour = await keys.last.locator(".swatch").get_attribute("style")
    view.node_list.insert(1, NodeView(network=NETWORK, id="0", state="serving"))
    view.tally.node(NETWORK, "0").calls += 5
    passed(admin, view)
    await expect(keys).to_have_text([re.compile("^a "), re.compile("^0 "), re.compile("^b ")])
    assert await keys.last.locator(".swatch").get_attribute("style") == colour
    await page.reload()
    await expect(keys).to_have_count(3)
    assert await keys.last.locator(".swatch").get_attribute("style") == colour


async def test_the_range_is_one_for_all_charts_and_is_kept_but_a_network_that_is_gone_is_not_looked_at_any_more(
    visitor: Visitor, admin: Admin
) -> None:
    visitor.expected = ["404"]
    page = await visitor.open(admin.address)
    async with page.expect_response(re.compile(r"/history\?range=7d")):
        await page.get_by_role("button", name="7 days", exact=True).click()
    await page.reload()
    await expect(page.get_by_role("button", name="7 days", exact=True)).to_have_attribute("aria-pressed", "true")
    kept = '{"range": "1h", "network": "gone"}'
    await page.evaluate("(kept) => sessionStorage.setItem('rpcaccel.span', kept)", kept)
    await page.reload()
    await expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_role("button", name="all", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(page.locator("section", has_text="What the cache saved").locator("tr.row")).to_have_count(4)


async def test_what_the_cache_saved_is_told_in_money_and_a_network_by_itself_holds_for_readings_charts_and_tables(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address)
    saved = page.locator("section", has=page.get_by_role("heading", name="What the cache saved"))
    await expect(saved.locator("tr.row")).to_have_count(4)
    await expect(saved.locator("tr.row").nth(3)).to_contain_text(re.compile(r"\d · <?0\.\d+.USD"))
    figure = page.locator(".reading").first.locator(".figure")
    rows = page.locator("table[aria-label=Methods] tr.row, .scroll:has(table) tr.row")
    await expect(figure).not_to_have_text("2.00/s")
    async with page.expect_response(re.compile(rf"/history\?range=5m&network={OTHER}")) as asked:
        await page.get_by_role("button", name=OTHER, exact=True).click()
    document = await (await asked.value).json()
    assert document["columns"]["calls_per_second"][-1] == 2.0
    await expect(figure).to_have_text("2.00/s")
    await expect(
        page.locator("section", has=page.get_by_role("heading", name="Networks")).locator("tr.row")
    ).to_have_count(1)
    await expect(
        page.locator("section", has=page.get_by_role("heading", name="Nodes")).locator("tr.row")
    ).to_have_count(0)
    await expect(rows.filter(has_text="hmyv2_getBlockSigners")).to_have_count(0)
    await page.get_by_role("button", name="all", exact=True).click()
    await expect(rows.filter(has_text="hmyv2_getBlockSigners")).to_have_count(1)


async def test_the_headline_of_errors_is_coloured_by_what_the_service_failed_at_and_few_failures_are_no_alarm(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    """Mistakes of callers colour nothing, a few failures warn, and many are bad."""
    for _ in range(11):
        passed(admin, view, by_clients=40)
    page = await visitor.open(admin.address)
    reading = page.locator(".reading", has=page.get_by_role("heading", name="Errors"))
    coloured = reading.locator(".isbad, .iswarn")
    await expect(reading.locator(".under")).to_have_text(
        re.compile(r"^0 of (\d+|\d\.\d+k) failed in \d+\Ws · (\d+|\d\.\d+k) by callers · \d+ refused$")
    )
    await expect(coloured).to_have_count(0)
    for failed, by_clients, level in ((2, 0, "iswarn"), (40, 8, "isbad")):
        for _ in range(11):
            passed(admin, view, failed=failed, by_clients=by_clients)
        await expect(coloured).to_have_class(level)
        await expect(reading.locator(".under")).to_have_text(
            re.compile(r"^(\d+|\d\.\d+k) of (\d+|\d\.\d+k) failed in \d+\Ws · \d+ by callers · \d+ refused$")
        )
    assert await page.evaluate(
        """import("/src/views/overview.js").then(({ errorLevel }) => [
            errorLevel(0.9, 9), errorLevel(0.62, 62), errorLevel(0.06, 60),
            errorLevel(0.06, 60, { warn: 0.1, bad: 0.5 }), errorLevel(undefined, undefined)])"""
    ) == [None, "isbad", "iswarn", None, None]


async def test_notices_come_by_urgency_and_lead_to_what_they_are_about(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    why = "no connection: it took too long to answer, and then nobody was there at all, however often it was asked"
    failing = NodeView(network=NETWORK, id="a", state="failing", why=why)
    view.node_list = [failing, NodeView(network=NETWORK, id="b", eligible=True)]
    for _ in range(11):
        passed(admin, view, failed=8)
    page = await visitor.open(admin.address, width=900)
    told = page.locator(".first .notices li")
    begins = (f"{OTHER} has no node that can take calls", f"{NETWORK}: ", f"node {NETWORK}/a: no connection")
    for index, words in enumerate(begins):
        await expect(told.nth(index)).to_contain_text(words)
        assert await told.nth(index).evaluate("line => line.offsetHeight") < 40
    await expect(told.nth(2).get_by_role("link")).to_have_attribute("title", re.compile(f"{why}$"))
    await told.nth(1).get_by_role("link").click()
    await expect(page.get_by_role("button", name="failed", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_label("network", exact=True)).to_have_value(NETWORK)
    await page.go_back()
    await told.nth(2).get_by_role("link").click()
    await expect(page.get_by_role("button", name="a", exact=True)).to_have_attribute("aria-expanded", "true")
    await expect(page.locator("tr.detail:visible .reason")).to_contain_text(why)


async def test_a_client_opened_tells_its_methods_its_latency_and_what_was_refused_or_that_no_past_is_kept(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    visitor.expected = ["404"]
    view.tally.client("dapp").refused("rate")
    view.tally.client("dapp").answered("hmyv2_call", AnswerSource.NODE, 0.2, "service")
    passed(admin, view)
    page = await visitor.open(admin.address, "clients")
    await page.get_by_role("button", name="dapp", exact=True).click()
    detail = page.locator("tr.detail:visible")
    await expect(detail.locator("tr.row", has_text="hmyv2_call")).to_contain_text("1")
    await expect(detail.locator(".facts")).to_contain_text("rate limit")
    await expect(detail).to_contain_text("Refused since the start")
    await expect(detail.get_by_role("heading", name="Methods, since the start")).to_be_visible()
    await expect(page.get_by_role("button", name="Failed since the start")).to_be_visible()
    listed = page.get_by_role("region", name="Clients")
    await expect(listed.locator("td.right .isbad")).to_have_count(0)  # not red for ever
    for label in ("Calls", "Latency", "Refused"):
        await expect(chart(page, label).locator("canvas")).to_be_visible()
    async with page.expect_response(re.compile(r"/clients/dapp\?range=24h")):
        await detail.get_by_role("button", name="24 h", exact=True).click()
    await expect(detail).to_contain_text("Last day")

    none = {"title": "none", "status": 404}
    await page.route("**/api/v1/clients/dapp*", lambda route: route.fulfill(status=404, json=none))
    await page.evaluate("location.hash = '#/overview'")
    await expect(listed).to_have_count(0)
    await page.evaluate("location.hash = '#/clients'")
    await page.get_by_role("button", name="dapp", exact=True).click()
    await expect(detail).to_contain_text("keeps no past")
