"""The long list of settings: its groups are one press away, at every width, by pointer, keyboard and address."""

from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.tuning import TOP
from tests.support.browser import Visitor, resize


def links(page: Page) -> Locator:
    """The list of groups."""
    return page.get_by_role("navigation", name="Groups of settings").get_by_role("link")


async def reached(page: Page, title: str) -> None:
    """The group is what is read now: right below the list, which is still there."""
    heading = page.locator(".group").get_by_role("heading", name=title, exact=True)
    await expect(heading).to_be_focused()
    await expect(heading).to_be_in_viewport()
    below = await heading.evaluate(TOP) - await links(page).first.locator("..").evaluate(
        "nav => nav.getBoundingClientRect().bottom"
    )
    assert 0 <= below < 40
    await expect(links(page).and_(page.locator("[aria-current]"))).to_have_text(title)


async def test_a_group_is_one_press_away_at_every_width_its_address_names_it_and_a_filter_hides_it(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, "settings/breaker-and-outliers")
    await reached(page, "Breaker and outliers")
    await page.evaluate("location.hash = '#/settings/http'")
    await reached(page, "HTTP")
    await page.go_back()
    await reached(page, "Breaker and outliers")
    await expect(links(page)).to_have_text(await page.locator(".group h3").all_inner_texts())
    for width in (390, 1024, 1440):
        await resize(page, width)
        await links(page).filter(has_text="HTTP").focus()
        await page.keyboard.press("Enter")
        await reached(page, "HTTP")
        await links(page).filter(has_text="Load on nodes").click()
        await reached(page, "Load on nodes")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.get_by_label("Filter settings").fill("memory.size")
    await expect(links(page)).to_have_text(["Memory"])
