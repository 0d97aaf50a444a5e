"""Alerts on the page: a sentence is muted, webhooks are added, tested and removed, a reader only looks."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace
from playwright.async_api import expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.settings.ledger import Author
from rpcaccel.controlplane.stats.snapshot import Notice
from tests.e2e.page.test_axe import grave
from tests.e2e.page.tuning import apply, field
from tests.support.browser import Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView
from tests.support.webhook_receiver import WebhookReceiver, receiving_webhooks


@shared
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with receiving_webhooks() as receiver:
        yield receiver


@shared
async def control(receiver: WebhookReceiver) -> AsyncIterator[SampleControl]:
    control = SampleControl(sample_settings(alerts={"after": 0, "webhooks": {"ops": {"url": receiver.url}}}))
    yield control
    await control.alerts.stop()


async def test_a_webhook_is_sent_a_test_and_webhooks_are_added_and_removed_like_every_other_change(
    visitor: Visitor, admin: Admin, control: SampleControl, receiver: WebhookReceiver
) -> None:
    page = await visitor.open(admin.address, "settings/alerts")
    row = page.get_by_role("region", name="Webhooks")
    await expect(row).to_contain_text("http://127.0.0.1:")
    await expect(row).to_contain_text("takes messages")
    await page.get_by_role("button", name="Send a test to ops").click()
    word = page.locator(".group .said")
    await expect(word).to_contain_text("ops took the test after")
    await expect(word).to_contain_text("(HTTP 200)")
    receiver.status = 404
    await page.get_by_role("button", name="Send a test to ops").click()
    await expect(word).to_contain_text("ops did not take the test: HTTP 404: it does not take the message")
    assert "S3cret" not in await page.content()
    assert [body["status"] for body in receiver.bodies].count("test") == 2

    await page.get_by_role("button", name="Add a webhook").click()
    await field(page, "name").fill("chat")
    await page.get_by_label("address", exact=True).fill(f"{receiver.url}/chat")
    await page.get_by_label("tells").select_option("what is red")
    await page.get_by_role("button", name="Add to the pending changes").click()
    await expect(page.locator(".bar")).to_contain_text("webhook chat: add")
    assert "S3cret" not in await page.locator(".bar").inner_text()
    await apply(page)
    added = control.ledger.settings.alerts.webhooks["chat"]
    assert (added.url.reveal(), added.format, added.least) == (f"{receiver.url}/chat", "slack", "bad")
    await page.get_by_role("button", name="Remove ops").click()
    await apply(page)
    await expect(page.get_by_role("button", name="Send a test to ops")).to_have_count(0)
    assert list(control.ledger.settings.alerts.webhooks) == ["chat"]


async def test_a_sentence_of_attention_is_muted_and_goes_on_being_shown(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    page = await visitor.open(admin.address)
    line = page.locator(".first .notices li", has_text="14 blocks behind")
    await line.get_by_role("button", name="Mute: harmony-s0/c").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("what").select_option("harmony-s0 and its nodes")
    await dialog.get_by_label("for").select_option("4 hours")
    await dialog.get_by_label("reason").fill("new disks")
    assert await grave(page, "dialog") == []
    await dialog.get_by_role("button", name="Mute", exact=True).click()
    await expect(line).to_contain_text("muted until")
    (mute,) = control.alerts.mutes.in_force()
    assert (mute.what, mute.until - mute.at, mute.reason) == ("harmony-s0", 14_400, "new disks")
    await page.evaluate("location.hash = '#/settings/alerts'")
    await expect(page.locator(".group", has_text="new disks")).to_contain_text("harmony-s0 muted until")
    assert await grave(page, ".group:has(.said)") == []
    await page.evaluate("location.hash = '#/overview'")
    await line.get_by_role("button", name="End mute: harmony-s0/c").click()
    await expect(page.get_by_role("dialog")).to_contain_text("It is about harmony-s0")
    await page.get_by_role("button", name="End it").click()
    await expect(line.get_by_role("button", name="Mute: harmony-s0/c", exact=True)).to_be_visible()
    assert control.alerts.mutes.in_force() == []


async def test_a_button_keeps_the_focus_while_sentences_change_come_and_go_and_an_endless_word_is_broken(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address)
    lines = page.locator(".first .notices li")
    line = lines.filter(has_text="blocks behind")
    button = line.get_by_role("button", name="Mute: harmony-s0/c")
    await button.focus()
    view.node_list[2] = replace(view.node_list[2], why="15 blocks behind; it gets no calls about newer blocks")
    await expect(line).to_contain_text("15 blocks behind")
    await expect(button).to_be_focused()
    for notices in ([Notice("bad", "other", "another matter", "other")], []):
        view.notices = notices
        view.advance(1.0, load=0.2)
        await expect(lines.filter(has_text="another matter")).to_have_count(len(notices))
        await expect(button).to_be_focused()

    await resize(page, 390)
    view.notices = [Notice("bad", "other", "x" * 500, "other")]
    view.advance(1.0, load=0.2)
    endless = lines.filter(has_text="x" * 500)
    await expect(endless).to_be_visible()
    assert await endless.evaluate("line => line.scrollWidth <= line.clientWidth")


async def test_without_a_webhook_nothing_can_be_muted_and_the_page_says_how_to_set_one(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    await control.ledger.change({"alerts": {"webhooks": {"ops": None}}}, Author("ann", "api"))
    page = await visitor.open(admin.address)
    await expect(page.get_by_role("button", name="Mute: harmony-s0/c")).to_be_hidden()
    link = page.locator(".first").get_by_role("link", name="alerts")
    await expect(link).to_have_attribute("title", "no webhook is told")
    await link.click()
    await expect(page.locator(".group", has_text="Nobody is told")).to_contain_text("settings set alerts.webhooks.ops")
