"""An inspection as plain text of at most 80 columns: the verdict first, then what leads to it, then the findings.

Only commands are longer: broken into two lines they would be two commands.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator

from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.report.text.state import store_lines, watermark_text
from surestart.verdict.inspection import Inspection
from surestart.words.finding import Finding, Severity, Verdict
from surestart.words.inert import inert

WIDTH = 80
LABEL = 14
VALUE_LIMIT = 400
# A command is never cut: this is more than the longest path and its options.
COMMAND_LIMIT = 20_000
FINDINGS_SHOWN = 30
OPERATORS_SHOWN = 20
COLUMNS_LIMIT = 3_000

_HEADLINES = {
    Verdict.SAFE: "SAFE: start it",
    Verdict.ATTENTION: "ATTENTION: it would start; read the findings first",
    Verdict.CANNOT_TELL: "CANNOT TELL: evidence is missing; do not start it yet",
    Verdict.UNSAFE: "UNSAFE: do not start it",
}


def render_inspection(inspection: Inspection) -> str:
    return "\n".join(_lines(inspection)) + "\n"


def _lines(inspection: Inspection) -> Iterator[str]:
    checkpoint = inspection.checkpoint
    yield from _row("checkpoint", inert(checkpoint.location, 300))
    yield from _row("verdict", _HEADLINES[inspection.verdict])
    yield ""
    yield from _row("next start", f"Spark {inspection.start.spark} {inspection.start.sentence}")
    for text in _other_lines(inspection):
        yield from _row("", text)
    yield from _row("sink", _sink(inspection))
    if checkpoint.exists is True:
        yield from _describe(checkpoint)
    if inspection.findings:
        yield ""
        for finding in inspection.findings[:FINDINGS_SHOWN]:
            yield from render_finding(finding)
        if len(inspection.findings) > FINDINGS_SHOWN:
            yield f"… and {len(inspection.findings) - FINDINGS_SHOWN} more findings: --json shows them all"


def _other_lines(inspection: Inspection) -> Iterator[str]:
    """The other Spark lines, those that do the same in one sentence."""
    by_sentence: dict[str, list[str]] = {}
    for start in inspection.starts:
        if start.spark != inspection.start.spark:
            by_sentence.setdefault(start.sentence, []).append(start.spark)
    for sentence, lines in by_sentence.items():
        same = sentence == inspection.start.sentence
        yield f"{', '.join(lines)}: {'the same' if same else sentence}"


def _sink(inspection: Inspection) -> str:
    if not inspection.sinks:
        return "not asked: name it (inspect --sink, or surestart.toml) to know whether it accepts the next batch"
    said = [f"{answer.word}: {answer.sink.target} {answer.detail}" for answer in inspection.sinks]
    return "; ".join(said)


def _describe(checkpoint: Checkpoint) -> Iterator[str]:
    yield ""
    yield from _row("query id", checkpoint.query_id or "none")
    yield from _row("batches", _batches(checkpoint))
    for source in checkpoint.sources:
        yield from _row(f"source {inert(source.id, 6)}", _source(source))
    yield from _state(checkpoint)
    yield from _row("written by", _writer(checkpoint))
    if checkpoint.confs:
        partitions = checkpoint.confs.get("spark.sql.shuffle.partitions")
        shown = f", state partitions {partitions}" if partitions and checkpoint.state.operators else ""
        yield from _row("pinned", f"{len(checkpoint.confs)} settings{shown} (--json lists them)")
    yield from _row("size", _size(checkpoint))
    for text in checkpoint.sampled:
        yield from _row("not read", text)


def _batches(checkpoint: Checkpoint) -> str:
    planned, committed = checkpoint.latest_planned, checkpoint.latest_committed
    if planned is None and committed is None:
        return "none planned yet"
    in_flight = "none in flight" if checkpoint.in_flight is None else f"batch {checkpoint.in_flight} in flight"
    kept = f"{len(checkpoint.offsets_folder.ids)} kept from {checkpoint.offsets_folder.first}"
    return f"planned {_or_none(planned)}, committed {_or_none(committed)}, {in_flight}; {kept}"


def _or_none(batch: int | None) -> str:
    return "none" if batch is None else str(batch)


def _source(source: CheckpointSource) -> str:
    where = []
    if source.start is not None and source.end is not None and source.start.describe() != source.end.describe():
        where.append(f"from {source.start.describe()} to {source.end.describe()}")
    elif source.end is not None:
        where.append(f"at {source.end.describe()}")
    log = source.folder.file_log if source.folder else None
    if log and log.files_seen is not None:
        about = "" if log.exact else "about "
        where.append(f"{about}{log.files_seen:,} file{'s' if log.files_seen != 1 else ''} seen")
    if source.folder and source.folder.initial and not source.end:
        where.append(f"first started at {source.folder.initial.describe()}")
    return f"{source.kind}: {'; '.join(where) or 'no position'}"


def _state(checkpoint: Checkpoint) -> Iterator[str]:
    state = checkpoint.state
    if not state.operators:
        yield from _row("state", "none: the query is stateless, or its state/ is gone")
        return
    version = ", format v2" if state.format_v2 else ""
    mark = watermark_text(checkpoint, time.time() * 1000)
    yield from _row("state", f"{state.provider or 'unknown provider'}{version}; watermark {mark}")
    for operator in state.operators[:OPERATORS_SHOWN]:
        yield from _row(f"operator {operator.id}", operator.name or "of no name: written before Spark 4.0")
        for text in store_lines(operator):
            yield from _row("", text, COLUMNS_LIMIT)
    if len(state.operators) > OPERATORS_SHOWN:
        yield from _row("", f"{len(state.operators) - OPERATORS_SHOWN} more operators: --json lists them")


def _writer(checkpoint: Checkpoint) -> str:
    formats = checkpoint.formats
    known = [f"{name} v{version}" for name, version in formats.items() if version is not None]
    return f"Spark {checkpoint.spark_version or 'unknown'}" + (f" ({', '.join(known)})" if known else "")


def _size(checkpoint: Checkpoint) -> str:
    left = f", {checkpoint.leftover_count} leftovers" if checkpoint.leftover_count else ""
    return f"{checkpoint.files:,} files, {_bytes(checkpoint.size)}{left}"


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def render_finding(finding: Finding) -> Iterator[str]:
    """Four parts, as in every message: what, meaning, next, do not. The command stands on a line of its own, whole."""
    mark = "INFO" if finding.severity is Severity.INFO else finding.severity.value.upper()
    yield f"{mark}  {finding.code}"
    yield from _wrap(finding.evidence, "  ")
    yield from _wrap(f"Meaning: {finding.meaning}", "  ")
    yield f"  Next: {inert(str(finding.next), COMMAND_LIMIT)}"
    if finding.do_not:
        yield from _wrap(f"Do not: {finding.do_not}", "  ")
    yield ""


def _row(label: str, value: str, limit: int = VALUE_LIMIT) -> Iterator[str]:
    first, *rest = textwrap.wrap(inert(value, limit), WIDTH - LABEL) or [""]
    yield f"{label:<{LABEL}}{first}".rstrip()
    for line in rest:
        yield " " * LABEL + line


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(inert(text, VALUE_LIMIT), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
