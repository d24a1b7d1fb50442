"""Quartz cron expressions, the dialect of job schedules: `validate --strict` takes any string for one.

    seconds  minutes  hours  day-of-month  month  day-of-week  [year]
    0-59     0-59     0-23   1-31 ? L W    1-12   1-7 ? L #    1970-2199

Exactly one of day-of-month and day-of-week is `?`; Unix's five fields are the usual mistake.
"""

from __future__ import annotations

import re

_MONTHS = {
    name: i
    for i, name in enumerate(("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"), 1)
}
_DAYS = {name: i for i, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}
_FIELDS = (
    ("seconds", 0, 59, {}),
    ("minutes", 0, 59, {}),
    ("hours", 0, 23, {}),
    ("day-of-month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day-of-week", 1, 7, _DAYS),
    ("year", 1970, 2199, {}),
)
_SPECIAL = {
    "day-of-month": re.compile(r"\?|L|LW|L-\d{1,2}|(?:[1-9]|[12]\d|3[01])W"),
    "day-of-week": re.compile(r"\?|L|[1-7]L|[1-7]#[1-5]|[A-Z]{3}L|[A-Z]{3}#[1-5]"),
}


def faults_of(expression: str) -> tuple[str, ...]:
    """What is wrong with the expression; empty when nothing is."""
    fields = expression.split()
    if len(fields) not in (6, 7):
        return (f"has {len(fields)} fields, Quartz wants 6 or 7 (seconds first)",)
    faults = [
        f"{name} {text!r} is not within {low}-{high}"
        for text, (name, low, high, names) in zip(fields, _FIELDS, strict=False)
        if not _is_valid(text.upper(), name, low, high, names)
    ]
    if [fields[3], fields[5]].count("?") != 1:
        faults.append("exactly one of day-of-month and day-of-week has to be '?'")
    return tuple(faults)


def _is_valid(text: str, name: str, low: int, high: int, names: dict[str, int]) -> bool:
    special = _SPECIAL.get(name)
    if special and special.fullmatch(text):
        return True
    return all(_is_valid_part(part, low, high, names) for part in text.split(","))


def _is_valid_part(part: str, low: int, high: int, names: dict[str, int]) -> bool:
    span, slash, step = part.partition("/")
    if slash and not (step.isdigit() and 0 < int(step) <= high):
        return False
    if span == "*":
        return True
    ends = [names.get(end, int(end) if end.isdigit() else -1) for end in span.split("-")]
    return len(ends) <= 2 and all(low <= end <= high for end in ends)
