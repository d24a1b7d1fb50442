"""Two charts as inline SVG, readable without colour: lanes (which batches are where) and bars (how much).

    lanes   planned    ■ ■ ■ ▨        solid   it is there       hatch   in flight
            committed  ■ ■ ■ ┄        dashed  it is not there   cross   damaged, or where it should not be

    bars    one per batch or partition, stacked from parts; each part has its own hatch and a word in the legend

Colours are the four of Okabe and Ito's palette that keep a contrast of 3:1 on white and on the dark ground alike.
A chart is one image to a screen reader; its numbers are in the table that `figure` puts beneath it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.report.html.markup import Markup, join_markup, safe_text, tag

THERE, FLIGHT, ABSENT, WRONG = "there", "flight", "absent", "wrong"
WORDS = {THERE: "there", FLIGHT: "in flight", ABSENT: "not there", WRONG: "damaged or out of place"}
PARTS = ("part-1", "part-2", "part-3", "part-4")
_CELL, _ROW, _LABEL, _HEIGHT, _AXIS = 17, 26, 92, 120, 64


@dataclass(frozen=True)
class Lane:
    label: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Bar:
    """values: one for each part of the stack. None: not known, drawn as a question mark and not as zero."""

    label: str
    values: tuple[float, ...] | None
    title: str = ""


def lanes(columns: Sequence[str], rows: Sequence[Lane], what: str, words: Mapping[str, str] = WORDS) -> Markup:
    """One cell for each column and lane."""
    width, height = _LABEL + _CELL * len(columns) + 8, _ROW * len(rows) + 22
    drawn = []
    for row, lane in enumerate(rows):
        y = row * _ROW + 4
        drawn.append(_text(0, y + 13, lane.label, "start"))
        for column, state in enumerate(lane.cells):
            title = f"{columns[column]}: {lane.label}, {words[state]}"
            drawn.append(_cell(_LABEL + column * _CELL, y, state, title))
    for column in _ticks(len(columns), 1 + max(map(len, columns), default=1) * 7 // _CELL):
        drawn.append(_text(_LABEL + column * _CELL + 7, height - 6, columns[column], "middle"))
    return _svg(width, height, what, *drawn)


def bars(items: Sequence[Bar], unit: str, what: str) -> Markup:
    """Upright bars on one scale from zero."""
    step = max(5, min(24, 760 // max(len(items), 1)))
    top = max((sum(item.values) for item in items if item.values is not None), default=0)
    width, height = _AXIS + step * len(items) + 12, _HEIGHT + 32
    drawn = [
        _line(_AXIS, 10, width, 10, "grid"),
        _line(_AXIS, 10 + _HEIGHT, width, 10 + _HEIGHT, "axis"),
        _text(_AXIS - 6, 14, short(top), "end"),
        _text(_AXIS - 6, 14 + _HEIGHT, "0", "end"),
        _text(_AXIS - 6, 28, unit, "end"),
    ]
    for index, item in enumerate(items):
        x, width_of_bar = _AXIS + index * step + 1, max(step - 3, 3)
        if item.values is None:
            drawn.append(_text(x + width_of_bar / 2, 8 + _HEIGHT, "?", "middle"))
            continue
        y = 10.0 + _HEIGHT
        parts = []
        for number, value in enumerate(item.values):
            tall = value / top * _HEIGHT if top else 0
            if value > 0:
                tall = max(tall, 1.5)
            y -= tall
            if tall:
                parts.append(_rect(x, y, width_of_bar, tall, f"bar {PARTS[number % len(PARTS)]}"))
        drawn.append(tag("g", None, tag("title", None, safe_text(item.title or item.label, 120)), parts))
    longest = max((len(item.label) for item in items), default=1)
    for index in _ticks(len(items), 1 + min(longest, 12) * 7 // step):
        drawn.append(_text(_AXIS + index * step + step / 2, height - 6, items[index].label[:12], "middle"))
    return _svg(width, height, what, *drawn)


def figure(
    chart: Markup, caption: str, table: Markup, table_id: str, legend: Mapping[str, str] | None = None
) -> Markup:
    """The chart, a sentence that says what it shows, its legend, and the same numbers as a table."""
    keys = [
        tag("li", None, tag("svg", {"class": "key", "viewBox": "0 0 16 16", "aria-hidden": "true"}, _key(kind)), word)
        for kind, word in (legend or {}).items()
    ]
    return join_markup(
        tag(
            "figure",
            {"data-table": table_id},
            tag("figcaption", None, caption),
            tag(
                "div",
                {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": f"Chart: {caption[:80]}"},
                chart,
            ),
            tag("ul", {"class": "legend"}, keys) if keys else None,
        ),
        table,
    )


def lane_legend(rows: Sequence[Lane], words: Mapping[str, str] = WORDS) -> dict[str, str]:
    used = {state for lane in rows for state in lane.cells}
    return {state: word for state, word in words.items() if state in used}


def short(value: float) -> str:
    """A number in at most five characters, for an axis."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            shown = value / size
            return f"{shown:.0f}{unit}" if shown >= 10 or shown == int(shown) else f"{shown:.1f}{unit}"
    return f"{value:.0f}" if value == int(value) or value >= 10 else f"{value:.1f}"


def patterns() -> Markup:
    """The hatches, once on a page: every chart refers to them."""
    return tag(
        "svg",
        {"class": "patterns", "aria-hidden": "true", "width": 0, "height": 0},
        tag(
            "defs",
            None,
            _pattern("hatch-flight", "M-2 2 L2 -2 M0 8 L8 0 M6 10 L10 6", "hatch-blue"),
            _pattern("hatch-2", "M0 2 H8 M0 6 H8", "hatch-vermillion"),
            _pattern("hatch-3", "M2 0 V8 M6 0 V8", "hatch-green"),
            _pattern("hatch-4", "M1 1 h2 v2 h-2 z M5 5 h2 v2 h-2 z", "hatch-purple"),
        ),
    )


def _pattern(name: str, path: str, style: str) -> Markup:
    return tag(
        "pattern",
        {"id": name, "width": 8, "height": 8, "patternUnits": "userSpaceOnUse"},
        tag("path", {"d": path, "class": style}),
    )


def _key(kind: str) -> Markup:
    return _rect(1, 1, 14, 14, f"bar {kind}") if kind in PARTS else _cell(1, 1, kind, "")


def _cell(x: float, y: float, state: str, title: str) -> Markup:
    cross = None
    if state == WRONG:
        cross = tag("path", {"d": f"M{x + 3} {y + 3} l8 8 m0 -8 l-8 8", "class": "cross"})
    return tag(
        "g",
        None,
        tag("title", None, safe_text(title, 120)) if title else None,
        _rect(x, y, 14, 14, f"cell {state}"),
        cross,
    )


def _rect(x: float, y: float, width: float, height: float, style: str) -> Markup:
    size = {"x": _round(x), "y": _round(y), "width": _round(width), "height": _round(height)}
    return tag("rect", {**size, "class": style})


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return tag("path", {"d": f"M{x1} {y1} L{x2} {y2}", "class": style})


def _text(x: float, y: float, value: str, anchor: str) -> Markup:
    return tag("text", {"x": _round(x), "y": _round(y), "text-anchor": anchor}, safe_text(value, 24))


def _svg(width: float, height: float, what: str, *drawn: Markup) -> Markup:
    return tag(
        "svg",
        {
            "class": "chart",
            "role": "img",
            "aria-label": what,
            "viewBox": f"0 0 {_round(width)} {_round(height)}",
            "width": _round(width),
            "height": _round(height),
        },
        *drawn,
    )


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _ticks(count: int, step: int) -> range:
    """Which labels fit: every second or third and so on, counted from the newest."""
    return range((count - 1) % step, count, step) if count else range(0)
