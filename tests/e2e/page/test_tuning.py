"""Tuning on the page, in a real browser: edits are collected, applied together, seen by other pages, and undone."""

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.tuning import act, in_force, log_in, reader, weight
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "nodes")


@pytest.mark.smoke
async def test_several_edits_are_collected_and_applied_together(page: Page, control: SampleControl) -> None:
    await weight(page, "a").fill("1")
    await weight(page, "b").fill("3")
    bar = page.locator(".bar")
    await expect(bar).to_contain_text("2 changes")
    await expect(bar).to_contain_text("node a: weight 5 → 1")
    await expect(page.locator("tr.row", has_text="b.example").or_(page.locator(".tune").nth(1))).to_contain_text(
        "3 of 4"
    )
    assert control.published == []
    await page.get_by_role("button", name="Apply").click()
    await expect(bar).to_contain_text("1 of 1 worker has it")
    assert len(control.published) == 1
    assert (in_force(control, "a"), in_force(control, "b")) == (1, 3)


async def test_what_is_applied_names_the_workers_that_do_not_have_it_yet(page: Page, control: SampleControl) -> None:
    control.lagging.append("w2")
    await weight(page, "a").fill("8")
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(page.locator(".bar")).to_contain_text("1 of 2 workers have it, not yet w2")


async def test_what_a_drain_takes_from_a_node_is_told_before_it_is_applied(page: Page) -> None:
    await act(page, "a", "Drain")
    await expect(page.locator(".tune").first).to_contain_text("71.4\u202f% now, then no calls")


async def test_a_slider_moves_by_one_with_the_arrow_keys_and_mirrors_the_number(page: Page) -> None:
    slider = page.get_by_label("Weight of node a", exact=True)
    await slider.focus()
    await page.keyboard.press("ArrowRight")
    await expect(weight(page, "a")).to_have_value("6")
    await weight(page, "a").fill("5")
    await expect(page.locator(".bar")).to_be_hidden()  # back to what is in force is no change


async def test_a_change_is_undone_with_a_click(page: Page, control: SampleControl) -> None:
    await weight(page, "a").fill("9")
    await page.keyboard.press("Control+Enter")
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(weight(page, "a")).to_have_value("5")
    assert in_force(control, "a") == 5


async def test_two_pages_see_each_others_changes(page: Page, visitor: Visitor, admin: Admin) -> None:
    other = await visitor.open(admin.address, "nodes")
    await expect(weight(other, "a")).to_have_value("5")
    await weight(page, "a").fill("8")
    await page.get_by_role("button", name="Apply").click()
    await expect(weight(other, "a")).to_have_value("8")
    await expect(other.locator("#revision")).to_contain_text("revision 2")


async def test_an_edit_survives_a_change_made_elsewhere_and_says_so(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["412"]
    await weight(page, "a").fill("8")
    stale = {"if-match": '"999"'}
    await page.route("**/api/v1/settings", lambda route: route.continue_(headers={**route.request.headers, **stale}))
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Somebody changed the settings meanwhile")
    await expect(weight(page, "a")).to_have_value("8")
    assert in_force(control, "a") == 5
    await page.unroute("**/api/v1/settings")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("networks.harmony-s0.nodes.a.weight: 5 -> 8")


@pytest.mark.smoke
async def test_a_refused_change_is_told_and_changes_nothing(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["409"]
    control.refusal = "w1: not enough memory"
    await weight(page, "a").fill("8")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("not enough memory")
    assert in_force(control, "a") == 5


async def test_a_field_that_is_wrong_is_named(page: Page, visitor: Visitor) -> None:
    visitor.expected = ["422"]
    await page.get_by_role("button", name="Add a node").click()
    await page.get_by_label("Name").fill("d")
    await page.get_by_label("Address").fill("ftp://d.example")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator("form .said")).to_contain_text("url")
    await expect(page.locator(".bar")).to_be_hidden()


async def test_a_node_is_added_and_removed_and_removing_is_asked_about(page: Page, control: SampleControl) -> None:
    await page.get_by_role("button", name="Add a node").click()
    await page.get_by_label("Name").fill("d")
    await page.get_by_label("Address").fill("https://d.example")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 2")
    assert [node.id for node in control.ledger.settings.networks[NETWORK].nodes] == ["a", "b", "c", "d"]
    await act(page, "a", "Remove")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog")).to_contain_text("Node a is removed")
    await page.get_by_role("button", name="Cancel").click()
    assert len(control.ledger.settings.networks[NETWORK].nodes) == 4
    await page.get_by_role("button", name="Apply").click()
    await page.locator("dialog").get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 3")
    assert [node.id for node in control.ledger.settings.networks[NETWORK].nodes] == ["b", "c", "d"]


async def test_draining_the_last_node_is_asked_about(page: Page) -> None:
    for node in "ab":
        await act(page, node, "Drain")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog")).to_contain_text("every call that is not cached would fail")


async def test_a_method_gets_a_rule_of_its_own_and_loses_it_again(
    page: Page, admin: Admin, control: SampleControl
) -> None:
    await page.goto(f"http://{admin.address}/#/methods")
    await page.get_by_role("button", name="hmyv2_call", exact=True).click()
    await page.get_by_label("kept", exact=True).select_option("off")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 2")
    assert control.ledger.settings.networks[NETWORK].rules["hmyv2_call"].cache == "off"
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(page.get_by_label("kept", exact=True)).to_have_value("")
    assert control.ledger.settings.networks[NETWORK].rules == {}


async def test_an_error_is_classed_by_a_rule_that_was_tried_first(
    page: Page, admin: Admin, control: SampleControl
) -> None:
    await page.goto(f"http://{admin.address}/#/errors")
    await page.get_by_role("button", name="is on holiday").click()
    await page.get_by_role("button", name="Try").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("the rule you try")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 2")
    (rule,) = control.ledger.settings.networks[NETWORK].error_rules
    assert rule.kind == "rate-limited"


async def test_the_record_shows_who_changed_what_and_goes_back(
    page: Page, admin: Admin, control: SampleControl
) -> None:
    for wanted in ("6", "7"):
        await weight(page, "a").fill(wanted)
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator(".bar")).to_contain_text("worker has it")
    await page.goto(f"http://{admin.address}/#/changes")
    await page.get_by_role("button", name="weight: 5 -> 6").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("networks.harmony-s0.nodes.a.weight")
    await page.get_by_role("button", name="Go back to before this").click()
    await page.locator("dialog").get_by_role("button", name="Go back").click()
    await expect(page.locator("#revision")).to_contain_text("revision 4")
    assert in_force(control, "a") == 5


async def test_a_reader_looks_and_cannot_change(visitor: Visitor) -> None:
    visitor.expected = ["401"]  # of a wrong password
    async with reader(visitor, "nodes") as (page, _):
        await log_in(page, "guest", "wrong")
        await expect(page.get_by_role("alert")).to_contain_text("wrong")
        await log_in(page, "guest")
        await expect(page.locator("main")).to_contain_text("You may look, not change")
        await expect(page.locator(".tune b").first).to_have_text("5")
        await expect(weight(page, "a")).to_have_count(0)
        await page.get_by_role("button", name="Log out guest").click()
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()


async def test_nothing_may_be_changed_before_it_is_known_who_looks(page: Page, visitor: Visitor) -> None:
    visitor.expected = ["500"]
    await expect(weight(page, "a")).to_be_enabled()
    await page.route("**/api/v1/session", lambda route: route.fulfill(status=500, json={"title": "out of order"}))
    await page.reload()
    await expect(page.locator("#lost")).to_contain_text("out of order")
    await expect(page.locator(".tune")).to_have_count(0)
    await page.unroute("**/api/v1/session")
    await expect(weight(page, "a")).to_be_enabled()
