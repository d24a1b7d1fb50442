"""Tables of the page: a caption, a header cell for every column and row, the newest or worst rows where not all fit."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.report.html.markup import Child, Markup, join_markup, safe_text, tag


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
