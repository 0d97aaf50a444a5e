"""The page's colours and what its files may hold, read from the files themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.services import ROOT

STYLE = (ROOT / "dashboard" / "style.css").read_text(encoding="utf-8")

WORDS = ("ink", "muted", "accent", "good", "warn", "bad")
"""Colours that words are written in."""
DRAWN = (
    "edge",
    "focus",
    "local",
    "memory",
    "disk",
    "redis",
    "flight",
    "node",
    "partial",
    "refused",
    "failed",
    *(f"s{line}" for line in range(1, 9)),
)
DRAWN_LIGHTLY = {"memory", "flight", "partial", "redis"}
"""Fills that a white ground leaves little contrast; each is named in words beside it."""


def theme(selector: str) -> dict[str, str]:
    block = re.search(rf"{re.escape(selector)} \{{(.*?)\n\}}", STYLE, re.DOTALL)
    assert block is not None
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", block[1]))


LIGHT = theme(":root")
DARK = {**LIGHT, **theme(':root[data-theme="dark"]')}


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, 1..21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def pairs() -> Iterator[tuple[str, str, str, float]]:
    """Theme, colour, ground, and the contrast that is asked for."""
    for name in ("light", "dark"):
        for ground in ("ground", "raised"):
            yield from ((name, word, ground, 4.5) for word in WORDS)
            yield from ((name, line, ground, 3.0) for line in DRAWN if not (name == "light" and line in DRAWN_LIGHTLY))
        yield name, "on-accent", "accent", 4.5


@pytest.mark.parametrize(("name", "colour", "ground", "wanted"), list(pairs()))
def test_every_pair_of_colours_has_its_contrast(name: str, colour: str, ground: str, wanted: float) -> None:
    colours = LIGHT if name == "light" else DARK
    assert contrast(colours[colour], colours[ground]) >= wanted


def test_styles_are_no_wider_than_the_rest_of_the_source() -> None:
    for path in (ROOT / "dashboard").glob("*.css"):
        assert all(len(line) <= 120 for line in path.read_text(encoding="utf-8").splitlines()), path


def test_nothing_is_inline_and_nothing_is_fetched_from_elsewhere() -> None:
    for path in (ROOT / "dashboard").rglob("*.*"):
        if path.suffix not in {".html", ".css", ".js"} or "vendor" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"style=|onclick=\"|javascript:|innerHTML|insertAdjacentHTML|eval\(", text), path
        assert not re.search(r"(src|href)=\"https?:|url\(|@import|import .*\"https?:", text), path
