"""The page in a real browser over the real admin side, with made-up figures: what is normal, what is not, a crowd."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rpcaccel import balancers
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.failure import FailureKind
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView

TOLD = {
    "overview": "Node calls saved",
    "methods": "hmyv2_getBlocks",
    "nodes": "14 blocks behind",
    "cache": "by-number",
    "explain": "Explain a call",
    "errors": "is on holiday",
    "changes": "Settings in force",
    "clients": "No API key is in use",
}
"""A word of each view."""

FORMATS = {
    "joined(duration(0.0124))": "12.4\u202fms",
    "joined(duration(0.00003))": "30.0\u202fµs",
    "joined(duration(null))": "–",
    "joined(rate(1843))": "1.84k/s",
    "joined(rate(999.6))": "1.00k/s",
    "joined(rate(0))": "0/s",
    "joined(percent(0.973))": "97.3\u202f%",
    "joined(percent(0.99999))": ">99.9\u202f%",
    "joined(percent(1))": "100\u202f%",
    "joined(percent(null))": "–",
    "joined(count(12400))": "12.4k",
    "joined(bytes(1.2e9))": "1.20\u202fGB",
    "span(1.23)": "1.2\u202fs",
    "span(250)": "4\u202fmin 10\u202fs",
    "span(7500)": "2\u202fh 5\u202fmin",
    "span(null)": "–",
    "block(61204811)": "61\u202f204\u202f811",
    "block(null)": "–",
    "joined(duration(9.996))": "10.0\u202fs",
    "joined(duration(0.09996))": "100\u202fms",
    "joined(duration(-0.5))": "-500\u202fms",
    "joined(duration(-0.0000001))": "-0.10\u202fµs",
    "joined(duration(0))": "0\u202fµs",
    "joined(rate(2.5e9))": "2.50G/s",
    "joined(count(99.96))": "100",
    "joined(count(-3))": "-3",
    "joined(count(4e15))": "4000T",
    "joined(percent(0.09997))": "10.0\u202f%",
    "joined(percent(1.5))": "150\u202f%",
    "joined(percent(0.000001))": "<0.001\u202f%",
    "joined(bytes(3e15))": "3.00\u202fPB",
    "span(-3)": "0.0\u202fs",
    "span(59.7)": "1\u202fmin",
}


@shared
async def resting(start: Start, view: SampleView, control: SampleControl) -> Admin:
    """Before the first call."""
    return await start(view, control, clock=time.monotonic)


@shared
async def page(visitor: Visitor, resting: Admin) -> Page:
    """A page that has been opened; the test fails when anything was said on the browser's console."""
    return await visitor.open(resting.address)


def passed(admin: Admin, view: SampleView) -> None:
    view.advance(1.0, load=0.3)
    admin.sample()


@pytest.mark.smoke
async def test_every_view_shows_the_figures_a_row_opens_by_keyboard_and_the_slash_finds_the_filter(
    page: Page, resting: Admin, view: SampleView
) -> None:
    passed(resting, view)
    for name, shown in TOLD.items():
        await page.evaluate(f"location.hash = '#/{name}'")
        await expect(page.locator("main")).to_contain_text(shown)
    await expect(page.locator("#networks")).to_contain_text("2 of 3 nodes")
    await page.click(".rail a[data-view=methods]")
    opener = page.get_by_role("button", name="hmyv2_call", exact=True)
    await opener.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("tr.detail:visible")).to_contain_text("new head")
    await page.keyboard.press("/")
    await page.keyboard.type("signers")
    await expect(page.locator("tr.row")).to_have_count(1)
    await expect(page.locator("tr.row")).to_contain_text("hmyv2_getBlockSigners")


async def test_before_the_first_call_there_are_dashes_and_a_command_and_held_figures_stay_until_they_may_go_on(
    page: Page, resting: Admin, view: SampleView
) -> None:
    await expect(page.locator("main")).to_contain_text("No call has come in yet")
    await expect(page.locator("main code")).to_contain_text("hmyv2_blockNumber")
    await expect(page.locator(".reading").nth(1).locator(".figure")).to_have_text("–")
    await expect(page.locator("main")).to_contain_text("attention")
    await page.click("#live")
    passed(resting, view)
    await asyncio.sleep(1.2)  # a round that must not happen has no sign to wait for
    await expect(page.locator("main")).to_contain_text("No call has come in yet")
    await page.click("#live")
    await expect(page.locator("main")).to_contain_text("hmyv2_getBlocks")


async def test_the_page_says_that_it_lost_the_server_and_comes_back_by_itself(page: Page, visitor: Visitor) -> None:
    visitor.expected = ["ERR_FAILED"]
    await expect(page.locator("main")).to_contain_text("attention")
    await page.route("**/api/**", lambda route: route.abort())
    await expect(page.locator("#lost")).to_contain_text("No answer from")
    await page.unroute("**/api/**")
    await expect(page.locator("#lost")).to_be_hidden()


async def test_figures_have_three_digits_and_a_unit_times_the_viewers_zone_and_failures_a_sentence(page: Page) -> None:
    calls: dict[str, Any] = {}
    for text in FORMATS:
        outer, _, inner = text.partition("(")
        calls[text] = await page.evaluate(
            """async ([outer, inner]) => {
                const format = await import("/src/format.js");
                const parts = inner.replaceAll(")", "").split("(");
                const value = JSON.parse(parts.at(-1));
                return parts.length === 2 ? format[outer](format[parts[0]](value)) : format[outer](value);
            }""",
            [outer, inner],
        )
    assert calls == FORMATS
    session = await page.context.new_cdp_session(page)
    for zone, shown in (("Asia/Tokyo", "09:00:00"), ("America/New_York", "19:00:00")):
        await session.send("Emulation.setTimezoneOverride", {"timezoneId": zone})
        # The module asks for the zone as it is loaded, and under another address it is loaded anew.
        clock = "(zone) => import(`/src/format.js?${zone}`).then(({ clock }) => clock(0))"
        assert await page.evaluate(clock, zone) == shown
    await session.detach()
    found = await page.evaluate(
        """async (kinds) => {
            const { failures } = await import("/src/parts.js");
            const said = (kind) => failures({ [kind]: 1 }).querySelector("td").textContent;
            return kinds.filter((kind) => said(kind) === kind);
        }""",
        [str(kind) for kind in FailureKind],
    )
    assert found == []


async def test_a_node_without_the_newest_block_is_well_a_chain_has_no_shard_and_a_share_says_what_is_aimed_at(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    """A lag of a moment is no trouble, a network without shards names none, and `~` marks a share not aimed at."""
    view.node_list[2] = replace(view.node_list[2], eligible=True, state="serving", why="")
    view.lags = {"b": 1}
    page = await visitor.open(admin.address)
    await expect(page.locator("#networks .chip")).to_contain_text("3 of 3 nodes")
    nodes = page.get_by_role("region", name="Nodes", exact=True)
    lag = nodes.locator("tr", has_text="serving").nth(1).locator(".lag")
    await expect(lag).to_have_text("−1")
    await expect(lag).to_have_class("lag quiet")
    view.node_list[1] = replace(view.node_list[1], eligible=False, state="behind", why="it is 1 block behind")
    await expect(nodes.locator("tr", has_text="it is 1 block behind").locator(".lag")).to_have_class("lag iswarn")
    await expect(page.locator("#networks .chip")).to_contain_text("2 of 3 nodes")

    networks = page.get_by_role("region", name="Networks", exact=True)
    await expect(networks).to_contain_text("harmony, shard 0")
    view.chain, view.shard = "ethereum", None
    await expect(networks).to_contain_text("ethereum")
    await expect(networks).not_to_contain_text("shard")

    aim = balancers.aim("peak_ewma")
    view.node_list = [replace(node, share_aim=aim) for node in SampleView().node_list]
    await expect(nodes.get_by_title(f"The balancer aims at {aim}.").first).to_contain_text("/ ~71")
    await page.evaluate("location.hash = '#/nodes'")
    await expect(page.locator("main")).to_contain_text("5 of 6 → ~83")


async def test_a_redis_that_is_not_reached_says_why_and_what_it_removed_by_itself_is_not_known(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    redis = view.tally.tier("redis", shared=True)
    redis.up, redis.fault, redis.purged = False, "10.0.0.9:6379: it asks for a password", 7
    page = await visitor.open(admin.address, "cache")
    row = page.get_by_role("region", name="Cache tiers").locator("tr", has_text="Redis")
    await expect(row).to_contain_text("it asks for a password")
    cells = await row.locator("td, th").all_inner_texts()
    assert [cells[index].strip() for index in (11, 12, 13)] == ["–", "–", "7"]
    await page.evaluate("location.hash = '#/overview'")
    await expect(page.locator("main")).to_contain_text("redis is not reached (10.0.0.9:6379: it asks for a password)")


@shared
async def crowd(start: Start, view: SampleView, control: SampleControl) -> Admin:
    """Fifty nodes and three hundred methods."""
    view.crowd(nodes=50, methods=300)
    return await start(view, control)


async def test_of_three_hundred_rows_only_what_changed_is_drawn_again_far_ones_when_they_come_near_below_their_header(
    visitor: Visitor, crowd: Admin, view: SampleView
) -> None:
    for _ in range(80):
        crowd.sample()  # a minute without calls: every figure rests
    page = await visitor.open(crowd.address, "methods")
    rows = page.locator("tr.row")
    await expect(rows).to_have_count(300)
    await page.evaluate(WATCH_ROWS)
    cell = view.tally.cell(NETWORK, "hmyv2_method7", CacheClass.HEAD)
    for _ in range(4):
        cell.errors += 1
        crowd.sample()
        row = rows.filter(has_text="hmyv2_method7").first
        await expect(row.locator(".isbad")).to_have_text(str(cell.errors))
    assert await page.evaluate("[...changed]") == ["hmyv2_method7"]

    near, far = (rows.nth(index) for index in (0, 299))
    for method in ("hmyv2_method0", "hmyv2_method299"):
        view.tally.cell(NETWORK, method, CacheClass.HEAD).errors += 3
    crowd.sample()
    await expect(near.locator(".isbad")).to_have_text("3")
    assert await page.evaluate("[...changed]") == ["hmyv2_method7", "hmyv2_method0"]
    await far.scroll_into_view_if_needed()
    await expect(far.locator(".isbad")).to_have_text("3")

    await expect(page.locator("thead th").first).to_be_in_viewport()
    assert await near.evaluate("row => row.getBoundingClientRect().bottom") < 0


WATCH_ROWS = """() => {
    window.changed = new Set();
    const watch = new MutationObserver((records) => {
        for (const { target } of records) {
            changed.add(target.parentElement.closest("tr.row").querySelector("td").textContent);
        }
    });
    watch.observe(document.querySelector("tbody"), { childList: true, subtree: true, characterData: true });
}"""


async def test_of_many_nodes_the_overview_shows_those_in_trouble_first(
    visitor: Visitor, crowd: Admin, view: SampleView
) -> None:
    view.node_list[40] = NodeView(network=NETWORK, id="n40", state="failing", why="no connection", eligible=False)
    crowd.sample()
    page = await visitor.open(crowd.address)
    nodes = page.get_by_role("region", name="Nodes")
    await expect(nodes.locator("tr.row").first).to_contain_text("n40")
    await expect(nodes.locator("tr.row")).to_have_count(12)
    await expect(page.locator("main")).to_contain_text("all 50, and tune them")
