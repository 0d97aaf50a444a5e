"""The page for those who listen to it, see it badly or have little room: with everything in it that there can be, axe
finds nothing serious in any view, headings are in order, and nothing is wider than the window."""

from itertools import pairwise

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import busy, log_in, reader
from tests.support.browser import VIEWS, Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_hosts import OTHERS, meet
from tests.support.sample_view import SampleView
from tests.support.sample_worth import compared, examine, sample_cases, suspect

GRAVE = {"serious", "critical"}
LOOKS = [("light", 1366), ("dark", 390)]
"""Each theme and each width once; the contrast of each pair of colours is in tests/unit/dashboard."""
LEVELS = """[...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility())
    .map((one) => Number(one.tagName[1]))"""
THEME = "document.documentElement.dataset.theme"
FIRST_ROWS = (
    "main .scroll:not(.scroll .scroll) tbody:not(:has(tr.detail:not([hidden]))) > tr.row:nth-child(1 of tr.row) .open"
)
"""The first row of each table in which none is opened."""


@pytest.fixture
def control() -> SampleControl:
    """Settings with a tier on disk, and with Redis."""
    return SampleControl(sample_settings(disk={"path": "/var/cache/rpcaccel"}, redis={"url": "redis://127.0.0.1"}))


@shared
async def admin(start: Start, control: SampleControl) -> Admin:
    """All that a view can show: tiers, hosts, subscribers, examinations, a suspected node, cases and errors."""
    view = SampleView(disk=True)
    examine(view)
    admin = await start(view, control)
    compared(view)
    control.cases += sample_cases()
    meet(control, OTHERS)
    busy(view, admin, 2)
    suspect(view)
    busy(view, admin, 1)
    return admin


async def grave(page: Page, within: str | None = None) -> list[str]:
    """The findings of axe that keep somebody from using what is shown; `within` selects what is looked at where
    the rest of the page was looked at in another test."""
    found = (await Axe().run(page, within, options={"resultTypes": ["violations"]})).response["violations"]
    return [f"{one['id']}: {node['html']}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]


async def looked_at(page: Page, theme: str, width: int) -> None:
    """Turn to a theme at once, and make the window as wide as that."""
    await resize(page, width)
    await page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    await page.wait_for_function(f"theme => {THEME} === theme", arg=theme)


async def shown(page: Page, view: str) -> None:
    """Open a view, and the first row of each of its tables."""
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator("main h1")).to_have_text(view.capitalize())
    await expect(page.locator("main h2").first).to_be_visible()
    if view == "settings":
        await expect(page.locator(".setting").first).to_be_visible()
    if view == "nodes":
        await expect(page.locator(".suggestion")).to_be_visible()
    for _ in range(await page.locator(FIRST_ROWS).count()):
        await page.locator(FIRST_ROWS).first.click()


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


async def test_axe_finds_nothing_serious_where_somebody_logs_in(visitor: Visitor, start: Start) -> None:
    visitor.expected = ["401"]  # of a wrong password
    page = await reader(start, visitor, "overview")
    await expect(page.get_by_label("Password")).to_be_visible()
    for look, width in LOOKS:
        await looked_at(page, look, width)
        assert await grave(page) == [], (look, width)
    await log_in(page, "guest", "wrong")
    await expect(page.get_by_role("alert")).to_contain_text("wrong")
    for look, width in LOOKS:
        await looked_at(page, look, width)
        assert await grave(page) == [], (look, width)


async def test_axe_finds_nothing_serious_in_the_first_steps(visitor: Visitor, start: Start) -> None:
    view, settings = SampleView(), sample_settings().model_copy(update={"networks": {}})
    view.networks = []
    page = await visitor.open((await start(view, SampleControl(settings))).address)
    await page.get_by_label("Nodes, one a line").fill("https://a.example https://b.example/down")
    await page.get_by_role("button", name="Try", exact=True).click()
    await expect(page.locator(".found")).to_be_visible()
    for look, width in LOOKS:
        await looked_at(page, look, width)
        assert await grave(page) == [], (look, width)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_axe_finds_nothing_serious_while_something_is_changed(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "nodes", reduced_motion="reduce")
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
