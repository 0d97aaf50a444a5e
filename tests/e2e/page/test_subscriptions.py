"""Subscriptions on the page: figures where somebody subscribes, no room where nobody does, and nodes that push."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import NODES, SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

OTHER = "mainnet"
BEGAN = 1_790_000_000.0


@pytest.fixture
def control() -> SampleControl:
    return SampleControl(sample_settings(networks={NETWORK: {"nodes": NODES}, OTHER: {"nodes": ["http://10.0.0.9"]}}))


@shared
async def admin(view: SampleView, control: SampleControl) -> AsyncIterator[Admin]:
    times = {"clock": lambda: 1000.0 + view.elapsed, "wall": lambda: BEGAN + view.elapsed}
    admin = Admin(view, "127.0.0.1:0", control=control, interval=3600, **times)
    await admin.start()
    for _ in range(30):
        view.advance(1.0, load=0.02)
        admin.sample()
    yield admin
    await admin.close()


def live(page: Page) -> Locator:
    """The section, seen or not."""
    return page.locator("section", has=page.locator("h2", has_text="Subscriptions"))


async def test_subscriptions_are_shown_with_their_lateness_and_what_was_done_for_them(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address)
    row = live(page).locator("tr.row")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("newHeads 120 · logs 40 · newPendingTransactions 2")
    await expect(row.locator("td[data-title='Notifications']")).to_have_text("192/s")
    await expect(row.locator("td[data-title='Lateness p50 / p99']")).to_have_text(
        re.compile(r"^[\d.]+\sms / [\d.]+\sms$")
    )
    await expect(live(page).locator(".head")).to_contain_text("134 WebSockets · lateness over the last")
    await expect(live(page).locator(".told")).to_contain_text("subscriptions resumed at an older block17")
    await expect(live(page).locator(".told")).to_contain_text("slow: left more unread than it may")
    await expect(live(page).locator("figure .keys")).to_have_text("192/s")


async def test_bursts_are_drawn_as_the_mean_that_the_table_tells(
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


async def test_subscribers_that_all_left_are_told_of_in_words(visitor: Visitor, admin: Admin, view: SampleView) -> None:
    cell = view.tally.network(NETWORK)
    cell.subscriptions, cell.cut = {}, {"slow": 2}
    view.tally.websockets = 0
    admin.sample()
    page = await visitor.open(admin.address)
    await expect(live(page).locator(".head")).to_have_text("Subscriptions0 WebSockets · nobody subscribes now")
    await expect(live(page).locator(".told")).to_contain_text("slow: left more unread than it may2")
    await expect(live(page).locator(".told .bars")).to_have_count(0)


async def test_the_network_that_is_looked_at_is_shown_alone(visitor: Visitor, admin: Admin, view: SampleView) -> None:
    view.networks = [NETWORK, OTHER]
    cell = view.tally.network(OTHER)
    cell.subscriptions, cell.resumed, cell.cut = {"logs": 5}, 4, {"late": 1, "unheard of": 1}
    admin.sample()
    page = await visitor.open(admin.address)
    await expect(live(page).locator("tr.row")).to_have_count(2)
    await expect(live(page).locator(".told")).to_contain_text("resumed at an older block21")
    await page.get_by_role("button", name=OTHER, exact=True).click()
    await expect(live(page).locator("tr.row")).to_have_count(1)
    await expect(live(page).locator(".told")).to_contain_text("resumed at an older block4")
    await expect(live(page).locator(".told")).to_contain_text("late: the logs of a block could not be had")
    await expect(live(page).locator(".told")).to_contain_text("unheard of")


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


@pytest.mark.parametrize("width", [390, 1366])
async def test_a_node_that_pushes_is_marked_without_a_higher_row(visitor: Visitor, admin: Admin, width: int) -> None:
    page = await visitor.open(admin.address, "nodes", width=width)
    rows = page.locator("tr.row")
    mark = page.get_by_role("img", name="pushes")
    await expect(mark).to_have_count(1)
    await expect(rows.nth(0).locator(".pushes title")).to_have_text("It tells its new heads over a WebSocket.")
    heights = [await rows.nth(row).evaluate("row => row.offsetHeight") for row in (0, 1)]
    assert heights[0] == heights[1]
    for name, told in (("a", "told over a WebSocket"), ("b", "asked for")):
        await rows.get_by_role("button", name=name, exact=True).click()
        facts = page.locator("tr.detail:visible .facts", has_text="new heads").last
        await expect(facts).to_contain_text(f"new heads{told}")


async def test_the_settings_of_websockets_stand_together_under_plain_names(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "settings")
    group = page.locator(".group", has=page.get_by_role("heading", name="WebSockets"))
    await expect(group.locator(".setting")).to_have_count(9)
    labels = await group.locator(".setting > label").all_inner_texts()
    assert labels[0] == "Clients may open WebSockets"
    assert not any("·" in label for label in labels), labels
    await expect(group.get_by_label("Unread by a client, at most", exact=True)).to_have_value("4 MiB")
