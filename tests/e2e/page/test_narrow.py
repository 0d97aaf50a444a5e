"""The page where there is little room, or much to show in it: what matters stays in sight, and nothing ends unsaid."""

import re

import pytest
from playwright.async_api import expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from tests.e2e.page.tuning import TOP
from tests.support.browser import VIEWS, Visitor, resize
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView

LONG = "archive-node-of-the-second-provider.eu-central-1.example.org"


@pytest.mark.smoke
async def test_what_can_be_done_to_a_node_is_in_sight_and_a_long_name_fits_a_phone(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    view.node_list[2] = NodeView(
        network=NETWORK, id=LONG, eligible=False, state="failing", why="no connection: it took too long to answer"
    )
    page = await visitor.open(admin.address, "nodes")
    name = page.get_by_role("button", name=LONG, exact=True)
    for width in (1440, 1024, 800):
        await resize(page, width)
        await expect(page.get_by_role("button", name="Actions for node a", exact=True)).to_be_in_viewport(ratio=1)
        await expect(name).to_be_in_viewport()
        await page.locator(".scroll").first.evaluate("frame => frame.scrollTo(1000, 0)")
        await expect(name).to_be_in_viewport()
        await page.locator(".scroll").first.evaluate("frame => frame.scrollTo(0, 0)")
    view.node_list = [NodeView(network=NETWORK, id=LONG, state="serving")]
    await resize(page, 390)
    await expect(page.get_by_role("button", name="Actions for node a", exact=True)).to_have_count(0)
    await expect(name).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_a_table_that_goes_on_says_so_until_its_end_is_seen_and_its_head_stays(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, "cache", width=800)
    table = page.get_by_role("region", name="Cache tiers")
    torn = "frame => getComputedStyle(frame).maskImage !== 'none'"
    name = table.get_by_role("cell", name="memory", exact=True)
    await expect(table).to_have_class(re.compile("more"))
    assert await table.evaluate(torn)
    await table.evaluate("frame => frame.scrollTo(5000, 0)")
    await expect(table).not_to_have_class(re.compile("more"))
    assert not await table.evaluate(torn)
    await expect(name).to_be_in_viewport(ratio=1)

    await resize(page, 800, 140)
    await table.evaluate("frame => { frame.scrollIntoView(); frame.scrollTo(200, 1000); }")
    assert await table.evaluate("frame => frame.scrollTop") > 0
    assert await table.locator("thead th").first.evaluate(TOP) - float(await table.evaluate(TOP)) < 3


async def test_columns_without_room_are_told_in_the_opened_row(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "methods", width=1366)
    table = page.get_by_role("region", name="Methods")
    rest = table.locator("tr.detail:visible .rest")
    await table.get_by_role("button", name="hmyv2_getBlocks", exact=True).click()
    for width in (1366, 800, 390):
        await resize(page, width)
        if width == 1366:
            await expect(table.locator(".left")).to_be_hidden()
        else:
            await expect(table.locator(".left")).to_contain_text("No room here for")
            await expect(table.get_by_role("columnheader", name="Class")).to_be_hidden()
            await expect(rest).to_contain_text("Class by-number")
        await expect(table).to_have_class(re.compile("fits"))
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await resize(page, 1600, 900)
    await expect(table.get_by_role("columnheader", name="Class")).to_be_visible()
    await expect(rest).to_be_hidden()


async def test_without_calls_the_cache_says_how_to_fill_it(visitor: Visitor) -> None:
    admin = Admin(SampleView(), "127.0.0.1:0", control=SampleControl(), interval=3600)
    await admin.start()
    page = await visitor.open(admin.address, "cache")
    await expect(page.locator("main")).to_contain_text("No call has come in yet")
    await page.close()
    await admin.close()


async def test_on_a_phone_every_view_is_two_presses_away_and_every_field_of_a_form_is_there(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, width=390)
    more = page.get_by_role("button", name="More")
    await expect(page.locator(".reading").first).to_be_visible()
    assert await page.evaluate(PLACE_OF_HEAD, 0) == await page.evaluate(PLACE_OF_HEAD, 14), "a lag moves nothing"
    for view in VIEWS:
        link = page.locator(f".rail a[data-view={view}]")
        if not await link.is_visible():
            await more.click()
            await expect(more).to_have_attribute("aria-expanded", "true")
        await expect(link).to_be_in_viewport(ratio=1)
        await link.click()
        await expect(page.locator("main h1")).to_have_text(view.capitalize())
        await expect(more).to_have_attribute("aria-expanded", "false")
    await more.click()
    await page.keyboard.press("Escape")
    await expect(more).to_have_attribute("aria-expanded", "false")

    await page.evaluate("location.hash = '#/nodes'")
    await page.get_by_role("button", name="Add a node").click()
    await expect(page.get_by_label("Address")).to_be_visible()
    await page.evaluate("location.hash = '#/cache'")
    await page.get_by_role("button", name="a key", exact=True).click()
    await expect(page.get_by_label("Key", exact=True)).to_be_visible()
    await page.evaluate("location.hash = '#/errors'")
    await page.get_by_role("button", name="is on holiday").click()
    await expect(page.get_by_label("The message contains")).to_be_visible()


PLACE_OF_HEAD = """async (lag) => {
    const { nodeTable } = await import("/src/views/node_table.js");
    const table = nodeTable(false);
    const figures = { weight: 1, failures: {}, share_got: 0.5, share_wanted: 0.5, calls_per_second: 1, in_flight: 0 };
    document.querySelector("main").prepend(table.element);
    table.update([{ network: "s0", id: "a", state: "serving", why: "", since: 1, head: 61204811, lag, ...figures }]);
    const { width, height } = table.element.querySelector("tr.row > td:nth-child(3)").getBoundingClientRect();
    table.gone();
    table.element.remove();
    return [width, height];
}"""
"""How wide and high the head of a node is shown that lags by so many blocks."""
