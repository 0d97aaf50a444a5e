"""A call that was run on the page: its time adds up, and its answer is laid out in lines and bounded."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from playwright.async_api import Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.core.plan.rules import SkipTest
from tests.support.browser import Visitor
from tests.support.fixtures import shared


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "explain")


async def run(page: Page, timing: str, seconds: float, body: str = "{}") -> None:
    headers = {"server-timing": timing, "x-rpcaccel-cache": "miss"}
    ran = {"status": 200, "headers": headers, "seconds": seconds, "size": len(body), "body": body}
    await page.unroute_all()
    await page.route("**/api/v1/run", lambda route: route.fulfill(json=ran))
    async with page.expect_response("**/api/v1/run"):
        await page.get_by_role("button", name="Run it").click()


ATTEMPTS = 'attempt;desc="a timeout";start=0;dur=247, attempt;desc="b answered";start={};dur={}'


@pytest.mark.parametrize(
    ("timing", "seconds", "rows"),
    [
        (
            f"memory;dur=1, forward;dur=324, {ATTEMPTS.format(250, 73)}, total;dur=329",
            0.342,
            ["looking in memory 1", "asking nodes 324", "a timeout 247", "b answered 73", "no node was asked 4",
             "the rest of the proxy's work 4", "to the proxy and back 13", "in all 342"],
        ),
        (
            f"forward;dur=300, {ATTEMPTS.format(200, 100)}, total;dur=300",  # a hedge: both were asked at once
            0.3,
            ["asking nodes 300", "a timeout 247", "b answered 100", "in all 300"],
        ),
        ("total;dur=2", 0.009, ["the proxy itself 2", "to the proxy and back 7", "in all 9"]),
    ],
)  # fmt: skip
async def test_the_rows_of_a_run_add_up_to_its_time_and_what_is_in_no_step_has_its_own(
    page: Page, timing: str, seconds: float, rows: list[str]
) -> None:
    await run(page, timing, seconds)
    found = await page.evaluate(
        """async ([timing, seconds]) => {
            const { rowsOf } = await import("/src/views/waterfall.js");
            return rowsOf(timing, seconds).map(({ name, words, seconds }) =>
                [name, words, Math.round(seconds * 1000)].filter((one) => one !== undefined).join(" "));
        }""",
        [timing, seconds],
    )
    assert found == rows
    await expect(page.locator(".waterfall tr")).to_have_count(len(rows))


async def test_an_answer_is_laid_out_in_lines_as_it_was_written_and_its_beginning_alone_is_shown(page: Page) -> None:
    await run(page, "total;dur=2", 0.002, '{"id":1,"result":{"big":12345678901234567890,"none":[],"all":["a,b}",{}]}}')
    await expect(page.locator(".answer")).to_have_text(
        '{\n  "id": 1,\n  "result": {\n    "big": 12345678901234567890,\n    "none": [],\n    "all": [\n'
        '      "a,b}",\n      {}\n    ]\n  }\n}',
        use_inner_text=True,
    )
    await run(page, "total;dur=2", 0.002, json.dumps([["x" * 100] * 10] * 100))
    await expect(page.locator("main")).to_contain_text("the first 4000 characters of 104")
    assert len(await page.locator(".answer").inner_text()) < 5000
    await run(page, "total;dur=2", 0.002, "[" * 60_000)
    await expect(page.locator(".answer")).to_contain_text("…")
    assert len(await page.locator(".answer").inner_text()) < 120_000
    await run(page, "total;dur=2", 0.002, "<p>no JSON, {here}</p>")
    await expect(page.locator(".answer")).to_have_text("<p>no JSON, {here}</p>")


async def test_why_an_answer_was_not_kept_for_long_says_of_each_whether_it_was_kept_until_the_next_head(
    page: Page,
) -> None:
    kept = {*get_args(SkipTest), "not-final", "fills-later", "unproven"} - {"not-mined"}
    found = await page.evaluate(
        """async (reasons) => {
            const { skipped } = await import("/src/parts.js");
            return reasons.map((one) => skipped({ [one]: 1 }).querySelector("td").textContent.split(":")[0]);
        }""",
        [*sorted(kept), "class", "too-large", "above-head", "pending", "short-range"],
    )
    assert found == ["until the next head"] * len(kept) + ["not kept"] * 5
