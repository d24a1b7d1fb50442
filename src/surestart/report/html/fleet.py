"""Many streams as one self-contained page: all in one table, the worst first, then a section for each stream that has
findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surestart.environment import Environment
from surestart.facts.checkpoint.positions import Position
from surestart.report.html.findings import command, findings_section
from surestart.report.html.markup import (
    KINDS,
    TIERS,
    VERDICTS,
    Child,
    Markup,
    icon,
    join_markup,
    moment,
    safe_text,
    signed_word,
    table,
    tag,
)
from surestart.report.html.page import Page, document, render_page
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import BatchFacts, of_query
from surestart.report.text.stage_table import command_of_all, worst_finding
from surestart.typed import Words, surestart
from surestart.verdict.diagnose import Diagnosis
from surestart.verdict.fleet_row import NOT_ASKED, Fleet, FleetRow
from surestart.verdict.inspection import SINK_NOT_NAMED
from surestart.words.amounts import age_text, time_text
from surestart.words.finding import Verdict

# A table of ten thousand is one of a few megabytes, which every browser shows; sections are for those that a person
# has to look at.
ROWS, SECTIONS = 10_000, 300
_LIMITS = TIERS[1]


def render_fleet_page(fleet: Fleet) -> str:
    return document(
        f"{fleet.verdict.value.upper()}: {fleet.title}",
        join_markup(safe_text(fleet.title, 200), " · asked ", time_text(fleet.asked_at)),
        _main(fleet),
        skip="Skip to the verdict",
        footer="Written by surestart. Nothing was changed by looking. Times are UTC.",
    )


def _main(fleet: Fleet) -> Markup:
    kind = KINDS[fleet.verdict.value]
    told = [row for row in fleet.rows if row.findings][:SECTIONS]
    parts: list[Child] = [
        tag(
            "section",
            {"class": f"verdict {kind}", "aria-labelledby": "verdict"},
            tag("h1", {"id": "verdict"}, icon(kind), _headline(fleet)),
            tag("p", None, f"{fleet.summary}."),
            join_markup(tag("p", {"class": "next"}, "Next"), command(fleet.next)),
        ),
    ]
    if fleet.rows:
        parts.append(_table(fleet, len(told)))
    parts += [_section(row, index) for index, row in enumerate(told)]
    return join_markup(parts)


def _headline(fleet: Fleet) -> str:
    return VERDICTS[fleet.verdict] if len(fleet.rows) == 1 else f"The worst of them is {fleet.verdict.value}"


def _table(fleet: Fleet, told: int) -> Markup:
    unread = any(row.unread for row in fleet.rows)
    columns = ["Name", "Verdict", "Checkpoint alone", "Next start", "Sink", "Last batch", "Age"]
    rows: list[list[Child]] = []
    index = 0
    for row in fleet.rows:
        link = bool(row.findings) and index < told
        name = tag("a", {"href": f"#stream-{index}"}, safe_text(row.name, 120)) if link else safe_text(row.name, 120)
        index += link
        rows.append(
            [
                name,
                signed_word(row.verdict.value),
                signed_word(row.alone.value) if row.alone else "–",
                row.next_start,
                row.sink if row.sink != NOT_ASKED else signed_word(NOT_ASKED, "unknown"),
                moment(row.last_batch_at),
                age_text(fleet.asked_at, row.last_batch_at),
                *([row.unread or "–"] if unread else []),
            ]
        )
    return table(
        f"Every {fleet.kind}, the worst first",
        [*columns, "Unread"] if unread else columns,
        rows,
        table_id="streams",
        limit=ROWS,
        text_limit=_LIMITS.text,
    )


def _section(row: FleetRow, index: int) -> Markup:
    alone = row.alone is not None and row.verdict is Verdict.CANNOT_TELL
    found = tuple(("", one) for one in row.findings if not (alone and one.code == SINK_NOT_NAMED))
    sources = [f"{one}: {kind}, {position}" for one, kind, position in row.sources]
    facts: list[tuple[str, Child]] = [
        ("Checkpoint", tag("code", None, safe_text(row.location, 600))),
        ("Query id", tag("code", None, safe_text(row.query_id, 80)) if row.query_id else "none"),
        ("Next start", row.sentence or row.next_start),
        ("Sink", row.sink),
        ("Sources", safe_text("; ".join(sources), 600) if sources else "none known"),
    ]
    more = f"{row.more_findings:,} more findings are not shown here." if row.more_findings else ""
    return tag(
        "section",
        {"id": f"stream-{index}", "aria-labelledby": f"stream-{index}-title"},
        tag("h2", {"id": f"stream-{index}-title"}, safe_text(row.name, 120), " ", signed_word(row.verdict.value)),
        tag(
            "dl",
            {"class": "facts"},
            [tag("div", None, tag("dt", None, name), tag("dd", None, value)) for name, value in facts],
        ),
        findings_section(found, _LIMITS, surestart("inspect", "--json"), level=3, name=f"stream-{index}-findings")
        if found
        else None,
        tag("p", {"class": "note"}, more) if more else None,
        join_markup(tag("p", {"class": "next"}, "All of it"), command(surestart("inspect", row.location))),
    )


Ends = tuple[Mapping[int, Position], Mapping[int, str]]


def render_stages_html(
    environment: Environment,
    diagnoses: Sequence[Diagnosis],
    options: Words = (),
    *,
    ends: Sequence[Ends] = (),
    progress: Sequence[BatchFacts] = (),
    runs: Sequence[Sequence[Mapping[str, object]]] = (),
) -> str:
    """ends: for each stage what `read_ends` has found; progress: of any of the queries; runs: for each stage
    its runs and remedies, oldest first."""
    unasked: Ends = ({}, {})
    reports = [
        CheckpointReport(
            diagnosis.stage,
            diagnosis.inspection,
            sinks=diagnosis.evidence.sinks,
            latest=(ends[index] if ends else unasked)[0],
            latest_from=(ends[index] if ends else unasked)[1],
            progress=of_query(progress, diagnosis.evidence.checkpoint.query_id),
            runs=tuple(runs[index]) if runs else (),
            query=diagnosis.evidence.declaration.query,
            changes=diagnosis.changes,
        )
        for index, diagnosis in enumerate(diagnoses)
    ]
    one = f", {diagnoses[0].stage}" if len(diagnoses) == 1 else ""
    return render_page(
        Page(
            title=f"{environment.pipeline} · {environment.name}{one}",
            reports=tuple(reports),
            asked_at=diagnoses[0].asked_at if diagnoses else 0,
            next=command_of_all(environment, worst_finding(diagnoses), options),
            all_with=surestart("doctor", "--json"),
        )
    )
