"""Addresses and keys: what they do where they were meant, and nowhere else. Dialogs and Undo are in test_tuning.py."""

from playwright.async_api import expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.tuning import in_force, weight
from tests.support.browser import Visitor
from tests.support.sample_control import SampleControl


async def test_a_hash_that_names_no_view_opens_the_first_skipping_stays_in_the_view_and_explaining_applies_nothing(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    visitor.expected = ["404"]  # there is no proxy here that could explain
    page = await visitor.open(admin.address, "toString")
    await expect(page.locator(".rail a[data-view=overview]")).to_have_attribute("aria-current", "page")

    await page.evaluate("location.hash = '#/nodes'")
    await expect(weight(page, "a")).to_be_visible()
    await page.locator(".skip").focus()
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
    await expect(page.locator(".rail a[data-view=nodes]")).to_have_attribute("aria-current", "page")
    await expect(weight(page, "a")).to_be_visible()

    await weight(page, "a").fill("9")
    await page.evaluate("location.hash = '#/explain'")
    await page.get_by_label("A JSON-RPC call").focus()
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("main")).to_contain_text("no worker is running")
    await expect(page.locator(".bar")).to_contain_text("1 change not applied yet")
    assert in_force(control, "a") == 5
