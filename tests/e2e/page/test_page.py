"""The page in a real browser over the real admin side, with made-up figures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core.replies.failure import FailureKind
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView

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
async def admin(view: SampleView) -> AsyncIterator[Admin]:
    admin = Admin(view, "127.0.0.1:0", control=SampleControl(), interval=3600)
    await admin.start()
    yield admin
    await admin.close()


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    """A page that has been opened; the test fails when anything was said on the browser's console."""
    return await visitor.open(admin.address)


def passed(admin: Admin, view: SampleView) -> None:
    view.advance(1.0, load=0.3)
    admin.sample()


@pytest.mark.smoke
async def test_every_view_shows_the_figures_a_row_opens_by_keyboard_and_the_slash_finds_the_filter(
    page: Page, admin: Admin, view: SampleView
) -> None:
    passed(admin, view)
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
    page: Page, admin: Admin, view: SampleView
) -> None:
    await expect(page.locator("main")).to_contain_text("No call has come in yet")
    await expect(page.locator("main code")).to_contain_text("hmyv2_blockNumber")
    await expect(page.locator(".reading").nth(1).locator(".figure")).to_have_text("–")
    await expect(page.locator("main")).to_contain_text("attention")
    await page.click("#live")
    passed(admin, view)
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
