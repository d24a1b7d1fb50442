"""What each sink holds against what the checkpoint committed: equal, ahead, behind; then batch by batch.

    checkpoint  38 ■  39 ■  40 ■  41 ▨        committed up to 40, batch 41 in flight
    sink        38 ■  39 ■  40 ■  41 ■        knows batches up to 41: ahead by one, its replay is recognised

A Delta table remembers the last batch of a writer only, so "the sink has it" means "not after the last one it knows";
where the commit itself is still in the table's log, its version is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surestart.report.html.batches import Column, batch_columns
from surestart.report.html.chart import ABSENT, FLIGHT, THERE, WORDS, WRONG, Lane, figure, lane_legend, lanes
from surestart.report.html.markup import (
    Child,
    Limits,
    Markup,
    foldable,
    join_markup,
    moment,
    safe_text,
    signed_word,
    table,
    tag,
)
from surestart.report.html.report import CheckpointReport

if TYPE_CHECKING:
    from surestart.facts.delta import Commit
    from surestart.verdict.acceptance import SinkAcceptance

_WORDS = {**WORDS, WRONG: "in the sink and not in the checkpoint"}


def sinks_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    inspection = report.inspection
    if not inspection.sinks:
        return tag(
            "p",
            None,
            signed_word("not asked", "unknown"),
            " No sink was named, so nobody knows which batches it holds: a rewound checkpoint looks whole. "
            "Name it with --sink PATH_OF_THE_TABLE.",
        )
    shown = inspection.sinks[: limits.sources]
    parts: list[Child] = []
    for index, answer in enumerate(shown):
        title = f"{answer.sink.kind} {answer.sink.target}" + (f", step {answer.sink.step}" if answer.sink.step else "")
        parts.append(tag(f"h{level + 1}", None, safe_text(title, 160)))
        parts.append(
            tag(
                "p",
                None,
                signed_word(answer.acceptance.value),
                f" ({answer.word.lower()}): " if answer.word.lower() != answer.acceptance.value else ": ",
                safe_text(answer.detail, limits.text),
            )
        )
        parts.append(_ledger(report, answer, f"{prefix}sink-{index}-", limits))
    if len(inspection.sinks) > len(shown):
        parts.append(
            tag("p", {"class": "note"}, f"{len(inspection.sinks) - len(shown)} more sinks: --json lists them.")
        )
    return join_markup(parts)


def compare_batches(committed: int | None, in_flight: int | None, known: int | None) -> tuple[str, str]:
    """(what the sink is against the checkpoint, sign). known: the last batch that the sink knows of this identity."""
    if known is None:
        return "not comparable: the sink knows no batch of this identity", "unknown"
    last = -1 if committed is None else committed
    if known == last:
        return f"equal: both end at batch {known}", "good"
    if known < last:
        many = last - known
        return f"behind by {many:,}: committed up to {last}, the sink knows up to {known}", "bad"
    if known == in_flight:
        return f"ahead by the batch in flight, {known}: its commit is missing, its replay is recognised", "look"
    return f"ahead by {known - last:,}: the checkpoint was rewound; the sink knows up to {known}", "bad"


def _ledger(report: CheckpointReport, answer: SinkAcceptance, prefix: str, limits: Limits) -> Markup:
    checkpoint = report.inspection.checkpoint
    said, sign = compare_batches(checkpoint.latest_committed, checkpoint.in_flight, answer.table_batch)
    verdict = tag("p", None, "Against the commits: ", signed_word(said, sign))
    if answer.table_batch is None:
        return verdict
    commits = _commits(report, answer)
    columns = _columns(
        checkpoint_columns := batch_columns(checkpoint, limits.columns), answer.table_batch, limits.columns
    )
    if not checkpoint_columns:
        return verdict
    drawn = [
        Lane("checkpoint", tuple(_in_checkpoint(column, checkpoint.in_flight) for column in columns)),
        Lane("sink", tuple(_in_sink(column, answer.table_batch, checkpoint.in_flight) for column in columns)),
    ]
    caption = f"Commits of the checkpoint against the batches of the sink: {said}."
    rows = [
        _row(column, answer.table_batch, checkpoint.in_flight, commits)
        for column in reversed(_columns(batch_columns(checkpoint, limits.rows), answer.table_batch, limits.rows))
    ]
    table_id = f"{prefix}table"
    numbers = table(
        "Batch by batch, newest first",
        ["Batch", "Checkpoint", "Sink", "Table version", "Written at", "Agreement"],
        rows,
        table_id=table_id,
        numbers=(3,),
        limit=limits.rows,
        text_limit=limits.text,
    )
    folded = foldable("The same as a table", numbers, is_open=len(rows) <= 12)
    chart = lanes([column.label for column in columns], drawn, caption, _WORDS)
    return join_markup(verdict, figure(chart, caption, folded, table_id, lane_legend(drawn, _WORDS)))


def _columns(columns: Sequence[Column], known: int, count: int) -> tuple[Column, ...]:
    """The checkpoint's batches and, behind them, those that only the sink knows."""
    last = columns[-1].last if columns else -1
    if known <= last:
        return tuple(columns)
    beyond = range(max(last + 1, known - count // 2 + 1), known + 1)
    skipped = [Column(last + 1, beyond[0] - 1)] if beyond[0] > last + 1 else []
    return (*columns, *skipped, *(Column(batch, batch) for batch in beyond))[-count:]


def _commits(report: CheckpointReport, answer: SinkAcceptance) -> dict[int, Commit]:
    """Batch -> the table's commit that wrote it under this identity, as far as the log still has it."""
    from surestart.facts.evidence.sink_evidence import app_ids, batch_of

    query_id, evidence = report.inspection.checkpoint.query_id, report.sinks.get(answer.sink.target)
    if query_id is None or evidence is None:
        return {}
    app_id = answer.sink.app_id(query_id)
    found = {}
    for commit in evidence.commits:
        batch = batch_of(commit, app_id) if app_id in app_ids(commit) else None
        if batch is not None:
            found[batch] = commit
    return found


def _in_checkpoint(column: Column, in_flight: int | None) -> str:
    if column.committed:
        return THERE
    return FLIGHT if column.batch == in_flight else ABSENT


def _in_sink(column: Column, known: int, in_flight: int | None) -> str:
    if column.last > known:
        return ABSENT
    return THERE if column.committed or column.batch == in_flight or column.planned else WRONG


def _row(column: Column, known: int, in_flight: int | None, commits: dict[int, Commit]) -> list[Child]:
    commit = commits.get(column.batch)
    there = column.last <= known
    if column.committed:
        agreement = signed_word("equal", "good") if there else signed_word("sink behind", "bad")
    elif column.batch == in_flight:
        agreement = (
            signed_word("sink ahead, replay recognised", "look") if there else signed_word("neither yet", "note")
        )
    else:
        agreement = signed_word("sink ahead", "bad") if there else signed_word("missing", "bad")
    checkpoint = "committed" if column.committed else "in flight" if column.batch == in_flight else "not committed"
    sink = "has it" if commit is not None else f"counts up to {known}" if there else "has it not"
    version, when = ("", "") if commit is None else (str(commit.version), moment(commit.timestamp) or "")
    return [column.label, checkpoint, sink, version, when, agreement]
