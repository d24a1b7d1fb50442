"""A certificate in 80 columns, from the object that `Certificate.as_dict` gives and the remedies' journal keeps.

raw-ingest     landing/ -> sensor_raw                    lost 0 · duplicated 0
               1,100 in the source, 1,100 rows, 1,100 distinct
  faulty or unread files and Kafka partitions, one line each; all of them while they are few
Exact: …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surestart.typed import PLAN_FILE, NextCommand, Place, Words, surestart
from surestart.words.finding import labelled
from surestart.words.inert import inert

FEW = 20
_SHOWN_GAPS = 5
_WORDS = {
    "lost": "lost",
    "duplicated": "duplicated",
    "in_both": "in both",
    "wrong": "not newest",
    "from_nowhere": "from nowhere",
    "gone": "gone from source",
    "pending": "pending",
    "undecided": "undecided",
}
_FAULTS = ("lost", "duplicated", "in_both", "wrong", "from_nowhere")
_THINGS = {"positions": "positions", "keys": "keys", "database": "keys"}


def render_certificate(body: Mapping[str, Any], options: Words = ()) -> str:
    lines = [f"{inert(body['pipeline'])} · {inert(body['environment'])} · counted {inert(body['observed_at'])}", ""]
    for stage in body["stages"]:
        lines += [*_stage(stage), ""]
    lines += [*_verdict(body), f"Next: {command_after_count(body, options)}"]
    return "\n".join(lines) + "\n"


def summarize_certificate(body: Mapping[str, Any]) -> str:
    """The verdict and what it rests on, without the tables."""
    return "\n".join(_verdict(body)) + "\n"


def command_after_count(body: Mapping[str, Any], options: Words = ()) -> NextCommand:
    place = Place(body["environment"], options)
    for stage in body["stages"]:
        if _can_be_filled(stage) and not _is_below(stage, body["stages"]):
            return surestart("plan", "backfill", stage["stage"], place=place, more=PLAN_FILE)
        if any(stage["counts"][fault] for fault in _FAULTS):
            return surestart("plan", "reset", stage["stage"], place=place, more=PLAN_FILE)
    if body["verdict"] == "exact" and any(stage["counts"]["pending"] for stage in body["stages"]):
        return surestart("run", "all", place=place)
    return surestart("status" if body["verdict"] == "exact" else "doctor", place=place)


def _can_be_filled(stage: Mapping[str, Any]) -> bool:
    """Whether a backfill can repair it. For a keyed table only where nothing else is wrong: a backfill removes no
    rows."""
    counts = stage["counts"]
    if stage["kind"] == "positions":
        return bool(counts["lost"])
    others = any(counts[fault] for fault in _FAULTS if fault not in ("lost", "wrong"))
    return bool(stage["gaps"]) and not others


def _is_below(stage: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rows that are lost here are in the output below. Filled in, they would be there twice; a keyed table
    would keep the former ones, whose times of processing are others."""
    return any(other["input"] in stage["outputs"] and other["counts"]["from_nowhere"] for other in stages)


def _stage(stage: Mapping[str, Any]) -> Iterator[str]:
    counts = stage["counts"]
    outputs = " + ".join(inert(_short(label), 30) for label in stage["outputs"])
    yield from labelled(inert(stage["stage"]), f"{inert(_short(stage['input']), 40)} -> {outputs}", indent=0, gap=14)
    thing = _THINGS[stage["kind"]]
    compared = stage["compared"]
    asked = f"{counts['input']:,} {thing} in the input, " if compared else ""
    if compared or counts["distinct"] or not counts["rows"]:
        told = f"{asked}{counts['rows']:,} rows, {counts['distinct']:,} distinct {thing}"
        zero = [f"{word} {counts[word]:,}" for word in ("lost", "duplicated") if compared or word == "duplicated"]
    else:
        told, zero = f"{counts['rows']:,} rows, not told apart", []
    yield from labelled("", told, indent=0, gap=14)
    other = [f"{said} {counts[name]:,}" for name, said in _WORDS.items() if counts[name] and name not in "".join(zero)]
    if zero or other:
        yield from labelled("", " · ".join([*zero, *other]), indent=0, gap=14)
    if stage["problem"]:
        yield from labelled("", f"CANNOT TELL: {inert(stage['problem'], 400)}", indent=0, gap=14)
    if stage.get("left_out"):
        names = ", ".join(inert(name, 40) for name in stage["left_out"])
        yield from labelled("", f"values not compared: {names}", indent=0, gap=14)
    yield from _places(stage)
    for gap in stage["gaps"][:_SHOWN_GAPS]:
        where = f"{_short(gap['source'])} {gap['partition']}"
        yield f"  missing  {inert(where, 30)}  {gap['first']:,} to {gap['last']:,}  ({gap['rows']:,} rows)"
    left = len(stage["gaps"]) - _SHOWN_GAPS
    if left > 0 or not stage["gaps_complete"]:
        more = f"{left:,}" if stage["gaps_complete"] else f"more than {max(left, 0):,}"
        yield f"  missing  {more} more runs; --json lists {len(stage['gaps']):,}"
    for key in stage["examples"][:_SHOWN_GAPS]:
        yield f"  key      {inert(key, 68)}"


def _places(stage: Mapping[str, Any]) -> Iterator[str]:
    places: Sequence[Mapping[str, Any]] = stage["places"]
    many = stage["place_count"] > FEW
    if many:
        faulty = [place for place in places if any(place["counts"][name] for name in _FAULTS)]
        yield f"  {stage['place_count']:,} files or partitions, {len(faulty):,} of them with a fault"
        places = faulty[:FEW]
    if not places:
        return
    yield f"  {'file or partition':<27} {'first':>14} {'last':>14} {'rows':>14}"
    for place in places:
        counts = place["counts"]
        first, last = ("-" if place[end] is None else f"{place[end]:,}" for end in ("first", "last"))
        name = inert(f"{_short(place['source'])} {place['partition']}", 27)
        yield f"  {name:<27} {first:>14} {last:>14} {counts['rows']:>14,}"
        other = ", ".join(f"{_WORDS[name]} {counts[name]:,}" for name in _WORDS if counts[name])
        yield from labelled("", other, indent=4, gap=0)


def _short(label: str | None) -> str:
    """The last name of a path or of a table: the whole is in --json."""
    return (label or "no position").rstrip("/").rpartition("/")[2]


def _verdict(body: Mapping[str, Any]) -> list[str]:
    counts = [stage["counts"] for stage in body["stages"]]
    pending = sum(one["pending"] for one in counts)
    if body["verdict"] == "not exact":
        found = "; ".join(f"{inert(name)} {number:,}" for name, number in body["faults"].items())
        return labelled("NOT EXACT", f"lost {body['lost']:,}, duplicated {body['duplicated']:,}. {found}", 0, 13)
    if body["verdict"] == "cannot tell":
        undecided = sum(one["undecided"] for one in counts)
        why = [inert(stage["problem"], 300) for stage in body["stages"] if stage["problem"]]
        missing = [f"{undecided:,} rows are missing, and nobody can tell whether they were read"] if undecided else []
        return labelled("CANNOT TELL", "; ".join(dict.fromkeys([*why, *missing])), 0, 13)
    waiting = f" {pending:,} not read yet." if pending else ""
    asked = "" if body["source_asked"] else " The source was not asked."
    return labelled("EXACT", f"lost 0, duplicated 0 in {len(counts)} counts.{waiting}{asked}", 0, 13)
