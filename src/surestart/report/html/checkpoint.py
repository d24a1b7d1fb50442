"""One checkpoint's sections in their order, and the few facts that stand above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from surestart.report.html.batches import batches_section
from surestart.report.html.lag import has_lag, lag_section
from surestart.report.html.markup import (
    Child,
    Limits,
    Markup,
    foldable,
    join_markup,
    json_text,
    safe_text,
    signed_word,
    table,
    tag,
)
from surestart.report.html.report import CheckpointReport
from surestart.report.html.resets import resets_section
from surestart.report.html.sinks import sinks_section
from surestart.report.html.sources import sources_section
from surestart.report.html.state import bytes_text, state_section
from surestart.report.json.inspection import inspection_json

Section = tuple[str, str, Callable[[CheckpointReport, str, int, Limits], Markup]]


def checkpoint_sections(report: CheckpointReport) -> tuple[Section, ...]:
    """(id, title, builder), as far as there is something to show."""
    checkpoint = report.inspection.checkpoint
    sections: list[Section] = [("starts", "Next start", _starts)]
    if report.changes:
        sections.append(("changes", "What the code has changed", _changes))
    if checkpoint.exists is True:
        sections += [
            ("batches", "Batches", batches_section),
            ("sources", "Sources", sources_section),
        ]
        if has_lag(report):
            sections.append(("lag", "Lag over time", lag_section))
        sections.append(("state", "State", state_section))
    sections.append(("sinks", "Sink against commits", sinks_section))
    sections.append(("resets", "Earlier query ids and resets", resets_section))
    if checkpoint.confs:
        sections.append(("confs", "Pinned settings", _confs))
    return (*sections, ("raw", "Raw JSON", _raw))


def summary_list(report: CheckpointReport, limits: Limits) -> Markup:
    inspection = report.inspection
    checkpoint = inspection.checkpoint
    flight = checkpoint.in_flight
    planned, committed = checkpoint.latest_planned, checkpoint.latest_committed
    facts: list[tuple[str, Child]] = [
        ("Checkpoint", tag("code", None, safe_text(checkpoint.location, limits.text))),
        ("Query id", tag("code", None, checkpoint.query_id) if checkpoint.query_id else "none"),
        (
            "Batches",
            f"planned {_or_none(planned)}, committed {_or_none(committed)}, "
            + ("none in flight" if flight is None else f"{flight} in flight"),
        ),
        ("Sink", signed_word(inspection.acceptance.value) if inspection.sinks else signed_word("not asked", "unknown")),
        ("Written by", f"Spark {checkpoint.spark_version or 'unknown'}"),
        ("Size", f"{checkpoint.files:,} files, {bytes_text(checkpoint.size)}"),
    ]
    if checkpoint.leftover_count:
        facts.append(("Leftovers", f"{checkpoint.leftover_count:,}"))
    if checkpoint.sampled:
        facts.append(("Not read", "; ".join(checkpoint.sampled)))
    return tag(
        "dl",
        {"class": "facts"},
        [tag("div", None, tag("dt", None, name), tag("dd", None, value)) for name, value in facts],
    )


def _or_none(batch: int | None) -> str:
    return "none" if batch is None else str(batch)


def _starts(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    inspection = report.inspection
    rows: list[Sequence[Child]] = [
        [
            f"Spark {start.spark}" + (", judged here" if start.spark == inspection.start.spark else ""),
            start.sentence,
            start.why,
        ]
        for start in inspection.starts
    ]
    return table(
        "What a start would do, by Spark version",
        ["Version", "Does", "Because"],
        rows,
        table_id=f"{prefix}starts-table",
        limit=limits.rows,
        text_limit=limits.text,
    )


def _changes(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    signs = {"allowed": "good", "unsafe": "bad"}
    rows: list[Sequence[Child]] = [
        [
            change.what,
            change.before,
            change.after,
            signed_word(change.kind.value, signs.get(change.kind.value, "unknown")),
            change.rule,
        ]
        for change in report.changes
    ]
    return table(
        "What the code would run, against what wrote the checkpoint",
        ["What", "Before", "Now", "Class", "Rule"],
        rows,
        table_id=f"{prefix}changes-table",
        limit=limits.rows,
        text_limit=limits.text,
        left_out="changes",
    )


def _confs(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    confs = sorted(report.inspection.checkpoint.confs.items())
    settings = table(
        "Settings in the newest planned batch",
        ["Setting", "Value"],
        confs,
        table_id=f"{prefix}confs-table",
        limit=limits.rows,
        text_limit=limits.text,
        left_out="settings",
        style="names",
    )
    many = f"{len(confs):,} setting{'s' if len(confs) != 1 else ''}"
    return join_markup(
        tag("p", None, "A restart uses these, whatever the session says."),
        foldable(many, settings, is_open=len(confs) <= 6),
    )


def _raw(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    if not limits.json:
        return tag("p", {"class": "note"}, "Left out to keep the page small: --json prints it.")
    return json_text("The same as one JSON object", inspection_json(report.inspection), limits, "--json prints all")
