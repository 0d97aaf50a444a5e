"""Subscriptions on the page: figures where somebody subscribes, no room where nobody does, and nodes that push."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import NODES, SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

OTHER = "mainnet"
BEGAN = 1_790_000_000.0


@pytest.fixture
def control() -> SampleControl:
    return SampleControl(sample_settings(networks={NETWORK: {"nodes": NODES}, OTHER: {"nodes": ["http://10.0.0.9"]}}))


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    times = {"clock": lambda: 1000.0 + view.elapsed, "wall": lambda: BEGAN + view.elapsed}
    return await start(view, control, seconds=30, **times)


def live(page: Page) -> Locator:
    """The section, seen or not."""
    return page.locator("section", has=page.locator("h2", has_text="Subscriptions"))


async def test_subscriptions_are_shown_with_their_lateness_what_was_done_for_them_and_those_of_one_network_alone(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address)
    rows, told = live(page).locator("tr.row"), live(page).locator(".told")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("newHeads 120 · logs 40 · newPendingTransactions 2")
    await expect(rows.locator("td[data-title='Notifications']")).to_have_text("192/s")
    await expect(rows.locator("td[data-title='Lateness p50 / p99']")).to_have_text(
        re.compile(r"^[\d.]+\sms / [\d.]+\sms$")
    )
    await expect(live(page).locator(".head")).to_contain_text("134 WebSockets · lateness over the last")
    await expect(told).to_contain_text("subscriptions resumed at an older block17")
    await expect(told).to_contain_text("slow: left more unread than it may")
    await expect(live(page).locator("figure .keys")).to_have_text("192/s")

    view.networks = [NETWORK, OTHER]
    cell = view.tally.network(OTHER)
    cell.subscriptions, cell.resumed, cell.cut = {"logs": 5}, 4, {"late": 1, "unheard of": 1}
    admin.sample()
    await expect(rows).to_have_count(2)
    await expect(told).to_contain_text("resumed at an older block21")
    await page.get_by_role("button", name=OTHER, exact=True).click()
    await expect(rows).to_have_count(1)
    await expect(told).to_contain_text("resumed at an older block4")
    await expect(told).to_contain_text("late: the logs of a block could not be had")
    await expect(told).to_contain_text("unheard of")


async def test_bursts_are_drawn_as_the_mean_that_the_table_tells_and_subscribers_that_all_left_are_told_of_in_words(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    """Blocks come every other second, and with each of them a burst."""
    cell = view.tally.network(NETWORK)
    for second in range(30):
        sent = cell.delivered["newHeads"]
        view.advance(1.0, load=0.02)
        cell.delivered["newHeads"] = sent + (400 if second % 2 else 0)
        admin.sample()
    page = await visitor.open(admin.address)
    shown = await live(page).locator("tr.row td[data-title='Notifications']").inner_text()
    await expect(live(page).locator("figure .keys")).to_have_text(shown)
    assert not shown.startswith("0")

    cell.subscriptions, cell.cut = {}, {"slow": 2}
    view.tally.websockets = 0
    admin.sample()
    await expect(live(page).locator(".head")).to_have_text("Subscriptions0 WebSockets · nobody subscribes now")
    await expect(live(page).locator(".told")).to_contain_text("slow: left more unread than it may2")
    await expect(live(page).locator(".told .bars")).to_have_count(0)


@pytest.mark.parametrize("view", [SampleView(subscribers=0)])
async def test_where_nobody_subscribes_there_is_no_section_and_with_websockets_a_line(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address)
    await expect(page.get_by_role("heading", name="Busiest methods")).to_be_visible()
    await expect(live(page)).to_be_hidden()
    view.tally.websockets = 3
    view.advance(1.0, load=0.02)
    admin.sample()
    await expect(live(page).locator(".head")).to_have_text("Subscriptions3 WebSockets · nobody subscribes")
    await expect(live(page).get_by_role("region")).to_be_hidden()
    height = await live(page).evaluate("section => section.offsetHeight")
    assert height < 60


async def test_a_node_that_pushes_is_marked_without_a_higher_row(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "nodes")
    rows = page.locator("tr.row")
    mark = page.get_by_role("img", name="pushes")
    await expect(mark).to_have_count(1)
    await expect(rows.nth(0).locator(".pushes title")).to_have_text("It tells its new heads over a WebSocket.")
    for width in (390, 1366):
        await resize(page, width)
        await expect(mark).to_be_visible()
        heights = [await rows.nth(row).evaluate("row => row.offsetHeight") for row in (0, 1)]
        assert heights[0] == heights[1], width
    for name, told in (("a", "told over a WebSocket"), ("b", "asked for")):
        await rows.get_by_role("button", name=name, exact=True).click()
        facts = page.locator("tr.detail:visible .facts", has_text="new heads").last
        await expect(facts).to_contain_text(f"new heads{told}")
