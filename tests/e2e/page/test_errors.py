"""The view Errors: who got which errors, over time and by cause, with samples; what no rule knows or names."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core import client_limits
from rpcaccel.core.stats.error_log import ErrorNews, UnknownMethod
from tests.support.browser import Visitor, resize
from tests.support.fixtures import shared
from tests.support.fleet import Fleet
from tests.support.sample_control import SampleControl
from tests.support.sample_errors import INVENTED, LIMITED, TIMEOUT, sample_of, seen_of
from tests.support.sample_view import SampleView

KEY = client_limits.make(b"s" * 32)
BLOCK = "hmyv2_getBlockByNumber"


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "errors")


def groups(page: Page) -> Locator:
    return page.get_by_role("region", name="Errors that clients got").locator("tr.row")


async def test_errors_are_told_apart_by_whose_doing_they_are_and_a_group_opens_to_whose_call_it_was(
    page: Page, control: SampleControl
) -> None:
    many = seen_of(LIMITED._replace(method="hmyv2_getLogs"), 900, nodes={}, samples=[])
    await expect(groups(page)).to_have_count(3)
    control.errors.take(ErrorNews((many,)), asyncio.get_running_loop().time())
    await expect(groups(page)).to_have_count(4)
    for index, words in enumerate(("failed", "by callers", "hmyv2_getLogs", "hmyv2_call")):  # however many were refused
        await expect(groups(page).nth(index)).to_contain_text(words)
    await expect(page.locator("main")).to_contain_text("in the last hour: 40 failed · 7 by callers · 903 refused")
    control.errors.began = time.time() - 90
    await expect(page.locator("main")).to_contain_text(re.compile("since the start, .+ ago: 40 failed"))
    await page.get_by_role("button", name="failed", exact=True).click()
    await expect(groups(page)).to_have_count(1)
    await expect(groups(page)).to_contain_text("no answer within # s")

    await groups(page).get_by_role("button", name=TIMEOUT.method).click()
    sample = page.locator(".samples > li")
    await expect(sample).to_contain_text("client shop (10.0.0.9)")
    await expect(sample).to_contain_text("request abc-1")
    await expect(sample.locator(".params")).to_have_text('[26,{"a":1}]')
    await expect(sample.locator(".attempts tbody tr")).to_contain_text("no answer within 10 s")
    await expect(sample).to_contain_text("Asked no further: the budget for retries was used up.")
    await groups(page).get_by_role("button", name=TIMEOUT.method).click()

    await page.get_by_role("button", name="refused", exact=True).click()
    await expect(groups(page).first).to_contain_text("too many calls")
    await page.get_by_role("button", name="all", exact=True).click()
    await page.get_by_label("client", exact=True).select_option("shop")
    await expect(groups(page)).to_have_count(3)
    await page.get_by_label("client", exact=True).select_option("all")
    await page.get_by_label("Filter errors by name").fill("nope")
    await expect(groups(page).locator("visible=true")).to_have_count(1)


async def test_what_a_client_sent_is_text_and_nothing_else_and_long_names_push_no_column_out_of_sight(
    page: Page, control: SampleControl
) -> None:
    evil = '<img src=x onerror="document.title=1">'
    key = TIMEOUT._replace(method=evil, text=evil)
    sample = sample_of(params=evil, message=evil, request=evil)
    control.errors.take(ErrorNews((seen_of(key, 99, samples=[sample]),)), asyncio.get_running_loop().time())
    await groups(page).get_by_role("button", name="<img").click()
    await expect(page.locator(".samples .params")).to_have_text(evil)
    assert await page.locator("main img").count() == 0
    await groups(page).get_by_role("button", name="<img").click()

    key = TIMEOUT._replace(method="x" * 64)
    control.errors.take(ErrorNews((seen_of(key, 98, nodes={"n" * 64: 98}),)), asyncio.get_running_loop().time())
    await resize(page, 1366)
    row = groups(page).filter(has_text="x" * 64)
    await expect(row.locator(".method")).to_have_attribute("title", "x" * 64)
    for cell in ("n" * 64, "shop"):
        await expect(row.get_by_title(cell)).to_be_in_viewport(ratio=1)
    await resize(page, 390, 844)
    await row.scroll_into_view_if_needed()
    for words in ("no answer within # s", "-32000", "98"):
        await expect(row.get_by_text(words).last).to_be_in_viewport(ratio=1)


async def test_errors_are_drawn_over_time_by_code_and_connections_nobody_read_are_told_apart_from_refusals(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    view.tally.refused("slow-subscriber")
    view.tally.refused("malformed")
    view.advance(1.0)
    admin.sample()
    page = await visitor.open(admin.address, "errors")
    closed, refused = (
        page.locator("div", has=page.get_by_role("heading", name=name, exact=True)).last
        for name in ("Connections closed because nobody read", "Refused before they were a call")
    )
    await expect(closed).to_contain_text("a subscriber that did not read1")
    await expect(refused).to_contain_text("no JSON-RPC call")
    await expect(refused).not_to_contain_text("did not read")

    chart = page.locator(".error-chart")
    await expect(chart.locator(".key")).to_have_count(3)
    await expect(chart.get_by_role("img")).to_have_attribute("aria-label", "Errors over time: 40 of code -32000, "
                                                             "3 of code -32005, 7 of code -32601")  # fmt: skip
    await page.get_by_role("button", name="5 min", exact=True).click()
    await expect(page.locator("main")).to_contain_text("in the last 5 min: 40 failed")
    colour = chart.locator(".key", has_text="-32601").locator(".swatch")
    before = await colour.get_attribute("style")
    await page.get_by_role("button", name="by callers", exact=True).click()
    await expect(chart.locator(".key")).to_have_count(1)
    assert await colour.get_attribute("style") == before == "--colour: var(--s3);", "a code keeps its colour"


async def test_a_method_without_a_rule_is_refused_by_name_and_one_with_errors_leads_to_their_samples(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    odd = UnknownMethod(INVENTED.network, "odd *name", 3, 3, 1.0)
    control.errors.take(ErrorNews((), (odd,)), 0.0)
    key = TIMEOUT._replace(method="hmyv2_call")
    control.errors.take(ErrorNews((seen_of(key, 5),)), asyncio.get_running_loop().time())
    page = await visitor.open(admin.address, "errors")
    rows = page.get_by_role("region", name="Methods no rule names").locator("tr.row")
    await expect(rows.filter(has_text="odd *name")).to_contain_text("no name that a rule can have")
    await page.get_by_role("button", name="Refuse it: hmyv2_nope").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("evision 2")
    assert control.ledger.settings.http.deny == ("hmyv2_nope",)
    await expect(rows.filter(has_text="hmyv2_nope")).to_contain_text("refused")

    await page.get_by_role("button", name="refused", exact=True).click()
    await page.get_by_label("node", exact=True).select_option("a")
    await page.get_by_label("Filter errors by name").fill("nope")
    await page.evaluate("location.hash = '#/methods'")
    await page.get_by_role("button", name="hmyv2_call", exact=True).click()
    await expect(page.locator(".method-errors")).to_contain_text("5 times -32000: no answer within # s")
    await page.get_by_role("link", name="Samples of them").click()
    await expect(page.get_by_label("method", exact=True)).to_have_value("hmyv2_call")
    await expect(page.get_by_role("button", name="all", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(groups(page)).to_have_count(2)  # that node did not answer, and its limit


# -- over the real program ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def calls_of_a_shop(fleet: Fleet) -> AsyncIterator[None]:
    """Calls of one client for blocks that nobody has kept, without pause."""
    stop, numbers = asyncio.Event(), count(1)

    async def client() -> None:
        while not stop.is_set():
            await fleet.proxy.call(BLOCK, next(numbers), {}, path=f"/key/{KEY}")
            await asyncio.sleep(0.02)  # a steady pace: the page and the program need the processor as well

    async with asyncio.TaskGroup() as group:
        group.create_task(client())
        try:
            yield
        finally:
            stop.set()


async def test_with_three_calls_in_ten_failing_the_page_says_who_and_what(visitor: Visitor, fleet: Fleet) -> None:
    keys = {"shop": {"hashes": [client_limits.hashed(KEY)]}}
    await fleet.proxy.changed({"clients": {"keys": keys}, "networks": {"harmony-s0": {"attempts": 1}}})
    bad = fleet.nodes[2]
    bad.knobs.turn({"faults": {"error": 0.9}, "error_text": "leveldb: closed", "fault_methods": [BLOCK]})
    async with calls_of_a_shop(fleet):
        page = await visitor.open(fleet.proxy.admin.removeprefix("http://"))
        notice = page.locator(".notices li", has_text="of the calls failed")
        await expect(notice.first).to_contain_text(f"most from node {bad.name}")
        await expect(notice.first).to_contain_text(f"method {BLOCK}, client shop")
        await page.evaluate("location.hash = '#/errors'")
        row = groups(page).filter(has_text="leveldb: closed")
        await expect(row).to_contain_text("failed")
        await expect(row).to_contain_text(bad.name)
        await expect(row).to_contain_text("shop")
        await row.get_by_role("button").click()
        sample = page.locator(".samples > li").first
        await expect(sample).to_contain_text("client shop")
        await expect(sample.locator(".attempts tbody tr")).to_contain_text("leveldb: closed")
