"""Tuning on the page, in a real browser: edits are collected, applied together, seen by other pages, and undone."""

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.settings.ledger import Author
from tests.e2e.page.tuning import act, apply, field, in_force, opened, weight
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    page = await visitor.open(admin.address, "nodes")
    await expect(weight(page, "a")).to_have_value("5")
    return page


@pytest.mark.smoke
async def test_several_edits_are_applied_together_a_refused_one_changes_nothing_and_who_lacks_one_is_named(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["409"]
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

    control.refusal = "w1: not enough memory"
    await weight(page, "a").fill("8")
    await page.get_by_role("button", name="Apply").click()
    await expect(bar).to_contain_text("not enough memory")
    assert in_force(control, "a") == 1

    control.refusal = ""
    control.lagging.append("w2")
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(bar).to_contain_text("1 of 2 workers have it, not yet w2")


async def test_a_weight_that_is_none_is_told_at_its_field_and_applied_neither_alone_nor_with_others(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["422"]
    fault, applies = page.locator(".tune .fault:visible"), page.get_by_role("button", name="Apply", exact=True)
    await weight(page, "b").fill("3")
    for wrong in ("5000", "2.5"):
        await weight(page, "a").fill(wrong)
        await expect(fault).to_have_text("expected a whole number, 0 to 1000")
        await expect(applies).to_be_disabled()
        await weight(page, "b").focus()
        await expect(weight(page, "a")).to_have_value(wrong)
    await weight(page, "a").fill("")
    await expect(fault).to_have_text("expected a whole number, 0 to 1000")
    await weight(page, "a").fill("4")
    await expect(fault).to_have_count(0)
    await apply(page)
    assert (in_force(control, "a"), in_force(control, "b")) == (4, 3)


async def test_what_a_drain_takes_is_told_and_draining_the_last_node_is_asked_about_once(
    page: Page, control: SampleControl
) -> None:
    """A slider that is put back is no change; two drains leave no node, and the second Ctrl+Enter asks no more."""
    slider = page.get_by_label("Weight of node a", exact=True)
    await slider.focus()
    await page.keyboard.press("ArrowRight")
    await expect(weight(page, "a")).to_have_value("6")
    await weight(page, "a").fill("5")
    await expect(page.locator(".bar")).to_be_hidden()  # back to what is in force is no change
    await act(page, "a", "Drain")
    await expect(page.locator(".tune").first).to_contain_text("71.4\u202f% now, then no calls")
    await expect(page.locator(".bar")).not_to_contain_text("would take calls")
    tier = field(await opened(page, "b"), "Tier")
    await tier.fill("1")
    await expect(page.locator(".bar")).to_contain_text(f"All calls to nodes of {NETWORK} would go to tier 1: b.")
    await tier.fill("0")
    await act(page, "b", "Drain")
    stopped = f"No node of {NETWORK} would take calls: every call that is not cached would fail."
    await expect(page.locator(".bar").get_by_text(stopped)).to_have_count(1)
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("dialog li")).to_have_text([stopped])
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("dialog")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog")).to_be_visible()
    assert control.published == []


async def test_a_change_is_undone_with_a_click_and_by_keyboard_where_the_way_back_has_the_focus(
    page: Page, control: SampleControl
) -> None:
    await weight(page, "a").fill("9")
    await page.keyboard.press("Control+Enter")
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(weight(page, "a")).to_have_value("5")
    assert in_force(control, "a") == 5
    await weight(page, "a").fill("9")
    await page.get_by_role("button", name="Apply", exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    assert in_force(control, "a") == 9
    await page.keyboard.press("Enter")
    await expect(weight(page, "a")).to_have_value("5")
    await page.evaluate("location.hash = '#/changes'")
    newest = page.get_by_role("region", name="Changes").locator("tr.row").first
    await expect(newest).to_contain_text("node a: weight 9 → 5 · back to revision 3")
    await expect(newest).to_contain_text("adopted")


async def test_an_edit_survives_a_change_made_elsewhere_and_nothing_may_be_changed_before_it_is_known_who_looks(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["412", "500"]
    await weight(page, "a").fill("8")
    stale = {"if-match": '"999"'}
    await page.route("**/api/v1/settings", lambda route: route.continue_(headers={**route.request.headers, **stale}))
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Somebody changed the settings meanwhile")
    await expect(weight(page, "a")).to_have_value("8")
    assert in_force(control, "a") == 5
    await page.unroute("**/api/v1/settings")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 2: node a: weight 5 → 8")

    await expect(weight(page, "a")).to_be_enabled()
    await page.route("**/api/v1/session", lambda route: route.fulfill(status=500, json={"title": "out of order"}))
    await page.reload()
    await expect(page.locator("#lost")).to_contain_text("out of order")
    await expect(page.locator(".tune")).to_have_count(0)
    await page.unroute("**/api/v1/session")
    await expect(weight(page, "a")).to_be_enabled()


async def test_a_node_is_added_and_removed_removing_is_asked_about_and_a_wrong_field_is_named(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["422"]
    await page.get_by_role("button", name="Add a node").click()
    await page.get_by_label("Name").fill("d")
    await page.get_by_label("Address").fill("ftp://d.example")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator("form .said")).to_contain_text("url")
    await expect(page.locator(".bar")).to_be_hidden()
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


async def test_a_method_gets_a_rule_of_its_own_and_loses_it_and_an_error_is_classed_by_a_rule_that_was_tried(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    page = await visitor.open(admin.address, "methods")
    await page.get_by_role("button", name="hmyv2_call", exact=True).click()
    await page.get_by_label("kept", exact=True).select_option("off")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 2")
    assert control.ledger.settings.networks[NETWORK].rules["hmyv2_call"].cache == "off"
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(page.get_by_label("kept", exact=True)).to_have_value("")
    assert control.ledger.settings.networks[NETWORK].rules == {}

    rule = {"hmyv2_call": {"agree": 3, "max_age": 5}}
    await control.ledger.change({"networks": {NETWORK: {"rules": rule}}}, Author("ops", "api"))
    age = page.get_by_label("for at most, seconds")
    await expect(age).to_have_value("5")
    await age.fill("0")
    await age.blur()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 5")
    left = control.ledger.settings.networks[NETWORK].rules["hmyv2_call"]
    assert (left.agree, left.max_age) == (3, 0), "what the page does not show was lost"

    await page.evaluate("location.hash = '#/errors'")
    await page.get_by_role("button", name="is on holiday").click()
    await page.get_by_role("button", name="Try").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("Choose first what it means.")
    await page.get_by_label("Kind", exact=True).select_option("rate-limited")
    await page.get_by_role("button", name="Try").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("the rule you try")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 6")
    (rule,) = control.ledger.settings.networks[NETWORK].error_rules
    assert rule.kind == "rate-limited"


async def test_the_record_shows_who_changed_what_and_goes_back(page: Page, control: SampleControl) -> None:
    for wanted in ("6", "7"):
        await weight(page, "a").fill(wanted)
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator(".bar")).to_contain_text("worker has it")
    await page.evaluate("location.hash = '#/changes'")
    await page.get_by_role("button", name="node a: weight 5 → 6").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("networks.harmony-s0.nodes.a.weight")
    await page.get_by_role("button", name="Go back to before this").click()
    await page.locator("dialog").get_by_role("button", name="Go back").click()
    await expect(page.locator("#revision")).to_contain_text("revision 4")
    assert in_force(control, "a") == 5


def reweighted(node: str, to: int) -> dict[str, object]:
    return {"networks": {NETWORK: {"nodes": {node: {"weight": to}}}}}


@pytest.mark.smoke
async def test_a_change_in_another_tab_is_told_with_what_was_before(page: Page, visitor: Visitor, admin: Admin) -> None:
    other = await visitor.open(admin.address, "nodes")
    await weight(other, "a").fill("8")
    await apply(other)
    bar = page.locator(".bar")
    await expect(bar).to_contain_text("Somebody changed on another page: node a: weight 5 → 8 · revision 2")
    await expect(weight(page, "a")).to_have_value("8")
    await expect(page.locator("#revision")).to_contain_text("revision 2")
    await expect(other.locator(".bar")).not_to_contain_text("Somebody changed")  # it knows its own change
    await bar.get_by_role("button", name="Close").click()
    await expect(bar).to_be_hidden()


async def test_a_change_of_what_is_collected_here_says_so_until_theirs_is_taken_or_ours_replaces_it(
    page: Page, control: SampleControl
) -> None:
    await weight(page, "a").fill("9")
    await weight(page, "b").fill("3")
    await control.ledger.change(reweighted("a", 8), Author("ops", "cli"))
    bar = page.locator(".bar")
    await expect(bar).to_contain_text("ops changed by a command: node a: weight 5 → 8 · revision 2")
    await expect(bar).to_contain_text("Your change of it is not applied yet; applied, it replaces theirs.")
    await expect(bar).to_contain_text("node a: weight 8 → 9")
    await bar.get_by_role("button", name="Close").click()
    await expect(bar).to_contain_text("ops changed")  # what stands against a change of ours is not closed away
    await bar.get_by_role("button", name="Take theirs").click()
    await expect(weight(page, "a")).to_have_value("8")
    await expect(bar).to_contain_text("1 change not applied yet")
    await apply(page)
    assert (in_force(control, "a"), in_force(control, "b")) == (8, 3)

    await weight(page, "a").fill("9")
    await control.ledger.change(reweighted("a", 7), Author("ops", "api"))
    await expect(bar).to_contain_text("ops changed through the API")
    await apply(page)
    await expect(bar).not_to_contain_text("ops changed")
    assert in_force(control, "a") == 9


async def test_what_happened_before_the_page_was_opened_is_no_news(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    await control.ledger.change(reweighted("a", 8), Author("ops", "api"))
    page = await visitor.open(admin.address, "nodes")
    await expect(weight(page, "a")).to_have_value("8")
    await weight(page, "b").fill("3")
    await expect(page.locator(".bar")).to_contain_text("1 change not applied yet")
    await expect(page.locator(".bar")).not_to_contain_text("ops changed")
