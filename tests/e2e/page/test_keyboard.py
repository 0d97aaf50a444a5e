"""The page by keyboard: what a key does where it was meant, and nowhere else."""

from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.tuning import act, in_force, weight
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "nodes")


async def test_the_key_that_explains_a_call_applies_no_changes(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["404"]  # there is no proxy here that could explain
    await weight(page, "a").fill("9")
    await page.evaluate("location.hash = '#/explain'")
    await page.get_by_label("A JSON-RPC call").focus()
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("main")).to_contain_text("no worker is running")
    await expect(page.locator(".bar")).to_contain_text("1 change not applied yet")
    assert in_force(control, "a") == 5


async def test_what_is_asked_about_is_asked_once(page: Page, control: SampleControl) -> None:
    for node in "ab":
        await act(page, node, "Drain")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("dialog")).to_contain_text("No node of this network would take calls")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("dialog")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    assert control.published == []


async def test_skipping_to_the_figures_stays_in_the_view(page: Page) -> None:
    await expect(weight(page, "a")).to_be_visible()
    await page.locator(".skip").focus()
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
    await expect(page.locator(".rail a[data-view=nodes]")).to_have_attribute("aria-current", "page")
    await expect(weight(page, "a")).to_be_visible()


async def test_a_hash_that_names_no_view_opens_the_first(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "toString")
    await expect(page.locator(".rail a[data-view=overview]")).to_have_attribute("aria-current", "page")


async def test_after_applying_by_keyboard_the_way_back_has_the_focus(page: Page) -> None:
    await weight(page, "a").fill("9")
    await page.get_by_role("button", name="Apply", exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(weight(page, "a")).to_have_value("5")
