"""Draws bars as inline SVG: no script, no font, no file beside the page. Colours follow the page's light or dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import floor, log10

from rpcaccel.bench.report.report import Bars

COLOURS = ("#2a6fdb", "#d9822b", "#2b9a66", "#b4425f", "#7a5cc0", "#6b7785")
_WIDTH, _HEIGHT = 860.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 34.0, 64.0


def draw(plot: Bars) -> str:
    """The plot as an SVG element."""
    size = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}"'
    parts = "".join((*_legend(plot), *_bars(plot)))
    return f'<svg {size} role="img" aria-label="{escape(plot.title)}">{parts}</svg>'


def nice(top: float, marks: int = 5) -> list[float]:
    """Round numbers from 0 to just above `top`, about `marks` of them."""
    if top <= 0:
        return [0.0, 1.0]
    base = 10.0 ** floor(log10(top / marks))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= top / marks * 0.999)
    found = [0.0]
    while found[-1] < top:
        found.append(found[-1] + step)
    return found


def _legend(plot: Bars) -> Iterator[str]:
    x = _LEFT
    for number, name in enumerate(plot.series):
        yield f'<rect x="{x:.0f}" y="6" width="12" height="12" fill="{COLOURS[number % len(COLOURS)]}"/>'
        yield f'<text x="{x + 18:.0f}" y="16">{escape(name)}</text>'
        x += 34 + 7 * len(name)


def _bars(plot: Bars) -> Iterator[str]:
    marks = nice(max((value for line in plot.series.values() for value in line if value is not None), default=0.0))
    for mark in marks:
        y = _y(mark, marks[-1])
        yield f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'
    yield f'<text x="{_LEFT - 6:g}" y="{_TOP - 10:g}" text-anchor="end">{escape(plot.unit)}</text>'
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(plot.groups))
    width = min(48.0, room * 0.8 / max(1, len(plot.series)))
    for place, group in enumerate(plot.groups):
        middle, y = _LEFT + room * (place + 0.5), _HEIGHT - _BOTTOM + 16
        slanted = f'transform="rotate(-25 {middle:.1f} {y:.1f})" text-anchor="end"'
        turn = slanted if len(plot.groups) > 6 else 'text-anchor="middle"'
        yield f'<text x="{middle:.1f}" y="{y:.1f}" {turn}>{escape(group)}</text>'
        start = middle - width * len(plot.series) / 2
        for number, (name, line) in enumerate(plot.series.items()):
            if (value := line[place]) is not None:
                top = _y(value, marks[-1])
                yield (
                    f'<rect x="{start + number * width:.1f}" y="{top:.1f}" width="{max(1.0, width - 1):.1f}" '
                    f'height="{_HEIGHT - _BOTTOM - top:.1f}" fill="{COLOURS[number % len(COLOURS)]}">'
                    f"<title>{escape(f'{group}, {name}: {value:.4g} {plot.unit}')}</title></rect>"
                )


def _y(value: float, top: float) -> float:
    return _TOP + (1 - value / top) * (_HEIGHT - _TOP - _BOTTOM)
