"""What is known of nodes, on the page: examinations, agreement, cases of it, what each is worth, suggested weights."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from msgspec.structs import replace
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.controlplane.settings.ledger import Author
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import apply, busy
from tests.support.browser import Visitor
from tests.support.described_answers import problems
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView
from tests.support.sample_worth import AT, compared, examine, limited, sample_case, sample_cases, suspect, well_examined

WORTH, CASES = "What each node is worth", "Answers that differ"
REPORT = "/api/v1/nodes/report"


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    """Nodes after a busy while: a is well, b contradicted, c behind and once false, d being examined; four cases."""
    examine(view)
    admin = await start(view, control)
    compared(view)
    view.tally.node(NETWORK, "b").failed("overtaken")
    control.cases += sample_cases()
    busy(view, admin)
    return admin


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "nodes")


def table(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def row(page: Page, name: str, node: str) -> Locator:
    named = f"{node} in the report" if name == WORTH else node
    return table(page, name).locator("tr.row", has=page.get_by_role("button", name=named, exact=True))


async def known(page: Page, node: str) -> Locator:
    """What the row of a node in the first table opens to."""
    await table(page, "Nodes").get_by_role("button", name=node, exact=True).click()
    return table(page, "Nodes").locator("tr.detail:visible")


async def shut(page: Page, node: str) -> None:
    """Close the row of a node in the first table again."""
    await table(page, "Nodes").get_by_role("button", name=node, exact=True).click()
    await expect(table(page, "Nodes").locator("tr.detail:visible")).to_have_count(0)


def weights(control: SampleControl) -> dict[str, int]:
    return {node.id: node.weight for node in control.ledger.settings.networks[NETWORK].nodes}


# -- examinations ----------------------------------------------------------------------------------------------------


async def test_a_node_s_row_tells_its_examination_what_was_not_found_out_what_ends_one_and_when_it_gets_one(
    page: Page, control: SampleControl
) -> None:
    """Node a is well, b differs from another, d is being examined, and c has no examination."""
    examination = (await known(page, "a")).locator(".examination")
    for words in (
        "with 98 calls in 1.53\u202fs",
        "oldest state61\u202f203\u202f873, 127 blocks below its head then",
        "oldest logsevery block",
        "longest range of logs1.02k blocks",
        "longest batchno limit up to 64 calls",
        "traces transactionsno",
        "roles, by its answersexplorer, observer, not archive",
        "agrees with other nodes12 of 12 answers",
        "hmyv2_getBlocks41.2\u202fms",
    ):
        await expect(examination).to_contain_text(words)
    await expect(examination.locator(".isbad, .wrong")).to_have_count(0)
    await shut(page, "a")
    examination = (await known(page, "b")).locator(".examination")
    for words in (
        "oldest statenone",
        "oldest logsnot found out",
        "longest batchtakes no batches",
        "8 of 9 answers",
        "It differs from another node: balance: 0x29, not 0x2a as node a says",
        "how far back its logs reach was not found out",
    ):
        await expect(examination).to_contain_text(words)
    await examination.get_by_role("button", name="8 of 9 answers: what differed").click()
    await expect(examination.locator(".wrong li").first).to_be_focused()
    await shut(page, "b")
    await expect(row(page, "Nodes", "d")).to_contain_text("being examined")
    detail = await known(page, "d")
    await expect(detail).to_contain_text("That takes 30 s at the most; then it gets calls")
    await expect(detail.get_by_role("button", name="Examine again")).to_be_hidden()
    await shut(page, "d")
    detail = await known(page, "c")
    await expect(detail).to_contain_text("Not examined yet. Nodes that are there at the start are examined")
    await expect(detail.get_by_role("button", name="Examine now")).to_be_visible()
    await control.ledger.change({"networks": {NETWORK: {"examine": False}}}, Author("ops", "api"))
    await expect(detail).to_contain_text("Not examined: by the settings of its network, nodes are examined by hand")


# -- agreement -------------------------------------------------------------------------------------------------------


async def test_a_suspected_node_is_marked_attention_leads_to_it_and_it_leads_to_its_cases(
    page: Page, view: SampleView, admin: Admin
) -> None:
    await expect(row(page, "Nodes", "b").locator(".state.bad")).to_have_count(0)
    suspect(view)
    busy(view, admin, 1)
    await expect(row(page, "Nodes", "b").locator(".state.bad")).to_have_text("✖suspected")
    await expect(row(page, "Nodes", "a").locator(".state.bad")).to_have_count(0)
    await page.evaluate("location.hash = '#/overview'")
    await page.get_by_role("link", name=re.compile("was contradicted by two others in 2 of 31")).click()
    detail = table(page, "Nodes").locator("tr.detail:visible")
    await expect(detail).to_contain_text("2 of 31 wrong · 1 undecided · 3 false hashes")
    await expect(table(page, CASES).locator("tr.row")).to_have_count(4)
    await detail.get_by_role("button", name="Show the cases").click()
    await expect(table(page, CASES).locator("tr.row")).to_have_count(2)
    await expect(page.get_by_role("heading", name=CASES)).to_be_in_viewport()
    await expect(page.get_by_label("Contradicted", exact=True)).to_have_value(f"{NETWORK}/b")


async def test_a_case_opens_to_the_call_and_each_answer_and_one_that_nobody_could_decide_blames_nobody(
    page: Page,
) -> None:
    rows = table(page, CASES).locator("tr.row")
    await expect(rows.nth(0)).to_contain_text("✖b")
    await expect(rows.nth(0)).to_contain_text("61\u202f200\u202f000")
    await expect(rows.nth(0)).to_contain_text('balance: "0x29" of b, "0x2a" of a')
    await rows.nth(0).get_by_role("button").click()
    detail = table(page, CASES).locator("tr.detail:visible")
    await expect(detail.get_by_label("Params")).to_have_text('["one1a0x4d", 61200000]')
    answers = detail.locator(".samples > li")
    await expect(answers).to_have_count(3)
    await expect(answers.nth(0)).to_contain_text("contradicted by two others")
    await expect(answers.nth(0)).to_contain_text('{"balance":"0x29"}')
    await expect(answers.nth(1)).not_to_contain_text("contradicted")
    await expect(answers.nth(1)).to_contain_text("head 61\u202f204\u202f000")
    await rows.nth(0).get_by_role("button").click()
    await page.get_by_label("Contradicted", exact=True).select_option("nobody could decide")
    await expect(rows).to_have_count(1)
    await rows.get_by_role("button").click()
    await expect(detail).to_contain_text("none is blamed")
    await expect(answers.nth(0)).to_contain_text("the first 2\u202f000 characters of 412\u202fkB")
    await expect(answers.nth(1)).to_contain_text("head –2 bytes")
    await rows.get_by_role("button").click()
    await page.get_by_label("Contradicted", exact=True).select_option("c")
    await rows.get_by_role("button").click()
    await expect(detail).to_contain_text("The answer of c contradicts the call, or its block: nobody was given it")
    await expect(detail).to_contain_text("What is wrong: it has another hash of block 61100000 than the branch")
    await expect(answers).to_have_count(1)
    await expect(answers).to_contain_text("✖disproved")


async def test_where_nothing_is_suggested_the_reason_is_said_and_without_cases_the_view_says_how_it_fills(
    visitor: Visitor, start: Start, view: SampleView, control: SampleControl
) -> None:
    page = await visitor.open((await start(view, control)).address, "nodes")
    block = page.locator(".suggestion")
    await expect(block).to_contain_text("None other than those in force: too early to compare")
    await expect(block.get_by_role("button", name="Use these weights")).to_be_hidden()
    said = "Answers about final blocks are compared with those of a second node: 1 in 200."
    await expect(page.locator("main")).to_contain_text(f"No two nodes differed yet. {said}")
    await page.get_by_role("link", name="How many are compared").click()
    await expect(page.get_by_role("heading", name="Examination and agreement")).to_be_in_viewport()


# -- worth -----------------------------------------------------------------------------------------------------------


async def test_what_a_node_is_worth_is_told_against_the_others_quietly_where_all_agree_over_the_hour_or_the_day(
    page: Page,
) -> None:
    agreed = row(page, WORTH, "a").locator("td[data-title=Agreement]")
    await expect(agreed).to_have_text("0 of 512 wrong · 1 undecided")
    await expect(agreed.locator(".isbad, .iswarn")).to_have_count(0)
    disproved = row(page, WORTH, "c").locator("td[data-title=Agreement]")
    await expect(disproved).to_have_text("1 disproved")
    await expect(disproved.locator(".isbad")).to_have_count(1)
    b = row(page, WORTH, "b")
    await expect(b.locator('td[data-title="Against the others"]')).to_have_text(re.compile(r"^\d\.\d\d× \(\d\.\d\d–\d"))
    await expect(b.locator("td[data-title=Failed]")).to_have_text(re.compile(r"^\d+ · \d"))
    await expect(b.locator("td[data-title=Failed] span").first).to_have_attribute("title", re.compile(r"^\d+ "))
    await expect(b.locator('td[data-title="Lost hedges"]')).to_have_text("1")
    await expect(page.locator("main")).to_contain_text("in the last hour, of which there are")
    await expect(table(page, WORTH).get_by_role("columnheader", name="Cost")).to_have_count(0)
    await b.get_by_role("button").click()
    detail = table(page, WORTH).locator("tr.detail:visible")
    await expect(detail).to_contain_text("Errors by kind")
    await expect(detail.locator("table.methods tbody tr", has_text="hmyv2_call")).to_contain_text("×")
    over = page.get_by_role("group", name="Report over")
    async with page.expect_response(re.compile(r"report\?over=day")):
        await over.get_by_role("button", name="24 h").click()
    await expect(page.locator("main")).to_contain_text("in the last day, of which there are")
    await over.get_by_role("button", name="1 h").click()
    await expect(page.locator("main")).to_contain_text("in the last hour, of which there are")


async def test_a_quota_that_will_not_last_is_warned_of_and_a_price_gives_a_column(
    visitor: Visitor, start: Start, view: SampleView
) -> None:
    limited(view)
    settings = sample_settings(admin={"currency": "EUR"}).model_dump()
    settings["networks"][NETWORK]["price"] = 25.0
    control = SampleControl(type(sample_settings()).model_validate(settings))
    admin = await start(view, control)
    busy(view, admin)
    page = await visitor.open(admin.address, "nodes")
    quota = row(page, WORTH, "b").locator('td[data-title^="Quota"]')
    await expect(quota).to_contain_text("90.0\u202f% → ▲ ")
    await expect(quota.locator(".iswarn")).to_have_count(1)
    await expect(row(page, WORTH, "a").locator("td[data-title=Cost]")).to_contain_text("EUR")
    await expect(table(page, WORTH).get_by_role("columnheader", name="Units")).to_have_count(0)


async def test_what_a_provider_bills_has_a_column_and_a_node_without_costs_says_that_a_call_is_one_unit(
    visitor: Visitor, start: Start, view: SampleView
) -> None:
    settings = sample_settings().model_dump()
    settings["networks"][NETWORK]["price"] = 25.0
    view.node_list[0] = replace(view.node_list[0], unit="credits")
    admin = await start(view, SampleControl(type(sample_settings()).model_validate(settings)))
    busy(view, admin)
    page = await visitor.open(admin.address, "nodes")
    billed = row(page, WORTH, "a").locator("td[data-title=Units]")
    await expect(billed).to_have_text(re.compile(r"^\d\S* credits$"))
    for column in ("Units", "Cost"):
        cell = row(page, WORTH, "b").locator(f"td[data-title={column}] span").first
        await expect(cell).to_have_attribute("title", "it has no costs: each of its calls is priced as one unit")
    assert await row(page, WORTH, "a").locator("td[data-title=Cost] span").first.get_attribute("title") is None


async def test_the_report_is_asked_for_by_the_nodes_view_alone_not_each_second_and_one_that_fails_is_said(
    visitor: Visitor, admin: Admin
) -> None:
    visitor.expected = ["503"]
    page = await visitor.open(admin.address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    await expect(page.locator(".reading").first).to_be_visible()
    assert REPORT not in asked
    await page.evaluate("location.hash = '#/nodes'")
    await expect(table(page, WORTH)).to_be_visible()
    async with page.expect_response(re.compile("/api/v1/nodes$")):
        pass
    async with page.expect_response(re.compile("/api/v1/nodes$")):
        pass
    assert asked.count(REPORT) == 1

    await page.evaluate("location.hash = '#/overview'")
    await expect(table(page, WORTH)).to_have_count(0)
    await page.route("**/nodes/report*", lambda route: route.fulfill(status=503, json={"title": "too busy"}))
    await page.evaluate("location.hash = '#/nodes'")
    await expect(page.locator("main")).to_contain_text(
        "The report could not be read, and is asked for again: too busy."
    )
    await expect(row(page, "Nodes", "a")).to_contain_text("serving")
    await expect(page.locator("#lost")).to_be_hidden()


# -- suggested weights -----------------------------------------------------------------------------------------------


async def test_suggested_weights_are_collected_by_a_press_applied_by_the_bar_and_undone(
    page: Page, control: SampleControl
) -> None:
    before = weights(control)
    block, bar = page.locator(".suggestion"), page.locator(".bar")
    await expect(block).to_contain_text("By the last hour: the mean would have been")
    a = block.locator("tbody tr").nth(0)
    shown = await a.locator("td").nth(1).inner_text()
    await expect(a).to_contain_text(re.compile(r"ms against .* of b for the same \d+ methods"))
    await block.get_by_role("button", name="Use these weights").click()
    await expect(bar).to_contain_text("1 change")
    assert weights(control) == before
    await apply(page)
    assert shown.endswith(f" {weights(control)['a']}")
    assert weights(control) != before
    await bar.get_by_role("button", name="Undo").click()
    await expect(bar).to_contain_text("Revision 3")
    assert weights(control) == before


async def test_what_is_about_to_be_pressed_does_not_change_and_a_new_case_moves_no_row_under_the_pointer(
    page: Page, admin: Admin, view: SampleView, control: SampleControl
) -> None:
    block = page.locator(".suggestion")
    button = block.get_by_role("button", name="Use these weights")
    await button.hover()
    seen = await block.inner_text()
    await page.evaluate(ASK_SOON)
    view.tally.node(NETWORK, "a").calls += 100_000
    async with page.expect_response(re.compile("/nodes/report")):
        busy(view, admin, 2)
    await expect(row(page, WORTH, "a")).to_contain_text("k")
    assert await block.inner_text() == seen

    rows = table(page, CASES).locator("tr.row")
    await expect(rows).to_have_count(4)
    await rows.nth(1).hover()
    control.cases.insert(0, sample_case(at=1_900_000_000.0, method="hmyv2_getCode"))
    await page.evaluate(ASK_SOON)
    await expect(rows).to_have_count(5)
    await expect(rows.nth(4)).to_contain_text("hmyv2_getCode")


ASK_SOON = """() => {
    const real = performance.now.bind(performance);
    performance.now = () => real() + 11_000;
}"""


# -- all of it -------------------------------------------------------------------------------------------------------


async def test_a_node_is_examined_again_by_a_press_and_what_the_page_asks_for_is_described_and_answered_so(
    page: Page, admin: Admin, view: SampleView
) -> None:
    found = describe(ROUTES, lambda _: None)
    await expect(table(page, WORTH)).to_be_visible()
    async with page.expect_response(re.compile("/nodes/report")) as answered:
        await page.evaluate(ASK_SOON)
    assert problems(found, "GET", REPORT, await (await answered.value).json()) == []
    calls: list[tuple[str, str]] = []
    page.on("request", lambda one: calls.append((one.method, urlsplit(one.url).path)))
    detail = await known(page, "a")
    await detail.get_by_role("button", name="Examine again").click()
    word = detail.locator(".buttons", has_text="Examine again").get_by_role("status")
    await expect(word).to_contain_text("it goes on serving meanwhile")
    view.node_list[0] = replace(view.node_list[0], examination=replace(well_examined(), at=AT + 60))
    busy(view, admin, 1)
    await expect(word).to_contain_text("Examined anew at")
    assert [path for method, path in calls if method == "POST"] == [f"/api/v1/nodes/{NETWORK}/a/examine"]
    assert "post" in found["paths"]["/api/v1/nodes/{network}/{id}/examine"]
