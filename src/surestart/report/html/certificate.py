"""The counted proof on a page: lost and duplicated in words, every count in a table, faulty places, gaps.

Made from the object that `Certificate.as_dict` gives and the remedies' journal keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surestart.report.html.markup import Child, Limits, Markup, join_markup, safe_text, signed_word, table, tag

_COUNTS = {
    "input": "In the input",
    "rows": "Rows",
    "distinct": "Distinct",
    "lost": "Lost",
    "duplicated": "Duplicated",
    "in_both": "In both",
    "wrong": "Not newest",
    "from_nowhere": "From nowhere",
    "gone": "Gone from source",
    "pending": "Not read yet",
    "undecided": "Undecided",
}
_ALWAYS = ("input", "rows", "distinct", "lost", "duplicated", "pending")
_FAULTS = ("lost", "duplicated", "in_both", "wrong", "from_nowhere")


def certificate_word(body: Mapping[str, Any]) -> tuple[str, str]:
    """What was found, and the kind of sign that goes with it."""
    verdict = str(body.get("verdict"))
    if verdict == "exact":
        return "exact, lost 0, duplicated 0", "good"
    if verdict == "not exact":
        return f"not exact, lost {body.get('lost', 0):,}, duplicated {body.get('duplicated', 0):,}", "bad"
    return "cannot tell whether all rows are there", "unknown"


def certificate_section(body: Mapping[str, Any], limits: Limits) -> Markup:
    said, kind = certificate_word(body)
    stages: Sequence[Mapping[str, Any]] = body["stages"]
    asked = "" if body["source_asked"] else " The source was not asked."
    return join_markup(
        tag("p", None, signed_word(said[:1].upper() + said[1:], kind), f". Counted {body['observed_at']}.{asked}"),
        _counts(stages, limits),
        list(_problems(stages, limits)),
        _places(stages, limits),
        _gaps(stages, limits),
    )


def _counts(stages: Sequence[Mapping[str, Any]], limits: Limits) -> Markup:
    shown = [name for name in _COUNTS if name in _ALWAYS or any(stage["counts"][name] for stage in stages)]
    rows: list[Sequence[Child]] = [
        [
            f"{stage['stage']}, {stage['kind']}: {_last(stage['input'])} to {', '.join(map(_last, stage['outputs']))}",
            *(_number(stage, name) for name in shown),
        ]
        for stage in stages
    ]
    return table(
        "Each stage's output against what the stage has read",
        ["Stage, and what is counted", *(_COUNTS[name] for name in shown)],
        rows,
        table_id="counts-table",
        numbers=range(1, 1 + len(shown)),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="counts",
    )


def _last(label: str) -> str:
    """The last name of a path or of a table; the whole is in the journal."""
    return label.rstrip("/").rpartition("/")[2] or "its source"


def _number(stage: Mapping[str, Any], name: str) -> Child:
    """The number, or that it is not known: where only the output was counted, nobody knows the input and what is
    lost."""
    counts = stage["counts"]
    apart = stage["compared"] or counts["distinct"] or not counts["rows"]
    if not stage["compared"] and name in ("input", "lost", "pending", *(() if apart else ("distinct", "duplicated"))):
        return None
    return f"{counts[name]:,}"


def _problems(stages: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[Markup]:
    for stage in stages:
        if stage["problem"]:
            yield tag(
                "p",
                None,
                signed_word("cannot tell", "unknown"),
                f" {stage['stage']}: ",
                safe_text(stage["problem"], limits.text),
            )
        if stage["examples"]:
            examples = ", ".join(str(key) for key in stage["examples"][:5])
            yield tag(
                "p", None, f"{stage['stage']}: keys with a fault, some of them: ", safe_text(examples, limits.text)
            )


def _places(stages: Sequence[Mapping[str, Any]], limits: Limits) -> Markup | None:
    rows: list[Sequence[Child]] = [
        [
            f"{place['source']} {place['partition']}",
            stage["stage"],
            f"{place['first']} to {place['last']}" if place["first"] is not None else "",
            f"{place['counts']['rows']:,}",
            ", ".join(
                f"{_COUNTS[name].lower()} {place['counts'][name]:,}" for name in _FAULTS if place["counts"][name]
            ),
        ]
        for stage in stages
        for place in stage["places"]
        if any(place["counts"][name] for name in _FAULTS)
    ]
    if not rows:
        return None
    return table(
        "Files and partitions with a fault",
        ["File or partition", "Stage", "In the source", "Rows", "Fault"],
        rows,
        table_id="places-table",
        numbers=(3,),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="files or partitions",
    )


def _gaps(stages: Sequence[Mapping[str, Any]], limits: Limits) -> Markup | None:
    rows: list[Sequence[Child]] = [
        [f"{gap['source']} {gap['partition']}", stage["stage"], f"{gap['first']} to {gap['last']}", f"{gap['rows']:,}"]
        for stage in stages
        for gap in stage["gaps"]
    ]
    if not rows:
        return None
    return table(
        "What is missing, newest first: a backfill fills it",
        ["File or partition", "Stage", "Positions", "Rows"],
        rows,
        table_id="gaps-table",
        numbers=(3,),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="gaps",
    )
