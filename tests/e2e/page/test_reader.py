"""Who may only look: every view is there, and none has a control that would be refused."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, expect

from tests.e2e.page.tuning import log_in, reader
from tests.support.browser import VIEWS, Visitor
from tests.support.fixtures import shared

PRESS_ALL = """[...document.querySelectorAll("main button")].forEach((one) => one.checkVisibility() && one.click())"""


@shared
async def page(visitor: Visitor) -> AsyncIterator[Page]:
    async with reader(visitor, "nodes") as (page, _):
        await log_in(page, "guest")
        await expect(page.locator("main")).to_contain_text("You may look, not change")
        yield page


@pytest.mark.smoke
async def test_no_view_has_a_control_that_would_be_refused(page: Page) -> None:
    for view in VIEWS:
        await page.evaluate(f"location.hash = '#/{view}'")
        await expect(page.locator("main h1")).to_have_text(view.capitalize())
        if await page.locator("tr.row .open").count():
            await page.locator("tr.row .open").first.click()
        for word in ("Purge", "Run it", "Probe now", "Undo", "Add", "Make a key", "Another key", "Remove", "Apply"):
            await expect(page.get_by_role("button", name=word)).to_have_count(0)
        await expect(page.locator("main :is(select, input, textarea):disabled")).to_have_count(0)


async def test_what_a_reader_does_anywhere_is_refused_nowhere(page: Page) -> None:
    refused: list[str] = []
    page.on("response", lambda reply: refused.append(reply.url) if reply.status in (401, 403) else None)
    for view in VIEWS:
        await page.evaluate(f"location.hash = '#/{view}'")
        await expect(page.locator("main h1")).to_have_text(view.capitalize())
        if view == "explain":
            continue  # there is no proxy here that could explain
        await page.evaluate(PRESS_ALL)
    assert refused == []


async def test_a_reader_reads_the_balancer_the_weights_and_the_rules(page: Page) -> None:
    await expect(page.locator("tr.group")).to_contain_text("balancer: smooth weighted")
    await expect(page.locator(".tune b").first).to_have_text("5")
    await page.evaluate("location.hash = '#/methods'")
    await page.get_by_role("button", name="hmyv2_call", exact=True).click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("Answers are kept as the chain's rule says.")
