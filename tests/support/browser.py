"""The system's Chromium, looking at the page; whatever is said on the console is kept, and should be nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip

PATIENCE = 60_000
"""Milliseconds that a page may take to show what is expected; what is there already is found at once."""

expect.set_options(timeout=PATIENCE)

VIEWS = ("overview", "methods", "nodes", "cache", "explain", "errors", "changes", "clients", "settings")


class Visitor:
    """Somebody with a browser; `open` gives a page with cookies and a storage of its own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._pages: list[Page] = []
        self.said: list[str] = []
        self.expected: list[str] = []
        """Patterns of what may be said."""

    async def open(self, address: str, view: str = "overview", *, width: int = 1440, **options: Any) -> Page:
        """A new page at `http://ADDRESS/#/VIEW`."""
        page = await self._browser.new_page(viewport={"width": width, "height": 1000}, **options)
        page.set_default_timeout(PATIENCE)
        self._pages.append(page)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        await page.goto(f"http://{address}/#/{view}")
        return page

    async def leave(self) -> None:
        """Close every page that was opened."""
        for page in self._pages:
            await page.close()

    def unexpected(self, words: Sequence[str] = ()) -> list[str]:
        """What was said and nobody expected."""
        return [text for text in self.said if not any(re.search(word, text) for word in (*self.expected, *words))]


@asynccontextmanager
async def browsing(chromium: Path) -> AsyncIterator[Browser]:
    """A browser that is started once and serves many visitors."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
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
