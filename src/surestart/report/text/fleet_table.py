"""Many streams in one table, the worst first, then the findings of the worst ones.

80 columns, or as wide as the terminal is. A name is never cut: two would look alike, and whoever is called at night
copies it from here. One that does not fit has a line of its own."""

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
_UNREAD, _PATH = 24, 4096
# What the columns but the first take, and the unread data.
_OTHERS = WIDTH - _NAMES[1]
_ALONE = {Verdict.SAFE: "whole", Verdict.ATTENTION: "look"}


def render_fleet(fleet: Fleet, columns: int = WIDTH) -> str:
    return "\n".join(_lines(fleet, columns)).rstrip() + "\n"


def _lines(fleet: Fleet, columns: int) -> Iterator[str]:
    yield f"{inert(fleet.title, WIDTH)}"
    asked = f"asked {time_text(fleet.asked_at)}"
    yield from labelled("", f"{fleet.summary}; {asked}", indent=0, gap=0)
    yield ""
    if fleet.rows:
        yield from _table(fleet, columns)
        yield ""
        yield from _findings(fleet)
    yield from labelled("Next:", str(fleet.next), indent=0, gap=6, keep_lines=True)


def _table(fleet: Fleet, columns: int) -> Iterator[str]:
    shown = fleet.rows[:SHOWN]
    unread = max(len(inert(row.unread, _UNREAD)) for row in shown)
    room = max(columns - _OTHERS - unread, _NAMES[1])
    names = {row.name: inert(row.name, _PATH) for row in shown}
    name = max(_NAMES[0], *(len(said) for said in names.values() if len(said) <= room), 0)
    yield _line(fleet.kind, "verdict", "next start", "sink", "age", "unread" if unread else "", name)
    for row in shown:
        said = names[row.name]
        if len(said) > name:
            yield said
        yield _line(
            said if len(said) <= name else "",
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
        f"{age:>{_AGES}}  {inert(unread, _UNREAD)}"
    ).rstrip()


def _sink(row: FleetRow) -> str:
    """Where no sink was asked, what the checkpoint alone says."""
    if row.sink != NOT_ASKED or row.alone is None:
        return row.sink
    return f"unasked, {_ALONE[row.alone]}" if row.alone in _ALONE else NOT_ASKED


def _findings(fleet: Fleet) -> Iterator[str]:
    loud = [row for row in fleet.rows if row.worst is not None]
    for row in loud[:EXPLAINED]:
        yield f"{inert(row.name, _PATH)}:"
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
