"""The page where it is hard: answers that come late or are none, a view opened on held figures, lists that change under
a choice."""

from typing import Any

from playwright.async_api import Route, expect

from rpcaccel import chains
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from tests.e2e.page.tuning import weight
from tests.support.browser import VIEWS, Visitor
from tests.support.sample_view import NETWORK, SampleView


async def test_methods_tell_what_arithmetic_told_of_their_answers_and_what_judging_one_costs(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "methods", width=1366)
    judged = page.get_by_role("region", name="Answers judged by arithmetic")
    (cell,) = (one for one in view.tally.snapshot().cells if one.method == "hmyv2_getBlocks")
    live = view.tally.cell(NETWORK, "hmyv2_getBlocks", cell.cache)
    live.proofs, live.proof_seconds = {"proved": 8, "not_provable": 1, "disproved": 1}, 2e-3
    row = judged.locator("tr.row")
    await expect(row).to_have_count(1)
    await expect(row.locator('td[data-title="Disproved"]')).to_have_text("1")
    await expect(row.locator('td[data-title="Disproved"] .isbad')).to_have_count(1)
    told = [(await row.locator(f'td[data-title="{name}"]').inner_text()) for name in ("Proved", "Not provable", "Cost")]
    assert told == ["8", "1", "200\u202fµs"]
    live.proofs = {}
    await expect(judged).to_be_hidden()


async def test_a_method_never_called_can_be_purged_and_one_chosen_stays_chosen_when_another_is_called(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "cache")
    method = page.get_by_label("Method")
    known = [rule.method for rule in chains.load("harmony").rules]
    await expect(method.locator("option", has_text="hmyv2_getStakingNetworkInfo")).to_have_count(1)
    assert set(known) <= set(await method.locator("option").all_inner_texts())
    called = await method.locator("optgroup").first.locator("option").all_inner_texts()
    assert "hmyv2_getBlocks" in called
    assert "hmyv2_getStakingNetworkInfo" not in called
    await method.select_option("hmyv2_getBlocks")
    view.tally.know(["eth_aaa"])
    view.tally.cell(NETWORK, "eth_aaa", CacheClass.HEAD).done(AnswerSource.MEMORY, 1e-5, 10)
    await expect(method.locator("optgroup[label='called since the start'] option").first).to_have_text("eth_aaa")
    await expect(method).to_have_value("hmyv2_getBlocks")


async def test_what_is_being_selected_stays_and_an_answer_from_before_a_change_does_not_take_it_back(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "nodes")
    await page.get_by_role("button", name="a", exact=True).click()
    await expect(page.locator("tr.detail:visible code").first).to_have_text("a.example:443")
    await page.evaluate(SELECT)
    view.advance(100.0, load=0.002)
    await expect(page.locator("tr.row").first).to_contain_text("for 1\u202fmin")
    assert await page.evaluate("getSelection().toString()") == "a.example:443"

    await expect(weight(page, "a")).to_have_value("5")
    found = await page.evaluate(
        """async () => {
            const { store } = await import("/src/store.js");
            const asked = performance.now();
            const old = store.current;
            store.set(["networks", "harmony-s0", "nodes", "a", "weight"], 9);
            await store.apply();
            store.adopt(old, asked);
            const kept = store.current.revision;
            store.adopt({ ...old, revision: 1 }, performance.now());
            return [kept, store.current.revision];
        }"""
    )
    assert found == [2, 1]  # what was asked for since is believed: a server that began anew counts from one


NO_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"status": 200, "content_type": "text/html", "body": "<p>Log in to the network</p>"}, "no answer of rpcaccel"),
    ({"status": 200, "content_type": "application/json", "body": '{"revision": 1, "netw'}, "No answer from"),
    ({"status": 500, "content_type": "text/plain", "body": "boom"}, "the server answered 500"),
]
"""What may come instead of an answer, and what the page says of it."""


async def test_an_answer_that_is_none_is_told_as_such_and_a_view_can_be_opened_while_figures_are_held(
    visitor: Visitor, admin: Admin
) -> None:
    visitor.expected = ["500"]
    page = await visitor.open(admin.address)
    await expect(page.locator(".reading").first).to_be_visible()
    answer: dict[str, Any] = {}

    async def spoil(route: Route) -> None:
        await route.fulfill(**answer)

    for given, said in NO_ANSWERS:
        answer = given
        await page.route("**/api/v1/overview", spoil)
        await expect(page.locator("#lost")).to_contain_text(said)
        await expect(page.locator("#live")).to_contain_text("No answer")
        await page.unroute("**/api/v1/overview")
        await expect(page.locator("#lost")).to_be_hidden()
        await expect(page.locator("#live")).to_contain_text("Live")
    await page.click("#live")
    await page.click(".rail a[data-view=nodes]")
    await expect(page.locator("main")).to_contain_text("14 blocks behind")
    await expect(page.locator("#live")).to_contain_text("Paused")


SELECT = """() => new Promise((heard) => {
    document.addEventListener("selectionchange", heard, { once: true });
    const shown = [...document.querySelectorAll("tr.detail code")].find((code) => code.checkVisibility());
    getSelection().selectAllChildren(shown);
}).then(() => {})"""
"""Selects the first address that is shown, found in one turn because the page may draw it anew in the next one, and
waits until the page has heard of it."""


async def test_views_that_were_left_leave_nothing_behind(visitor: Visitor, admin: Admin) -> None:
    page = await visitor.open(admin.address)
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.enable")

    async def round_trip() -> int:
        for view in VIEWS:
            await page.evaluate(f"location.hash = '#/{view}'")
            await expect(page.locator("main h1")).to_have_text(view.capitalize())
            await expect(page.locator(f".rail a[data-view={view}]")).to_have_attribute("aria-current", "page")
        await session.send("HeapProfiler.collectGarbage")
        return int((await session.send("Memory.getDOMCounters"))["nodes"])

    await round_trip()
    first, _, last = [await round_trip() for _ in range(3)]
    assert last < first * 1.1


async def test_a_clock_that_was_put_back_leaves_charts_that_go_on_and_where_nothing_can_be_copied_is_no_button(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address)
    drawn = await page.evaluate(
        """async () => {
            const { Chart } = await import("/src/chart.js");
            const format = (value) => [String(value), ""];
            const chart = new Chart({ label: "Calls", series: [{ key: "calls", format }] });
            chart.update({ at: [5000, 5001, 100, 101, 102], calls: [1, 2, 3, 4, 5] });
            const found = [chart.data(), chart.span()];
            chart.gone();
            return found;
        }"""
    )
    assert drawn == [[[100, 101, 102], [3, 4, 5]], [42, 102]]
    without = await page.evaluate(
        """async () => {
            Object.defineProperty(navigator, "clipboard", { value: undefined });
            const { hint } = await import("/src/parts.js");
            return hint("Send one:", "curl").querySelector("button")?.hidden ?? true;
        }"""
    )
    assert without


async def test_a_filter_that_nothing_fits_says_so_and_another_server_at_the_same_address_is_shown_as_what_it_is(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "methods")
    await page.get_by_label("Filter methods by name").fill("no such thing")
    await expect(page.locator("main")).to_contain_text("Nothing here has “no such thing”")
    await page.get_by_label("Filter methods by name").fill("")
    await expect(page.locator("tr.row").first).to_be_visible()
    await expect(page.locator("main")).not_to_contain_text("Nothing here")
    head = page.get_by_role("region", name="Methods").locator("thead")
    await expect(head).not_to_contain_text("Network")
    view.networks.append("ethereum-mainnet")
    admin.sample()
    await expect(head).to_contain_text("Network")


async def test_the_page_is_dark_before_it_is_painted(visitor: Visitor, admin: Admin) -> None:
    visitor.expected = ["ERR_FAILED"]
    page = await visitor.open(admin.address, color_scheme="dark")
    await page.route("**/src/app.js", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.evaluate("localStorage.setItem('theme', 'light')")
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
