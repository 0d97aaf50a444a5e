"""How the page looks and is gone through: names on a phone, little room, the keyboard alone, focus, motion, charts."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import TOP, in_force, weight
from tests.support.browser import VIEWS, Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView
from tests.support.services import ROOT


@shared
async def filled(start: Start, view: SampleView, control: SampleControl) -> Admin:
    """A minute of traffic."""
    return await start(view, control, seconds=60)


@shared
async def page(visitor: Visitor, filled: Admin) -> Page:
    return await visitor.open(filled.address)


async def shown(page: Page, view: str) -> None:
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator(f".rail a[data-view={view}]")).to_have_attribute("aria-current", "page")
    await expect(page.locator("main h1")).to_have_text(view.capitalize())


async def test_on_a_phone_the_name_of_a_method_breaks_between_its_words(visitor: Visitor, filled: Admin) -> None:
    page = await visitor.open(filled.address, width=390)
    for view in ("overview", "methods"):
        await shown(page, view)
        name = page.locator(".method", has_text="hmyv2_getBalanceByBlockNumber").first
        await expect(name).to_be_visible()
        lines = (await page.locator("main").evaluate(LINES, "hmyv2_getBalanceByBlockNumber")).split("\n")
        assert len(lines) > 1, view
        assert all(re.fullmatch(r"(hmyv2_)?(get|[A-Z][a-z]+)*", line) for line in lines), lines
        await expect(name).to_have_text("hmyv2_getBalanceByBlockNumber")


async def test_on_a_phone_a_node_in_trouble_is_seen_whole_in_a_third_of_the_screen(
    visitor: Visitor, filled: Admin, view: SampleView
) -> None:
    why = "it is 14 blocks behind: it gets no calls about newer blocks until it has caught up"
    view.node_list = [NodeView(network=NETWORK, id="a", state="behind", why=why, eligible=False, since=400.0)]
    filled.sample()
    page = await visitor.open(filled.address, "nodes", width=390)
    card = page.get_by_role("region", name="Nodes", exact=True).locator("tr.row")
    await expect(card.locator(".line")).to_be_visible()
    await expect(card).to_contain_text(why)
    assert await card.evaluate("card => card.offsetHeight") < 844 / 3
    assert await card.locator("td:visible").evaluate_all(WIDER) == []


WIDER = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.dataset.title)"


async def test_a_node_is_a_row_that_shows_its_state_whole_and_what_is_shortened_is_told_in_full(
    visitor: Visitor, filled: Admin, view: SampleView
) -> None:
    name, why = "node-with-a-long-name.eu-central.example.org:9500", "no connection: it took too long to answer, twice"
    view.node_list = [
        NodeView(network=NETWORK, id=name, state="failing", why=why, eligible=False, since=400.0),
        NodeView(network=NETWORK, id="eth-b.provider-example", state="behind", why="14 blocks behind", since=400.0),
    ]
    filled.sample()
    page = await visitor.open(filled.address, "nodes", width=1366)
    long, short = page.locator("tr.row").nth(0), page.locator("tr.row").nth(1)
    await expect(short).to_contain_text("eth-b.provider-example")
    for whole in (short.locator(".name"), long.locator(".means")):
        assert await whole.evaluate("one => one.scrollWidth <= one.clientWidth"), "nothing of it is cut"
    await expect(long.locator(".means")).to_have_text("1, trials alone")
    assert await short.evaluate("row => row.offsetHeight") < 40
    await expect(long.locator(".name")).to_have_attribute("title", name)
    await expect(long.locator(".line")).to_have_attribute("title", why)
    await expect(short.locator(".line")).to_contain_text("behind for 7\u202fmin · 14 blocks behind")
    seen = "one => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth"
    assert await short.locator(".line").evaluate(seen)
    assert await long.locator(".line").evaluate(seen)
    await expect(long.locator(".line")).to_contain_text("failing for 7\u202fmin · no connection")
    await long.get_by_role("button", name=name, exact=True).click()
    await expect(page.locator("tr.detail:visible .reason")).to_contain_text(why)


LINES = """(main, word) => {
    const name = [...main.querySelectorAll(".method")].find((one) => one.textContent === word);
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
"""The name of a method, line by line as it is drawn. It is looked for where it is measured: a name that the next
figures have replaced has no lines."""


async def test_the_keyboard_alone_reaches_and_moves_everything_focus_is_always_seen_and_figures_have_one_width(
    visitor: Visitor, filled: Admin
) -> None:
    page = await visitor.open(filled.address, "methods")
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


async def test_settings_changes_are_marked_in_the_charts(page: Page) -> None:
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


LONG = "archive-node-of-the-second-provider.eu-central-1.example.org"


@pytest.mark.smoke
async def test_what_can_be_done_to_a_node_is_in_sight_and_a_long_name_fits_a_phone(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    view.node_list[2] = NodeView(
        network=NETWORK, id=LONG, eligible=False, state="failing", why="no connection: it took too long to answer"
    )
    page = await visitor.open(admin.address, "nodes")
    name = page.get_by_role("button", name=LONG, exact=True)
    for width in (1440, 1024, 800):
        await resize(page, width)
        await expect(page.get_by_role("button", name="Actions for node a", exact=True)).to_be_in_viewport(ratio=1)
        await expect(name).to_be_in_viewport()
        await page.locator(".scroll").first.evaluate("frame => frame.scrollTo(1000, 0)")
        await expect(name).to_be_in_viewport()
        await page.locator(".scroll").first.evaluate("frame => frame.scrollTo(0, 0)")
    view.node_list = [NodeView(network=NETWORK, id=LONG, state="serving")]
    await resize(page, 390)
    await expect(page.get_by_role("button", name="Actions for node a", exact=True)).to_have_count(0)
    await expect(name).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_a_table_that_goes_on_says_so_until_its_end_is_seen_and_its_head_stays(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, "cache", width=800)
    table = page.get_by_role("region", name="Cache tiers")
    torn = "frame => getComputedStyle(frame).maskImage !== 'none'"
    name = table.get_by_role("cell", name="memory", exact=True)
    await expect(table).to_have_class(re.compile("more"))
    assert await table.evaluate(torn)
    await table.evaluate("frame => frame.scrollTo(5000, 0)")
    await expect(table).not_to_have_class(re.compile("more"))
    assert not await table.evaluate(torn)
    await expect(name).to_be_in_viewport(ratio=1)

    await resize(page, 800, 140)
    await table.evaluate("frame => { frame.scrollIntoView(); frame.scrollTo(200, 1000); }")
    assert await table.evaluate("frame => frame.scrollTop") > 0
    assert await table.locator("thead th").first.evaluate(TOP) - float(await table.evaluate(TOP)) < 3


async def test_columns_without_room_are_told_in_the_opened_row(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address, "methods", width=1366)
    table = page.get_by_role("region", name="Methods")
    rest = table.locator("tr.detail:visible .rest")
    await table.get_by_role("button", name="hmyv2_getBlocks", exact=True).click()
    for width in (1366, 800, 390):
        await resize(page, width)
        if width == 1366:
            await expect(table.locator(".left")).to_be_hidden()
        else:
            await expect(table.locator(".left")).to_contain_text("No room here for")
            await expect(table.get_by_role("columnheader", name="Class")).to_be_hidden()
            await expect(rest).to_contain_text("Class by-number")
        await expect(table).to_have_class(re.compile("fits"))
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await resize(page, 1600, 900)
    await expect(table.get_by_role("columnheader", name="Class")).to_be_visible()
    await expect(rest).to_be_hidden()


async def test_without_calls_the_cache_says_how_to_fill_it(
    visitor: Visitor, start: Start, view: SampleView, control: SampleControl
) -> None:
    page = await visitor.open((await start(view, control)).address, "cache")
    await expect(page.locator("main")).to_contain_text("No call has come in yet")


async def test_on_a_phone_every_view_is_two_presses_away_and_every_field_of_a_form_is_there(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address, width=390)
    more = page.get_by_role("button", name="More")
    await expect(page.locator(".reading").first).to_be_visible()
    assert await page.evaluate(PLACE_OF_HEAD, 0) == await page.evaluate(PLACE_OF_HEAD, 14), "a lag moves nothing"
    for view in VIEWS:
        link = page.locator(f".rail a[data-view={view}]")
        if not await link.is_visible():
            await more.click()
            await expect(more).to_have_attribute("aria-expanded", "true")
        await expect(link).to_be_in_viewport(ratio=1)
        await link.click()
        await expect(page.locator("main h1")).to_have_text(view.capitalize())
        await expect(more).to_have_attribute("aria-expanded", "false")
    await more.click()
    await page.keyboard.press("Escape")
    await expect(more).to_have_attribute("aria-expanded", "false")

    await page.evaluate("location.hash = '#/nodes'")
    await page.get_by_role("button", name="Add a node").click()
    await expect(page.get_by_label("Address")).to_be_visible()
    await page.evaluate("location.hash = '#/cache'")
    await page.get_by_role("button", name="a key", exact=True).click()
    await expect(page.get_by_label("Key", exact=True)).to_be_visible()
    await page.evaluate("location.hash = '#/errors'")
    await page.get_by_role("button", name="is on holiday").click()
    await expect(page.get_by_label("The message contains")).to_be_visible()


PLACE_OF_HEAD = """async (lag) => {
    const { nodeTable } = await import("/src/views/node_table.js");
    const table = nodeTable(false);
    const figures = { weight: 1, failures: {}, share_got: 0.5, share_wanted: 0.5, calls_per_second: 1, in_flight: 0 };
    document.querySelector("main").prepend(table.element);
    table.update([{ network: "s0", id: "a", state: "serving", why: "", since: 1, head: 61204811, lag, ...figures }]);
    const { width, height } = table.element.querySelector("tr.row > td:nth-child(3)").getBoundingClientRect();
    table.gone();
    table.element.remove();
    return [width, height];
}"""
"""How wide and high the head of a node is shown that lags by so many blocks."""


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
