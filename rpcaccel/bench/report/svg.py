"""Plots as inline SVG: no script, no font, no file beside the page. Colours follow the reader's light or dark page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10

from rpcaccel.bench.report.report import Bars, Curve, Plot

COLOURS = ("#2a6fdb", "#d9822b", "#2b9a66", "#b4425f", "#7a5cc0", "#6b7785")
_WIDTH, _HEIGHT = 860.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 34.0, 64.0


def draw(plot: Plot) -> str:
    """The plot as an SVG element."""
    body = _bars(plot) if isinstance(plot, Bars) else _curve(plot)
    legend = _legend(list(plot.series))
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(plot.title)}">'
        f"{''.join(legend)}{''.join(body)}</svg>"
    )


def nice(top: float, marks: int = 5) -> list[float]:
    """Round numbers from 0 to just above `top`, about `marks` of them."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / marks
    base = 10.0 ** floor(log10(raw))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= raw * 0.999)
    found = [0.0]
    while found[-1] < top:
        found.append(found[-1] + step)
    return found


def _bars(plot: Bars) -> Iterator[str]:
    values = [value for line in plot.series.values() for value in line if value is not None]
    marks = nice(max(values, default=0.0))
    yield from _y_axis(marks, plot.unit)
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(plot.groups))
    width = min(48.0, room * 0.8 / max(1, len(plot.series)))
    for place, group in enumerate(plot.groups):
        middle = _LEFT + room * (place + 0.5)
        yield _x_mark(middle, group, slanted=len(plot.groups) > 6)
        start = middle - width * len(plot.series) / 2
        for number, (name, line) in enumerate(plot.series.items()):
            value = line[place]
            if value is None:
                continue
            top = _y(value, marks[-1])
            yield (
                f'<rect x="{start + number * width:.1f}" y="{top:.1f}" width="{max(1.0, width - 1):.1f}" '
                f'height="{_HEIGHT - _BOTTOM - top:.1f}" fill="{_colour(number)}">'
                f"<title>{escape(f'{group}, {name}: {value:.4g} {plot.unit}')}</title></rect>"
            )


def _curve(plot: Curve) -> Iterator[str]:
    points = [point for line in plot.series.values() for point in line]
    marks = nice(max((y for _, y in points), default=0.0))
    yield from _y_axis(marks, plot.y_label)
    low, high = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=1.0)
    span = (high - low) or 1.0

    def x_of(x: float) -> float:
        return _LEFT + (x - low) / span * (_WIDTH - _LEFT - _RIGHT)

    for x, label in plot.ticks or tuple((mark, f"{mark:g}") for mark in nice(high) if low <= mark <= high):
        yield _x_mark(x_of(x), label)
    yield f'<text x="{_WIDTH / 2:g}" y="{_HEIGHT - 8:g}" text-anchor="middle">{escape(plot.x_label)}</text>'
    for number, line in enumerate(plot.series.values()):
        path = " ".join(f"{x_of(x):.1f},{_y(y, marks[-1]):.1f}" for x, y in line)
        yield f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"/>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = _LEFT
    for number, name in enumerate(names):
        yield f'<rect x="{x:.0f}" y="6" width="12" height="12" fill="{_colour(number)}"/>'
        yield f'<text x="{x + 18:.0f}" y="16">{escape(name)}</text>'
        x += 34 + 7 * len(name)


def _y_axis(marks: Sequence[float], unit: str) -> Iterator[str]:
    for mark in marks:
        y = _y(mark, marks[-1])
        yield f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'
    yield f'<text x="{_LEFT - 6:g}" y="{_TOP - 10:g}" text-anchor="end">{escape(unit)}</text>'


def _x_mark(x: float, label: str, *, slanted: bool = False) -> str:
    y = _HEIGHT - _BOTTOM + 16
    turn = f' transform="rotate(-25 {x:.1f} {y:.1f})" text-anchor="end"' if slanted else ' text-anchor="middle"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{turn}>{escape(label)}</text>'


def _y(value: float, top: float) -> float:
    return _TOP + (1 - value / top) * (_HEIGHT - _TOP - _BOTTOM)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
