"""The page for those who listen to it, see it badly or have little room: axe finds nothing serious in any view,
headings are in order, and nothing is wider than the window."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.tuning import log_in, reader
from tests.support.browser import VIEWS, Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView

GRAVE = {"serious", "critical"}
LOOKS = [("light", 1366), ("dark", 390)]
"""Each theme and each width once; `grave` looks at contrasts in the other theme as well."""
WHOLE = {"resultTypes": ["violations"]}
CONTRAST = {**WHOLE, "runOnly": ["color-contrast"]}
LEVELS = """[...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility())
    .map((one) => Number(one.tagName[1]))"""


@shared
async def admin(view: SampleView) -> AsyncIterator[Admin]:
    ticks = iter(range(10_000))
    admin = Admin(view, "127.0.0.1:0", control=SampleControl(), interval=3600, clock=lambda: 1000.0 + next(ticks))
    await admin.start()
    for _ in range(30):
        view.advance(1.0, load=0.05)
        admin.sample()
    yield admin
    await admin.close()


async def grave(page: Page, within: str | None = None) -> list[str]:
    """The findings of axe that keep somebody from using what is shown, and those about contrast in the other theme;
    `within` is a selector of what is looked at where the rest of the page was looked at in another test."""
    found = (await Axe().run(page, within, options=WHOLE)).response["violations"]
    look = await page.evaluate(THEME)
    await turned(page, "light" if look == "dark" else "dark")
    found += (await Axe().run(page, within, options=CONTRAST)).response["violations"]
    await turned(page, look)
    return [f"{one['id']}: {node['html']}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]


async def turned(page: Page, theme: str) -> None:
    """Turn to a theme at once."""
    await page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    await page.wait_for_function(f"theme => {THEME} === theme", arg=theme)


async def looked_at(page: Page, theme: str, width: int) -> None:
    """Turn to a theme, and make the window as wide as that."""
    await resize(page, width)
    await turned(page, theme)


THEME = "document.documentElement.dataset.theme"


async def shown(page: Page, view: str) -> None:
    """Open a view, and the first row of its first table."""
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator("main h1")).to_have_text(view.capitalize())
    await expect(page.locator("main h2").first).to_be_visible()
    if view == "settings":
        await expect(page.locator(".setting").first).to_be_visible()
    if await page.locator("tr.row .open").count():
        await page.locator("tr.row .open").first.click()
        await expect(page.locator("tr.detail:visible").first).to_be_visible()


@pytest.mark.parametrize(("look", "width"), LOOKS)
async def test_every_view_is_for_everyone_and_fits(visitor: Visitor, admin: Admin, look: str, width: int) -> None:
    page = await visitor.open(admin.address, width=width, color_scheme=look, reduced_motion="reduce")
    faults = {}
    for view in VIEWS:
        await shown(page, view)
        faults[view] = await grave(page)
        levels = await page.evaluate(LEVELS)
        assert levels[0] == 1, view
        assert levels.count(1) == 1, view
        assert all(below - above <= 1 for above, below in pairwise(levels)), (view, levels)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, view
    assert not any(faults.values()), faults
    assert await page.evaluate(THEME) == look


async def test_axe_finds_nothing_serious_where_somebody_logs_in(visitor: Visitor) -> None:
    visitor.expected = ["401"]  # of a wrong password
    async with reader(visitor, "overview") as page:
        await expect(page.get_by_label("Password")).to_be_visible()
        for look, width in LOOKS:
            await looked_at(page, look, width)
            assert await grave(page) == [], (look, width)
        await log_in(page, "guest", "wrong")
        await expect(page.get_by_role("alert")).to_contain_text("wrong")
        for look, width in LOOKS:
            await looked_at(page, look, width)
            assert await grave(page) == [], (look, width)


async def test_axe_finds_nothing_serious_while_something_is_changed(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "nodes")
    await page.get_by_role("button", name="Add a node").click()
    await page.get_by_role("button", name="Actions for node a").click()
    await expect(page.get_by_role("menuitem", name="Probe now")).to_be_focused()
    assert await grave(page) == []
    await page.get_by_role("menuitem", name="Remove").click()
    await expect(page.locator(".bar")).to_be_visible()
    assert await grave(page, ".bar") == []  # before the dialog opens, beside which nothing is looked at
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog")).to_be_visible()
    assert await grave(page, "dialog") == []
