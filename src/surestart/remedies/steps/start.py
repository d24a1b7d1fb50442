"""Writes how each touched stage begins after the remedy: one row per stage in the run history, in one commit.

From this row on the history before it is no longer held against a start: another query id, an earlier batch and cleared
tables are what the remedy was for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from surestart.gate.describe_run import describe_run
from surestart.registry.read_runs import read_runs
from surestart.registry.run_record import FINISHED, REMEDY, RunRecord
from surestart.registry.write_runs import append_runs
from surestart.remedies.chain import Link
from surestart.remedies.commit_once import find_commit
from surestart.remedies.journal import now
from surestart.remedies.plan import Step
from surestart.remedies.running import Running
from surestart.remedies.start import Start, read_kept
from surestart.remedies.steps.clear import find_output
from surestart.sources.kafka import KafkaSource


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    starts = {name: _start(run, run.chain.link(name), how) for name, how in step.arguments["starts"].items()}
    return _record(run, step.id, f"{run.plan.remedy} of {run.plan.stage}", starts)


def undo_step(run: Running, step: Step) -> dict[str, Any]:
    starts = {name: _start_after_undo(run, run.chain.link(name)) for name in step.arguments["starts"]}
    return _record(run, f"undo:{step.id}", f"undo of {run.plan.remedy} of {run.plan.stage}", starts)


def _record(run: Running, step: str, what: str, starts: dict[str, Start]) -> dict[str, Any]:
    """The rows are in the history, once."""
    run_ids = {name: f"{run.digest[:16]}-{step}-{name}" for name in starts}
    known = {record.run_id for record in read_runs(run.environment, run.spark)}
    rows: list[RunRecord] = []
    for name, start in starts.items():
        if run_ids[name] in known:
            continue
        record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
        rows.append(
            replace(
                record,
                run_id=run_ids[name],
                event=REMEDY,
                declaration={**record.declaration, "start": start.as_dict()},
                ended_at=now(),
                outcome=FINISHED,
                accepted=(f"{what}, digest {run.digest[:12]}",),
            )
        )
    if rows:
        append_runs(run.spark, run.environment, rows)
    return {"starts": {name: start.as_dict() for name, start in starts.items()}}


def _start(run: Running, link: Link, how: dict[str, Any]) -> Start:
    """how: {"kept": marks are in `surestart_kept`, "caught_up": whatever the input holds by now is in the output}."""
    kept = bool(how.get("kept"))
    if link.input is not None:
        version = _version(run, link) + 1 if how.get("caught_up") else None
        return Start(run.digest, link.name, version=version, kept=kept and version is None and not link.keyed)
    if isinstance(link.stage.source, KafkaSource):
        return Start(run.digest, link.name, below=_kafka_offsets(run, link) if kept else None, kept=kept)
    return Start(run.digest, link.name, kept=kept)


def _kafka_offsets(run: Running, link: Link) -> dict[str, int]:
    """The first offset of every partition that the topic has now; of one without rows that stay, its earliest."""
    from surestart.sources.kafka_evidence import read_kafka_evidence

    source = link.stage.source
    assert isinstance(source, KafkaSource)
    evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security)
    rows = read_kept(run.spark, run.environment, run.digest, link.name).collect()
    marks = {row["partition"]: row["below"] for row in rows if row["source"] == source.topic}
    return {str(one.partition): marks.get(one.partition, one.earliest) for one in evidence.partitions}


def _version(run: Running, link: Link) -> int:
    assert link.input is not None
    row = run.spark.sql(f"DESCRIBE HISTORY {link.input.sql} LIMIT 1").select("version").collect()
    return int(row[0]["version"])


def _start_after_undo(run: Running, link: Link) -> Start:
    """The input's commits between the remedy and its undo are passed over: what they brought was taken back."""
    above = run.chain.link(link.upstream) if link.upstream else None
    step = next(
        (
            step
            for step in run.plan.steps
            if step.kind == "clear"
            and above is not None
            and step.stage == above.name
            and find_output(run, step)[1].table == link.input
        ),
        None,
    )
    if above is None or step is None or link.input is None:
        return Start(run.digest, link.name)
    restored = find_commit(run.spark, link.input, run.digest, f"undo:{step.id}")
    if restored is None:
        return Start(run.digest, link.name)
    window = run.journal.undo_facts(step.id)
    return Start(
        run.digest,
        link.name,
        skip_column=str(window.get("column", "")),
        skip_first=int(window.get("first", 0)),
        skip_last=int(window.get("last", -1)),
        skip_until=restored,
    )
