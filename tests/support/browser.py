"""The system's Chromium, looking at the page; whatever is said on the console is kept, and should be nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, async_playwright, expect

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
SHARED = ["--process-per-site", "--renderer-process-limit=1", "--in-process-gpu"]
"""Pages share one renderer, and none draws in a process apart: a fifth less processor time for each page."""

PATIENCE = 60_000
"""Milliseconds that a page may take to show what is expected; what is there already is found at once."""

expect.set_options(timeout=PATIENCE)

VIEWS = ("overview", "methods", "nodes", "cache", "explain", "errors", "changes", "clients", "settings")


class Visitor:
    """Somebody with a browser; its pages share cookies, and what a page stored is gone for the next visitor.

    All visitors of a browser share its first context, since Chromium takes a second of processor to make one.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._pages: list[Page] = []
        self._visited: set[str] = set()
        self.said: list[str] = []
        self.expected: list[str] = []
        """Patterns of what may be said."""

    async def open(
        self,
        address: str,
        view: str = "overview",
        *,
        width: int = 1440,
        color_scheme: Literal["light", "dark"] = "light",
        reduced_motion: Literal["reduce"] | None = None,
    ) -> Page:
        """A new page at `http://ADDRESS/#/VIEW`, `width` pixels wide."""
        page = await self._browser.contexts[0].new_page()
        self._pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        await page.set_viewport_size({"width": width, "height": 1000})
        await page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        await self._forget_others(page, address)
        await page.goto(f"http://{address}/#/{view}")
        return page

    async def _forget_others(self, page: Page, address: str) -> None:
        """Clear what earlier visitors left at an address, whose port may have been another server's."""
        if address in self._visited:
            return
        self._visited.add(address)
        session = await page.context.new_cdp_session(page)
        await session.send("Storage.clearDataForOrigin", {"origin": f"http://{address}", "storageTypes": "all"})
        await session.detach()

    async def leave(self) -> None:
        """Close every page that was opened, and forget who logged in."""
        for page in self._pages:
            await page.context.clear_cookies()
            await page.close()

    def unexpected(self, words: Sequence[str] = ()) -> list[str]:
        """What was said and nobody expected."""
        return [text for text in self.said if not any(re.search(word, text) for word in (*self.expected, *words))]


async def resize(page: Page, width: int, height: int = 1000) -> None:
    """Make the window of a page that large, and wait until the page was laid out and drawn anew."""
    await page.set_viewport_size({"width": width, "height": height})
    await page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


@asynccontextmanager
async def browsing(chromium: Path) -> AsyncIterator[Browser]:
    """A browser that is started once and serves many visitors."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS + SHARED)
        # The page that stays open holds the window, which costs as much to open as the context.
        await (await browser.new_context()).new_page()
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(browser: Browser) -> AsyncIterator[Visitor]:
    """A visitor for a while; AssertionError at the end when something was said on a console."""
    visitor = Visitor(browser)
    try:
        yield visitor
    finally:
        await visitor.leave()
    assert not visitor.unexpected(), visitor.unexpected()
