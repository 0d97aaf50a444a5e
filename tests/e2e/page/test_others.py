"""Two who change the settings at once: each page says who changed what, from what to what, and what is against it."""

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.settings.ledger import Author
from tests.e2e.page.tuning import apply, in_force, weight
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    page = await visitor.open(admin.address, "nodes")
    await expect(weight(page, "a")).to_have_value("5")
    return page


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
