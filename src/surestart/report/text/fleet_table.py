"""Many streams in one table of at most 80 columns, the worst first, then the findings of the worst ones."""

from __future__ import annotations

from collections.abc import Iterator

from surestart.report.text.inspection import render_finding
from surestart.verdict.fleet_row import NOT_ASKED, Fleet, FleetRow
from surestart.verdict.inspection import SINK_NOT_NAMED
from surestart.words.amounts import age_text, time_text
from surestart.words.finding import WIDTH, Severity, Verdict, labelled
from surestart.words.inert import inert

SHOWN, EXPLAINED = 200, 5
_NAMES, _STARTS, _SINKS, _AGES = (10, 22), 18, 14, 9
_ALONE = {Verdict.SAFE: "whole", Verdict.ATTENTION: "look"}


def render_fleet(fleet: Fleet) -> str:
    return "\n".join(_lines(fleet)).rstrip() + "\n"


def _lines(fleet: Fleet) -> Iterator[str]:
    yield f"{inert(fleet.title, WIDTH)}"
    asked = f"asked {time_text(fleet.asked_at)}"
    yield from labelled("", f"{fleet.summary}; {asked}", indent=0, gap=0)
    yield ""
    if fleet.rows:
        yield from _table(fleet)
        yield ""
        yield from _findings(fleet)
    yield from labelled("Next:", str(fleet.next), indent=0, gap=6, keep_lines=True)


def _table(fleet: Fleet) -> Iterator[str]:
    shown = fleet.rows[:SHOWN]
    name = max(_NAMES[0], min(_NAMES[1], max(len(row.name) for row in shown)))
    unread = any(row.unread for row in shown)
    yield _line(fleet.kind, "verdict", "next start", "sink", "age", "unread" if unread else "", name)
    for row in shown:
        yield _line(
            _ending(row.name, name),
            row.verdict.value.upper(),
            row.next_start,
            _sink(row),
            age_text(fleet.asked_at, row.last_batch_at),
            row.unread,
            name,
        )
    if len(fleet.rows) > SHOWN:
        left = {row.verdict for row in fleet.rows[SHOWN:]}
        worst = next(verdict for verdict in Verdict if verdict in left).value if len(left) == 1 else "none worse"
        yield f"  … and {len(fleet.rows) - SHOWN:,} more ({worst}): --json and --html list them all"


def _line(name: str, verdict: str, start: str, sink: str, age: str, unread: str, width: int) -> str:
    return (
        f"{name:<{width}}  {verdict:<11} {inert(start, _STARTS):<{_STARTS}} {inert(sink, _SINKS):<{_SINKS}} "
        f"{age:>{_AGES}}  {inert(unread, 24)}"
    ).rstrip()


def _ending(name: str, width: int) -> str:
    """The end of the path: it tells more than the beginning."""
    shown = inert(name, 400)
    return shown if len(shown) <= width else "…" + shown[1 - width :]


def _sink(row: FleetRow) -> str:
    """Where no sink was asked, what the checkpoint alone says."""
    if row.sink != NOT_ASKED or row.alone is None:
        return row.sink
    return f"unasked, {_ALONE[row.alone]}" if row.alone in _ALONE else NOT_ASKED


def _findings(fleet: Fleet) -> Iterator[str]:
    loud = [row for row in fleet.rows if row.worst is not None]
    for row in loud[:EXPLAINED]:
        yield f"{inert(row.name, 200)}:"
        if row.worst is not None:
            yield from render_finding(row.worst)
    if len(loud) > EXPLAINED:
        yield f"… {len(loud) - EXPLAINED:,} more have findings: --json and --html list them all"
        yield ""
    unnamed = sum(any(one.code == SINK_NOT_NAMED for one in row.findings) for row in fleet.rows)
    if unnamed:
        yield from labelled(
            "",
            f"Nobody named the sink of {unnamed:,}, so no verdict of them is better than CANNOT TELL. A checkpoint is "
            "half of the truth: a rewound one looks whole, and only the sink tells whether it accepts, skips or "
            "doubles the next batch. Name it in surestart.toml, or for one checkpoint to `surestart inspect`; with "
            "`--sink none` the verdict is about the checkpoint alone.",
            indent=0,
            gap=0,
        )
        yield ""
    notes = sum(one.severity is Severity.INFO for row in fleet.rows for one in row.findings)
    if notes:
        yield f"{notes:,} {'note' if notes == 1 else 'notes'} without consequence: --json shows them."
        yield ""
