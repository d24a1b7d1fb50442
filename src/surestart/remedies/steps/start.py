"""Says how each touched stage begins after the remedy: in the journal, with one row per stage in the run history.

From that row on the history before it is no longer held against a start: another query id, an earlier batch and cleared
tables are what the remedy was for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from surestart.history.describe_run import describe_run
from surestart.history.read_runs import read_runs
from surestart.history.run_record import FINISHED, REMEDY, RunRecord
from surestart.history.write_runs import append_runs
from surestart.journal.commit_once import mark_once
from surestart.journal.journal import now
from surestart.journal.start import Start, read_kept
from surestart.remedies.plan.beside import BESIDE
from surestart.remedies.plan.chain import Link
from surestart.remedies.plan.plan import Step
from surestart.remedies.plan.running import Running
from surestart.remedies.plan.same_topic import recorded_topic, refuse_other_topic
from surestart.sources.kafka import KafkaSource


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    named = step.arguments["starts"]
    # A stage whose checkpoint goes on keeps whatever an earlier remedy has said of its begin.
    starts = {name: _start(run, run.chain.link(name), how) for name, how in named.items() if not how.get("as_before")}
    _record(run, step.id, f"{run.plan.remedy} of {run.plan.stage}", named, remedy=run.digest[:16])
    return {"starts": {name: start.as_dict() for name, start in starts.items()}}


def undo_step(run: Running, step: Step) -> dict[str, Any]:
    """Each stage begins as it did before the remedy: one that was undone has no say any more."""
    what = f"undo of {run.plan.remedy} of {run.plan.stage}"
    _record(run, f"undo:{step.id}", what, step.arguments["starts"], undoes=run.digest[:16])
    return {}


def _record(run: Running, step: str, what: str, names: Iterable[str], remedy: str = "", undoes: str = "") -> None:
    """A row for each stage is in the history, once."""
    run_ids = {name: f"{run.digest[:16]}-{step}-{name}" for name in names}
    known = {record.run_id for record in read_runs(run.environment, run.spark)}
    rows: list[RunRecord] = []
    for name in run_ids:
        if run_ids[name] in known:
            continue
        record = describe_run(run.spark, run.environment, run.chain.link(name).stage)
        note = (f"{what}, digest {run.digest[:12]}",)
        record = replace(record, run_id=run_ids[name], event=REMEDY, remedy=remedy, undoes=undoes)
        rows.append(replace(record, ended_at=now(), outcome=FINISHED, accepted=note))
    if rows:
        append_runs(run.spark, run.environment, rows)


def _start(run: Running, link: Link, how: dict[str, Any]) -> Start:
    """how: {"kept": marks are in `surestart_kept`, "caught_up": whatever the input holds by now is in the output}."""
    kept = bool(how.get("kept"))
    if link.input is not None:
        version = _mark_version(run, link) if how.get("caught_up") else None
        return Start(run.digest, link.name, version=version, kept=kept and version is None and not link.keyed)
    if isinstance(link.stage.source, KafkaSource):
        return Start(run.digest, link.name, below=_kafka_offsets(run, link) if kept else None, kept=kept)
    return Start(run.digest, link.name, kept=kept)


def _kafka_offsets(run: Running, link: Link) -> dict[str, int]:
    """Of every partition that the topic has now: the offset behind the rows that stay, or its earliest above that."""
    from surestart.facts.kafka.evidence import read_kafka_evidence

    source = link.stage.source
    assert isinstance(source, KafkaSource)
    kept = read_kept(run.spark, run.environment, run.digest, link.name)
    topic = recorded_topic(read_runs(run.environment, run.spark), link, run.environment)
    if run.plan.method != BESIDE:
        # What was filled beside came from the topic that there is; the id of the live runs may be a former one's.
        refuse_other_topic(run.environment, link, kept, topic, "The output is partly cleared.")
    evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security)
    rows = kept.collect()
    marks = {row["partition"]: row["below"] for row in rows if row["source"] == source.topic}
    # What retention has taken since the last row that stays cannot be read: Spark fails at an offset below that.
    return {str(one.partition): max(marks.get(one.partition, 0), one.earliest) for one in evidence.partitions}


def _mark_version(run: Running, link: Link) -> int:
    """A commit of the input table that changes no row, behind the clearing: the stream begins there. A version that
    does not exist yet is no start for Delta, and the newest one may have added rows."""
    assert link.input is not None
    return mark_once(run.spark, link.input, run.digest, f"begin:{link.name}")
