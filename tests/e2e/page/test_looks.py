"""How the page looks: names on a phone, the keyboard alone, focus, motion, marks and charts."""

import re
from collections.abc import AsyncIterator

from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from tests.support.browser import VIEWS, Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView
from tests.support.services import ROOT


@shared
async def admin(view: SampleView) -> AsyncIterator[Admin]:
    ticks = iter(range(10_000))
    admin = Admin(view, "127.0.0.1:0", control=SampleControl(), interval=3600, clock=lambda: 1000.0 + next(ticks))
    await admin.start()
    for _ in range(60):
        view.advance(1.0, load=0.02)
        admin.sample()
    yield admin
    await admin.close()


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address)


async def shown(page: Page, view: str) -> None:
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator(f".rail a[data-view={view}]")).to_have_attribute("aria-current", "page")
    await expect(page.locator("main h1").first).to_be_visible()


async def test_on_a_phone_the_name_of_a_method_breaks_between_its_words(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, width=390)
    for view in ("overview", "methods"):
        await shown(page, view)
        name = page.locator(".method", has_text="hmyv2_getBalanceByBlockNumber").first
        await expect(name).to_be_visible()
        lines = (await name.evaluate(LINES)).split("\n")
        assert len(lines) > 1, view
        assert all(re.fullmatch(r"(hmyv2_)?(get|[A-Z][a-z]+)*", line) for line in lines), lines
        await expect(name).to_have_text("hmyv2_getBalanceByBlockNumber")


async def test_a_node_is_one_line_and_what_is_shortened_is_told_in_full(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    name, why = "node-with-a-long-name.eu-central.example.org:9500", "no connection: it took too long to answer, twice"
    view.node_list = [
        NodeView(network=NETWORK, id=name, state="failing", why=why, eligible=False, since=400.0),
        NodeView(network=NETWORK, id="eth-b.provider-example", state="serving"),
    ]
    admin.sample()
    page = await visitor.open(admin.address, "nodes", width=1366)
    long, short = page.locator("tr.row").nth(0), page.locator("tr.row").nth(1)
    await expect(short).to_contain_text("eth-b.provider-example")
    for whole in (short.locator(".name"), long.locator(".means")):
        assert await whole.evaluate("one => one.scrollWidth <= one.clientWidth"), "nothing of it is cut"
    await expect(long.locator(".means")).to_have_text("1, no calls now")
    assert await long.evaluate("row => row.offsetHeight") == await short.evaluate("row => row.offsetHeight") < 40
    await expect(long.locator(".name")).to_have_attribute("title", name)
    await expect(long.locator(".line")).to_have_attribute("title", why)
    await expect(long.locator(".line")).to_contain_text("failing for 7\u202fmin · no connection")
    await long.get_by_role("button", name=name, exact=True).click()
    await expect(page.locator("tr.detail:visible .reason")).to_contain_text(why)


LINES = """(name) => {
    const lines = new Map();
    const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        for (let at = 0; at < text.length; at += 1) {
            const range = document.createRange();
            range.setStart(text, at);
            range.setEnd(text, at + 1);
            const { top } = range.getBoundingClientRect();
            lines.set(top, (lines.get(top) ?? "") + text.data[at]);
        }
    }
    return [...lines.values()].join("\\n");
}"""
"""The text of an element, line by line as it is drawn."""


async def test_the_keyboard_alone_reaches_and_moves_everything_focus_is_always_seen_and_figures_have_one_width(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, "methods")
    await page.get_by_role("button", name="hmyv2_getBlocks", exact=True).focus()
    await page.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent"
    assert await page.evaluate(focused) != "hmyv2_getBlocks"
    await page.keyboard.press("ArrowUp")
    assert await page.evaluate(focused) == "hmyv2_getBlocks"
    await page.keyboard.press("Enter")
    await expect(page.locator("tr.detail:visible")).to_contain_text("Where the time goes")
    unlabelled = await page.evaluate(
        """[...document.querySelectorAll("input, select, textarea, button, a")]
            .filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim())
            .map((one) => one.outerHTML)"""
    )
    assert unlabelled == []
    await shown(page, "settings")
    await expect(page.locator(".setting").first).to_be_visible()
    for view in VIEWS:
        await shown(page, view)
        proportional = await page.evaluate(
            """[...document.querySelectorAll(".figure, td.right, .under, #revision")]
                .filter((one) => !getComputedStyle(one).fontVariantNumeric.includes("tabular-nums")).length"""
        )
        assert proportional == 0, view
        await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert float(outline.removesuffix("px")) >= 2, view


async def test_settings_changes_are_marked_in_the_charts_and_a_day_is_shown_beside_five_minutes(page: Page) -> None:
    await expect(page.locator("main")).to_contain_text("Node calls saved")
    marked = await page.evaluate(
        """async () => {
            const { setMarks, marksAt } = await import("/src/chart.js");
            setMarks([{ at: 100, by: "ops", text: "a: weight 1 to 5", outcome: "adopted", action: "change" },
                      { at: 100, by: "ops", text: "no", outcome: "refused", action: "change" }]);
            return [marksAt(103, 5), marksAt(300, 5)];
        }"""
    )
    assert "ops: a: weight 1 to 5" in marked[0]
    assert marked[1] is None
    for word in ("1 h", "24 h", "5 min"):
        async with page.expect_response(re.compile(r"/history\?range=")):
            await page.get_by_role("button", name=word, exact=True).click()
    await expect(page.locator("main")).to_contain_text("so far")


async def test_a_view_asks_for_no_more_than_it_shows_and_nothing_moves_for_who_wants_less_motion(page: Page) -> None:
    """What keeps the first paint early, said without a clock: few requests, and not much to send."""
    asked: list[str] = []
    await expect(page.locator(".reading").first).to_be_visible()
    page.on("request", lambda request: asked.append(request.url))
    await page.emulate_media(reduced_motion="reduce")
    await page.reload()
    await expect(page.locator(".reading").first).to_be_visible()
    documents = {url.split("/api/v1/")[1].split("?")[0] for url in asked if "/api/v1/" in url}
    assert documents <= {"session", "overview", "settings", "changes", "nodes", "methods", "history", "events"}
    size = sum(path.stat().st_size for path in (ROOT / "dashboard").rglob("*") if path.is_file())
    assert size < 450_000, "the whole page, uPlot included"
    await expect(page.locator("main h1").first).to_be_visible()
    moving = await page.evaluate(
        """[...document.querySelectorAll("*")].filter((one) => {
            const style = getComputedStyle(one);
            return parseFloat(style.transitionDuration) > 0 || style.animationName !== "none";
        }).map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert moving == []


def test_the_network_of_the_samples_is_the_one_that_is_served() -> None:
    assert NETWORK in SampleControl().ledger.settings.networks


async def test_a_narrow_chart_has_more_than_one_time_below_it_and_networks_that_stay_as_they_are_are_not_touched(
    page: Page,
) -> None:
    times = await page.evaluate(
        """async () => {
            const { Chart } = await import("/src/chart.js");
            const format = (value) => [String(value), ""];
            const chart = new Chart({ label: "Calls", series: [{ key: "calls", format }] });
            const at = [...Array(301).keys()].map((second) => 1700000000 + second);
            chart.update({ at, calls: at.map(() => 1) });
            document.body.append(chart.element);
            chart.resize(300);
            while (!chart.plot.axes[0]._values) await new Promise(requestAnimationFrame);
            return chart.plot.axes[0]._values;
        }"""
    )
    assert len(times) >= 2
    touched = await page.evaluate(
        """async () => {
            const { showNetworks } = await import("/src/strip.js");
            const one = { network: "s0", nodes: 1, eligible: 1, state: "ok", head: 7, age: 1, block_time: 2 };
            const networks = [one, { ...one, network: "s1" }];
            showNetworks(networks);
            const watch = new MutationObserver(() => {});
            watch.observe(document.getElementById("networks"), { childList: true, subtree: true });
            showNetworks(networks);
            return watch.takeRecords().length;
        }"""
    )
    assert touched == 0
