"""Settings, keys and limits on the page: described by the server, checked at the field, applied together, undone."""

import asyncio
from collections.abc import Mapping

import pytest
from playwright.async_api import Page, Route, expect

from rpcaccel.config.schema import described
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core import client_limits
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import apply, field
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

KNOWN = "import('/src/store.js').then(({ store }) => store.current.revision)"
"""The revision of the settings that a page has."""
HASH = client_limits.hashed(client_limits.make(bytes(client_limits.RANDOM_BYTES)))


class ViewOf(SampleView):
    """Made-up figures of the clients that the settings really have."""

    def __init__(self, control: SampleControl) -> None:
        super().__init__()
        self.control = control

    def settings(self) -> Mapping[str, object]:
        return {"clients": self.control.ledger.settings.clients.model_dump(mode="json")}


@pytest.fixture
def view(control: SampleControl) -> SampleView:
    return ViewOf(control)


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "settings")


async def test_every_described_setting_has_its_field_in_its_group_with_explanation_and_default_and_is_found_by_filter(
    page: Page,
) -> None:
    await expect(page.locator(".setting").first).to_be_visible()
    shown = set(await page.locator(".setting > label").evaluate_all("all => all.map(one => one.title)"))
    # There is no Redis here; nodes have theirs in Nodes, and holders of keys in Clients.
    elsewhere = ("redis.", "networks.*.nodes.", "clients.keys.")
    wanted = {one.path.replace("*", NETWORK) for one in described() if not one.path.startswith(elsewhere)}
    assert shown == wanted - {
        f"networks.{NETWORK}.balancer",
        f"networks.{NETWORK}.hash_key",
        f"networks.{NETWORK}.weights",
    }
    size = page.locator(".setting", has_text="Memory for answers")
    await expect(size).to_contain_text("Bytes of the tier, with keys")
    await expect(size).to_contain_text("Default: 256 MB")
    names = await page.locator(".setting > label").evaluate_all("all => all.map(one => [one.title, one.textContent])")
    keys = {path: path.removeprefix(f"networks.{NETWORK}.").replace(".", " · ").replace("_", " ") for path, _ in names}
    assert [path for path, name in names if name == keys[path]] == []  # each has a name in words, not its key's

    group = page.locator(".group", has=page.get_by_role("heading", name="WebSockets"))
    await expect(group.locator(".setting")).to_have_count(9)
    labels = await group.locator(".setting > label").all_inner_texts()
    assert labels[0] == "Clients may open WebSockets"
    assert not any("·" in label for label in labels), labels
    await expect(group.get_by_label("Unread by a client, at most", exact=True)).to_have_value("4 MiB")

    await page.keyboard.press("/")
    await page.keyboard.type("hedge.quantile")
    await expect(page.locator(".setting:visible")).to_have_count(1)
    await page.get_by_label("Filter settings").fill("nothing has this")
    await expect(page.locator("main")).to_contain_text("No setting here has")


SOUGHT = {
    "timeout": ("networks.*.deadline", "http.read_timeout"),
    "cache size": ("memory.size", "disk.size"),
    "retries": ("networks.*.attempts", "networks.*.budget.share"),
    "rate limit": ("clients.anonymous.rate", "clients.anonymous.burst"),
    "password": ("clients.require_key", "tls_key"),
    "log": ("log.level", "log.access"),
    "size memory": ("memory.size",),
}
"""What people look for, and some of the settings that they then mean."""


async def test_the_filter_finds_settings_by_what_people_call_them(page: Page) -> None:
    await expect(page.locator(".setting").first).to_be_visible()
    for words, meant in SOUGHT.items():
        await page.get_by_label("Filter settings").fill(words)
        found = await page.locator(".setting:visible > label").evaluate_all("all => all.map(one => one.title)")
        assert {path.replace("*", NETWORK) for path in meant} <= set(found), words
        assert len(found) <= 16, words  # a sixth of all


async def test_settings_of_several_kinds_are_applied_together_and_undone_and_memory_is_tuned_beside_its_tier_too(
    page: Page, control: SampleControl
) -> None:
    await field(page, "Memory for answers, per worker").fill("512 MiB")
    await field(page, "Hedge no earlier than").fill("250ms")
    await field(page, "Nodes asked for one call").fill("5")
    await page.get_by_label("Level", exact=True).select_option("debug")
    await page.get_by_label("Log each call", exact=True).check()
    await field(page, "Methods refused").fill("debug_*, trace_call")
    await expect(page.locator(".bar")).to_contain_text("6 changes")
    await expect(page.locator(".bar")).to_contain_text("Memory for answers, per worker 256 MB → 512 MiB")
    await apply(page)
    settings = control.ledger.settings
    network = settings.networks[NETWORK]
    assert (settings.memory.size, network.hedge.at_least, network.attempts) == (512 * 2**20, 0.25, 5)
    assert (settings.log.level, settings.log.access, settings.http.deny) == ("debug", True, ("debug_*", "trace_call"))
    assert len(control.published) == 1
    await expect(page.locator(".bar")).to_contain_text("Revision 2: Memory for answers, per worker 256 MB → 512 MiB")
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(field(page, "Memory for answers, per worker")).to_have_value("256 MB")
    assert control.ledger.settings.memory.size == 256_000_000

    await page.evaluate("location.hash = '#/cache'")
    await field(page, "Longest answer kept").fill("1 MB")
    await apply(page)
    assert control.ledger.settings.memory.max_entry == 1_000_000


@pytest.mark.smoke
async def test_what_is_wrong_is_said_at_its_field_and_a_setting_goes_back_to_its_default_by_a_click_or_when_emptied(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected = ["422"]
    quantile = field(page, "Hedge calls slower than")
    await quantile.fill("1.5")
    await field(page, "Time to receive a request").fill("soon")
    row = page.locator(".setting", has=quantile)
    await expect(row.get_by_role("alert")).to_have_text("expected less than 1.0")
    await expect(quantile).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
    await quantile.fill("0.9")
    await expect(row.get_by_role("alert")).to_be_hidden()
    await field(page, "Time to receive a request").fill("20 s")
    await field(page, "Nodes asked for one call").fill("7")
    await field(page, "Blocks until final").fill("12")
    await apply(page)
    network = control.ledger.settings.networks[NETWORK]
    assert (network.hedge.quantile, network.attempts, network.finality_depth) == (0.9, 7, 12)
    assert control.ledger.settings.http.read_timeout == 20

    await page.get_by_role("button", name="Nodes asked for one call: back to 3").click()
    await field(page, "Blocks until final").fill("")
    await apply(page)
    network = control.ledger.settings.networks[NETWORK]
    assert (network.attempts, network.finality_depth) == (3, None)


async def test_of_several_networks_the_one_that_is_picked_is_tuned(
    visitor: Visitor, start: Start, view: SampleView
) -> None:
    networks = {name: {"nodes": ["http://a.example,id=a"]} for name in (NETWORK, "harmony-s1")}
    control = SampleControl(sample_settings(networks=networks))
    page = await visitor.open((await start(view, control)).address, "settings")
    await page.get_by_role("button", name="harmony-s1", exact=True).click()
    await field(page, "Nodes asked for one call").fill("9")
    await apply(page)
    told = control.ledger.settings.networks
    assert (told[NETWORK].attempts, told["harmony-s1"].attempts) == (3, 9)


async def test_a_key_is_shown_once_and_its_holder_limited_disabled_and_removed(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    page = await visitor.open(admin.address, "clients")
    await page.get_by_role("button", name="Make a key").click()
    await page.get_by_label("Name of the holder").fill("alice")
    await page.get_by_role("button", name="Make", exact=True).click()
    await expect(page.locator(".once code")).to_contain_text(client_limits.BEGINNING)
    key = str(await page.locator(".once code").text_content())
    assert control.ledger.settings.clients.keys == {}
    await expect(page.locator(".once")).to_contain_text("works as soon as the change below is applied")
    await apply(page)
    assert control.ledger.settings.clients.keys["alice"].hashes == (client_limits.hashed(key),)
    await expect(page.locator(".once")).to_contain_text("works now")
    await page.get_by_role("button", name="Done").click()
    await expect(page.locator("body")).not_to_contain_text(key)

    await page.get_by_role("button", name="alice", exact=True).click()
    detail = page.locator("tr.detail:visible")
    await detail.get_by_role("textbox", name="Rate", exact=True).fill("50")
    await detail.get_by_label("Cache", exact=True).select_option("off")
    await expect(field(detail, "Calls go to nodes tagged")).to_have_value("")
    await expect(page.locator(".bar")).to_contain_text("client alice: Cache as usual → off")
    await detail.get_by_role("button", name="Disable its keys").click()
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(page.locator("dialog")).to_contain_text("Client alice is disabled: its keys are refused")
    await page.locator("dialog").get_by_role("button", name="Apply").click()
    await expect(page.locator("tr.row", has_text="alice")).to_contain_text("disabled")
    holder = control.ledger.settings.clients.keys["alice"]
    assert (holder.enabled, holder.rate, holder.cache) == (False, 50, "off")

    for made in (1, 2):
        await detail.get_by_role("button", name="Another key").click()
        await expect(page.locator(".once code")).to_have_count(made)  # a second one leaves the first in sight
    await apply(page)
    assert len(control.ledger.settings.clients.keys["alice"].hashes) == 3
    await detail.get_by_role("button", name="Remove", exact=True).click()
    await page.get_by_role("button", name="Apply", exact=True).click()
    await page.locator("dialog").get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("Revision 5: client alice: remove")
    assert control.ledger.settings.clients.keys == {}


async def test_what_is_written_while_others_are_applied_or_undone_is_kept(page: Page, control: SampleControl) -> None:
    go_on = asyncio.Event()

    async def hold(route: Route) -> None:
        if route.request.method == "PATCH":
            await go_on.wait()
        await route.continue_()

    await page.route("**/api/v1/settings", hold)
    await field(page, "Nodes asked for one call").fill("7")
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(page.get_by_role("button", name="Applying …")).to_be_visible()
    await field(page, "Blocks until final").fill("12")
    go_on.set()
    await expect(page.locator(".bar")).to_contain_text("1 change not applied yet")
    await expect(page.locator(".bar")).to_contain_text("12")
    await page.evaluate("location.hash = '#/changes'")
    await page.get_by_role("button", name="Undo the last change").click()
    await expect(page.locator("main")).to_contain_text("Revision 3")
    await apply(page)
    network = control.ledger.settings.networks[NETWORK]
    assert (network.attempts, network.finality_depth) == (3, 12)
