"""Who may only look: every view is there with its values, and none has a control that would be refused."""

import pytest
from playwright.async_api import Page, expect

from tests.e2e.page.tuning import log_in, opened, reader, weight
from tests.support.browser import VIEWS, Visitor

PRESS_ALL = """[...document.querySelectorAll("main button")].forEach((one) => one.checkVisibility() && one.click())"""


async def turn_to(page: Page, view: str) -> None:
    """Open a view."""
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator("main h1")).to_have_text(view.capitalize())


@pytest.mark.smoke
async def test_no_view_has_a_control_that_would_be_refused_and_what_a_reader_presses_is_refused_nowhere(
    visitor: Visitor,
) -> None:
    refused: list[str] = []
    async with reader(visitor, "nodes") as page:
        await log_in(page, "guest")
        await expect(page.locator("main")).to_contain_text("You may look, not change")
        page.on("response", lambda reply: refused.append(reply.url) if reply.status in (401, 403) else None)
        for view in VIEWS:
            await turn_to(page, view)
            if await page.locator("tr.row .open").count():
                await page.locator("tr.row .open").first.click()
            for word in ("Purge", "Run it", "Probe now", "Undo", "Add", "Make a key", "Another key", "Remove", "Apply"):
                await expect(page.get_by_role("button", name=word)).to_have_count(0)
            await expect(page.locator("main :is(select, input, textarea):disabled")).to_have_count(0)
        for view in VIEWS:
            await turn_to(page, view)
            if view != "explain":  # there is no proxy here that could explain
                await page.evaluate(PRESS_ALL)
        assert refused == []


async def test_a_reader_logs_in_reads_nodes_rules_settings_and_alerts_without_controls_and_logs_out(
    visitor: Visitor,
) -> None:
    visitor.expected = ["401"]  # of a wrong password
    async with reader(visitor, "nodes") as page:
        await log_in(page, "guest", "wrong")
        await expect(page.get_by_role("alert")).to_contain_text("wrong")
        await log_in(page, "guest")
        await expect(page.locator("main")).to_contain_text("You may look, not change")
        await expect(page.locator("tr.group")).to_contain_text("balancer: smooth weighted")
        await expect(page.locator(".tune b").first).to_have_text("5")
        await expect(weight(page, "a")).to_have_count(0)
        detail = await opened(page, "a")
        await expect(detail.locator(".setting", has_text="Time limit of an attempt")).to_contain_text("10 s")
        await expect(detail.locator(".setting input")).to_have_count(0)

        await turn_to(page, "methods")
        await page.get_by_role("button", name="hmyv2_call", exact=True).click()
        await expect(page.locator("tr.detail:visible")).to_contain_text("Answers are kept as the chain's rule says.")

        await turn_to(page, "settings")
        await expect(page.locator(".setting", has_text="Memory for answers")).to_contain_text("256 MB")
        assert await page.locator(".setting input, .setting select, .setting-value button:visible").count() == 0
        await expect(page.get_by_role("button", name="Add a route")).to_be_hidden()
        await expect(page.locator(".group", has_text="Nobody is told")).to_be_visible()
        await expect(page.get_by_role("button", name="Add a webhook")).to_have_count(0)

        await turn_to(page, "clients")
        await expect(page.get_by_role("button", name="Make a key")).to_be_hidden()

        await turn_to(page, "overview")
        await expect(page.locator(".first .notices li").first).to_be_visible()
        await expect(page.get_by_role("button", name="Mute: harmony-s0/c")).to_be_hidden()
        await page.get_by_role("button", name="Log out guest").click()
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()
