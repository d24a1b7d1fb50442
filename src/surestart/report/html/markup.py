"""What every page is made of: HTML that is escaped unless it was built here, tables, the words and signs of verdicts,
and how much of a checkpoint fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from surestart.words.amounts import YEAR_10000, time_text
from surestart.words.finding import Acceptance, Severity, Verdict
from surestart.words.inert import inert

TEXT_LIMIT = 400
_VOID = frozenset({"meta", "input", "br", "link"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")


class Markup:
    """A piece of the page. Made by `tag`, `join_markup` and, for files of this package, `trusted`."""

    __slots__ = ("html",)

    def __init__(self, html: str, *, built_by_this_module: bool = False) -> None:
        if not built_by_this_module:
            raise TypeError("Markup is made by tag() and join(); a string becomes text by itself")
        self.html = html

    def __str__(self) -> str:
        return self.html

    def __len__(self) -> int:
        return len(self.html)


Child = Markup | str | int | float | None | Iterable["Child"]
Attributes = Mapping[str, str | int | float | bool | None]


def tag(name: str, attributes: Attributes | None = None, *children: Child) -> Markup:
    """One element. An attribute that is None or False is left out; True stands alone."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no element name")
    head = name + "".join(_attribute(key, value) for key, value in (attributes or {}).items())
    if name in _VOID:
        return Markup(f"<{head}>", built_by_this_module=True)
    return Markup(f"<{head}>{_content(children)}</{name}>", built_by_this_module=True)


def join_markup(*children: Child) -> Markup:
    return Markup(_content(children), built_by_this_module=True)


def safe_text(value: object, limit: int = TEXT_LIMIT) -> Markup:
    """Text of unknown origin on one line, at most `limit` characters, hidden characters as codes."""
    return Markup(escape(inert(value, limit), quote=False), built_by_this_module=True)


def lines(value: str) -> Markup:
    """Text with its line breaks, for text that was made inert before."""
    return Markup(
        "\n".join(escape(inert(line, 1 << 20), quote=False) for line in value.split("\n")), built_by_this_module=True
    )


def trusted(source: str) -> Markup:
    """A style sheet or script that is a file of this package. Never anything that was read elsewhere."""
    if "</" in source:
        raise ValueError("an inlined file must not hold '</': it would end the element it stands in")
    return Markup(source, built_by_this_module=True)


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if not _NAME.fullmatch(key) or key.lower().startswith("on") or key.lower() == "style":
        # The page's content policy forbids inline handlers and inline styles; so does this.
        raise ValueError(f"{key!r} is no attribute for this page")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    return f' {key}="{escape(inert(value, 1 << 16), quote=True)}"'


def _content(children: Iterable[Child]) -> str:
    return "".join(_one(child) for child in children)


def _one(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.html
    if isinstance(child, str | int | float):
        return safe_text(child).html
    return _content(child)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    table_id: str,
    numbers: Sequence[int] = (),
    limit: int,
    text_limit: int,
    left_out: str = "rows",
    style: str = "",
) -> Markup:
    """The first `limit` rows; numbers: columns to be aligned right."""
    shown = rows[:limit]
    head = [
        tag("th", {"scope": "col", "class": "number" if index in numbers else None}, name)
        for index, name in enumerate(columns)
    ]
    body = [
        tag("tr", None, [_cell(index, value, index in numbers, text_limit) for index, value in enumerate(row)])
        for row in shown
    ]
    more = len(rows) - len(shown)
    return join_markup(
        tag(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": f"Table: {caption[:80]}"},
            tag(
                "table",
                {"id": table_id, "class": f"{style} sortable".strip() if len(shown) > 1 else style or None},
                tag("caption", None, caption),
                tag("thead", None, tag("tr", None, head)),
                tag("tbody", None, body),
            ),
        ),
        tag("p", {"class": "note"}, f"{more:,} more {left_out} not shown here: --json lists them.")
        if more > 0
        else None,
    )


def foldable(summary: str, content: Markup, *, is_open: bool) -> Markup:
    return tag("details", {"open": is_open, "class": "data"}, tag("summary", None, summary), content)


def _cell(index: int, value: Child, is_number: bool, text_limit: int) -> Markup:
    shown: Child = value
    if isinstance(value, str):
        shown = safe_text(value, text_limit)
    elif isinstance(value, int):
        shown = f"{value:,}"
    elif value is None:
        shown = tag("span", {"class": "unknown"}, "not known")
    if index == 0:
        return tag("th", {"scope": "row", "class": "number" if is_number else None}, shown)
    return tag("td", {"class": "number" if is_number else None}, shown)


VERDICTS = {
    Verdict.SAFE: "Safe: start it",
    Verdict.ATTENTION: "Attention: it would start; read the findings first",
    Verdict.CANNOT_TELL: "Cannot tell: evidence is missing; do not start it yet",
    Verdict.UNSAFE: "Unsafe: do not start it",
}
KINDS = {
    Verdict.SAFE.value: "good",
    Severity.ATTENTION.value: "look",
    Severity.CANNOT_TELL.value: "unknown",
    Severity.UNSAFE.value: "bad",
    Severity.INFO.value: "note",
    Acceptance.ACCEPTS.value: "good",
    Acceptance.SKIPS.value: "bad",
    Acceptance.DUPLICATES.value: "bad",
}
# Outlines on a 16 x 16 ground: a different shape for each, so that they differ in black and white too.
_SHAPES = {
    "good": ("M8 1 a7 7 0 1 0 .01 0 z", "M4.6 8.2 l2.4 2.4 l4.4 -5"),
    "look": ("M8 1 L15.4 14.6 H.6 z", "M8 6 v4 M8 11.6 v1.6"),
    "unknown": ("M8 .6 L15.4 8 L8 15.4 L.6 8 z", "M6 6.4 a2 2 0 1 1 2.6 2 q-.6 .3 -.6 1.2 M8 10.8 v1.4"),
    "bad": ("M5 1 h6 l4 4 v6 l-4 4 h-6 l-4 -4 v-6 z", "M5.4 5.4 l5.2 5.2 M10.6 5.4 l-5.2 5.2"),
    "note": ("M1.5 1.5 h13 v13 h-13 z", "M8 4 v1.6 M8 7 v5"),
}


def icon(kind: str) -> Markup:
    """Says nothing to a screen reader: the word stands beside it."""
    ground, sign = _SHAPES[kind]
    return tag(
        "svg",
        {"class": f"icon {kind}", "viewBox": "0 0 16 16", "aria-hidden": "true", "width": 16, "height": 16},
        tag("path", {"d": ground, "class": "ground"}),
        tag("path", {"d": sign, "class": "sign"}),
    )


def signed_word(value: str, kind: str = "") -> Markup:
    """A word with its sign: "unsafe", "accepts", "in flight"."""
    kind = kind or KINDS.get(value, "note")
    return tag("span", {"class": f"word {kind}"}, icon(kind), value)


def moment(milliseconds: int | None) -> str | None:
    """The time, or None for a number that is no time: a damaged file may hold any number."""
    return time_text(milliseconds) if milliseconds is not None and 0 <= milliseconds < YEAR_10000 else None


BUDGET = 290_000


@dataclass(frozen=True)
class Limits:
    """columns: batches in a chart.
    rows: rows of a table.
    text: characters of one value.
    json: of the raw object."""

    findings: int
    columns: int
    rows: int
    sources: int
    text: int
    json: int


TIERS = (
    Limits(findings=40, columns=40, rows=128, sources=12, text=600, json=60_000),
    Limits(findings=20, columns=40, rows=40, sources=6, text=200, json=12_000),
    Limits(findings=10, columns=20, rows=12, sources=3, text=120, json=0),
    Limits(findings=5, columns=10, rows=5, sources=2, text=80, json=0),
)


def json_text(summary: str, whole: str, limits: Limits, elsewhere: str) -> Markup:
    """JSON to unfold and copy, as much of it as fits. elsewhere: where all of it is."""
    shown = whole[: limits.json]
    cut = len(whole) > len(shown)
    said = f"The first {len(shown):,} of {len(whole):,} characters: {elsewhere}."
    code = tag("pre", {"tabindex": "0", "data-copy": None if cut else "JSON"}, tag("code", None, lines(shown)))
    return join_markup(
        tag("p", {"class": "note"}, said) if cut else None,
        tag("details", {"class": "raw"}, tag("summary", None, summary), code),
    )
