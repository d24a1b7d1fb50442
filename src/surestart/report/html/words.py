"""The words and signs of verdicts, severities and acceptances: a shape and a word for each, colour only on top."""

from __future__ import annotations

from surestart.report.html.markup import Markup, tag
from surestart.words.finding import Acceptance, Severity, Verdict
from surestart.words.time_text import YEAR_10000, time_text

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
