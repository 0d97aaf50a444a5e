"""The page with fifty nodes and three hundred methods: it draws what is seen and has changed, and nothing else."""

from collections.abc import AsyncIterator

from playwright.async_api import Browser, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.plan.rules import CacheClass
from tests.support.browser import visiting
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView


@shared
async def crowd() -> AsyncIterator[tuple[Admin, SampleView]]:
    """Fifty nodes and three hundred methods; the figures move when the test says so."""
    view = SampleView()
    view.crowd(nodes=50, methods=300)
    ticks = iter(range(10_000))
    admin = Admin(view, "127.0.0.1:0", control=SampleControl(), interval=3600, clock=lambda: 1000.0 + next(ticks))
    await admin.start()
    yield admin, view
    await admin.close()


async def test_of_three_hundred_rows_only_what_changed_is_drawn_again_far_ones_when_they_come_near_below_their_header(
    browser: Browser, crowd: tuple[Admin, SampleView]
) -> None:
    admin, view = crowd
    for _ in range(80):
        admin.sample()  # a minute without calls: every figure rests
    async with visiting(browser) as visitor:
        page = await visitor.open(admin.address, "methods")
        rows = page.locator("tr.row")
        await expect(rows).to_have_count(300)
        await page.evaluate(WATCH_ROWS)
        cell = view.tally.cell(NETWORK, "hmyv2_method7", CacheClass.HEAD)
        for _ in range(4):
            cell.errors += 1
            admin.sample()
            row = rows.filter(has_text="hmyv2_method7").first
            await expect(row.locator(".isbad")).to_have_text(str(cell.errors))
        assert await page.evaluate("[...changed]") == ["hmyv2_method7"]

        near, far = (rows.nth(index) for index in (0, 299))
        for method in ("hmyv2_method0", "hmyv2_method299"):
            view.tally.cell(NETWORK, method, CacheClass.HEAD).errors += 3
        admin.sample()
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
    browser: Browser, crowd: tuple[Admin, SampleView]
) -> None:
    admin, view = crowd
    view.node_list[40] = NodeView(network=NETWORK, id="n40", state="failing", why="no connection", eligible=False)
    admin.sample()
    async with visiting(browser) as visitor:
        page = await visitor.open(admin.address)
        nodes = page.get_by_role("region", name="Nodes")
        await expect(nodes.locator("tr.row").first).to_contain_text("n40")
        await expect(nodes.locator("tr.row")).to_have_count(12)
        await expect(page.locator("main")).to_contain_text("all 50, and tune them")
