"""The tier on disk, wherever the page shows it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView

DISK = {"disk": {"path": "/var/cache/rpcaccel", "size": "50GB"}}
BOTH = {**DISK, "redis": {"url": "redis://127.0.0.1"}}


@pytest.fixture
def control() -> SampleControl:
    """Settings with a tier on disk, and with Redis."""
    return SampleControl(sample_settings(**BOTH))


@pytest.fixture
def view() -> SampleView:
    """Figures of a host with a tier on disk."""
    return SampleView(disk=True)


async def tier(page: Page, name: str) -> dict[str, str]:
    """The cells of a tier's row by their titles."""
    row = page.get_by_role("region", name="Cache tiers").locator("tr.row", has_text=name)
    await expect(row).to_be_visible()
    cells = await row.locator("td").evaluate_all("all => all.map((one) => [one.dataset.title, one.innerText])")
    return {title: text.replace("\u202f", " ") for title, text in cells}


async def test_the_disk_stands_between_memory_and_redis_and_holds_nothing_or_tells_no_figure_or_says_why_it_is_not_well(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "cache", width=1366)
    told = await tier(page, "disk")
    names = await page.get_by_role("region", name="Cache tiers").locator("tr.row td:first-child").all_inner_texts()
    assert names == ["memory", "disk", "Redis"]
    assert [told[name] for name in ("State", "Held", "Limit", "Filled")] == ["●in use", "31.4 GB", "50.0 GB", "62.8 %"]
    assert [told[name] for name in ("Stored", "Evicted", "Expired", "Purged")] == ["8.73M", "319k", "–", "812"]
    p50, p99 = told["Read p50 / p99"].split(" / ")
    assert p50.endswith("µs")
    assert p99.endswith(("µs", "ms"))
    assert "/" in (await tier(page, "Redis"))["Read p50 / p99"]
    assert (await tier(page, "memory"))["Read p50 / p99"] == "–"

    disk = view.tally.tier("disk", shared=True)
    row = page.get_by_role("region", name="Cache tiers").locator("tr.row", has_text="disk")
    disk.errors, disk.timeouts, disk.dropped = 1, 41, 7
    for up, fault, words, level in (
        (False, "no space left on the disk", "set aside", "bad"),
        (True, "its file was damaged and begun anew", "in use, with trouble", "warn"),
    ):
        disk.up, disk.fault = up, fault
        await page.evaluate("location.hash = '#/cache'")
        await expect(row).to_contain_text(fault)
        await expect(row.locator(f".state.{level}")).to_contain_text(words)
        await expect(row.locator("td").last).to_have_text("49")
        await expect(row.get_by_title("1 error, 41 too late, 7 writes given up")).to_be_visible()
        await page.evaluate("location.hash = '#/overview'")
        await page.get_by_role("link", name=fault).click()
        await expect(page).to_have_url(f"http://{admin.address}/#/cache")

    disk.fault, disk.entries, disk.bytes = "", 0, 0
    await expect(row.locator("td[data-title=Entries]")).to_have_text("0")
    told = await tier(page, "disk")
    assert (told["Held"], told["Filled"]) == ("0 B", "0 %")
    disk.up, disk.limit = False, 0
    await expect(row).to_contain_text("set aside")
    told = await tier(page, "disk")
    assert (told["Entries"], told["Held"], told["Limit"], told["Filled"]) == ("–", "–", "–", "–")


@pytest.mark.parametrize(
    ("settings", "title"), [(BOTH, "Memory / Disk / Redis"), (DISK, "Memory / Disk"), ({}, None)], ids=str
)
async def test_methods_tell_the_hit_ratio_of_each_tier_that_there_is(
    visitor: Visitor, start: Start, view: SampleView, settings: dict[str, Any], title: str | None
) -> None:
    admin = await start(view, SampleControl(sample_settings(**settings)), seconds=1, load=0.2)
    page = await visitor.open(admin.address, "methods", width=1920)
    blocks = page.locator("tr.row", has_text="hmyv2_getBlockSigners")
    await expect(blocks).to_be_visible()
    heads = await page.get_by_role("region", name="Methods").locator("th").all_inner_texts()
    assert [head.strip() for head in heads if "Memory" in head] == ([title] if title else [])
    if title:
        ratios = await blocks.locator(f'td[data-title="{title}"]').inner_text()
        assert len(ratios.split(" / ")) == len(title.split(" / "))
    view.advance(1.0, load=0.2)
    admin.sample()
    await expect(page.locator("main")).to_contain_text("reading from the disk")
    await expect(page.locator(".legend")).to_contain_text("disk")


COUNTED = {"memory": 1, "disk": 2, "store": 3, "complete": True, "dry_run": True, "workers": 1}


async def test_a_purge_counts_what_each_tier_has_and_the_room_on_the_disk_is_set_beside_the_memory(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    page = await visitor.open(admin.address, "cache")
    counted = dict(COUNTED)
    await page.route("**/api/v1/purge", lambda route: route.fulfill(json=counted))
    await expect(page.locator("main")).to_contain_text("remove kept answers in every worker, on disk and in Redis")
    await page.get_by_role("button", name="everything").click()
    await page.get_by_role("button", name="Count, then remove").click()
    await expect(page.locator("dialog")).to_contain_text("1 entry in memory, 2 on disk and 3 in Redis.")
    await page.locator("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator("main")).to_contain_text("Removed: 1 entry in memory, 2 on disk and 3 in Redis.")
    counted["complete"] = False
    await page.get_by_role("button", name="Count, then remove").click()
    await expect(page.locator("dialog")).to_contain_text(
        "in Redis; a worker, the disk or Redis did not answer for all of its own."
    )
    await page.locator("dialog").get_by_role("button", name="Cancel").click()
    await page.locator(".setting", has_text="Room on the disk").locator("input").fill("20GB")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("1 of 1 worker has it")
    assert control.ledger.settings.disk.size == 20_000_000_000


EXPLAINED = {
    "method": "hmyv2_getBlockByNumber", "network": "harmony-s0", "cache": "by-number", "why": "so", "note": "",
    "origin": "x.toml", "asked": "[1]", "forwarded": "[1]", "local": None, "live": [], "in_flight": False, "head": 9,
    "block": 1, "first_block": None, "final": True, "min_head": 1, "key": "final-key", "head_key": "head-key",
    "on_disk": ["final-key"], "shared": ["final-key", "head-key"], "keeping": [], "forced": False, "nodes": [],
    "refused": [], "proof": "proved by the hash of its block",
    "held": [{"tier": "disk", "worker": "w1", "key": "final-key", "left": None, "age": 4, "size": 700, "served": True}],
}  # fmt: skip


async def test_an_explanation_says_which_keys_may_be_on_disk_and_a_call_that_was_run_how_long_the_disk_took(
    visitor: Visitor, admin: Admin
) -> None:
    headers = {"server-timing": "disk;dur=0.4, total;dur=0.5", "x-rpcaccel-cache": "disk"}
    ran = {"status": 200, "headers": headers, "seconds": 0.0005, "size": 700, "body": "{}"}
    page = await visitor.open(admin.address, "explain")
    await page.route("**/api/v1/explain", lambda route: route.fulfill(json=EXPLAINED))
    await page.route("**/api/v1/run", lambda route: route.fulfill(json=ran))
    await page.get_by_role("button", name="Explain", exact=True).click()
    await expect(page.locator("main")).to_contain_text("final-key also on disk and in Redis")
    await expect(page.locator("main")).to_contain_text("head-key also in Redis")
    await expect(page.locator("main")).to_contain_text("proved by the hash of its block")
    await expect(page.locator("main")).to_contain_text("disk: 700\u202fB, 4.0\u202fs old")
    await page.get_by_role("button", name="Run it").click()
    await expect(page.locator("main")).to_contain_text("HTTP 200 · from disk")
    rows = ["reading from the disk400\u202fµs", "the rest of the proxy's work100\u202fµs", "in all500\u202fµs"]
    await expect(page.locator(".waterfall tr")).to_have_text(rows)
