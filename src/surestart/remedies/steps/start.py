"""Says how each touched stage begins after the remedy: in the journal, with one row per stage in the run history.

From that row on the history before it is no longer held against a start: another query id, an earlier batch and cleared
tables are what the remedy was for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from surestart.history.describe_run import describe_run
from surestart.history.run_record import FINISHED, REMEDY, RunRecord
from surestart.history.run_table import append_runs, read_runs
from surestart.journal.commit_once import mark_once
from surestart.journal.journal import now
from surestart.journal.stage_start import StageStart, read_kept
from surestart.remedies.basis.beside import BESIDE
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.same_topic import recorded_topic, refuse_other_topic
from surestart.remedies.basis.step_context import StepContext
from surestart.sources.abilities import topic_of
from surestart.sources.kafka import KafkaSource


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    named = step.arguments["starts"]
    # A stage whose checkpoint goes on keeps whatever an earlier remedy has said of its begin.
    starts = {name: _start(run, run.chain.link(name), how) for name, how in named.items() if not how.get("as_before")}
    places = {name: str(how["checkpoint"]) for name, how in named.items() if "checkpoint" in how}
    _record(run, step.id, f"{run.plan.remedy} of {run.plan.stage}", named, places, remedy=run.digest[:16])
    return {"starts": {name: start.as_dict() for name, start in starts.items()}}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Each stage begins as it did before the remedy: an undone remedy decides nothing any more."""
    what = f"undo of {run.plan.remedy} of {run.plan.stage}"
    named = step.arguments["starts"]
    places = {name: str(how["former"]) for name, how in named.items() if "former" in how}
    _record(run, f"undo:{step.id}", what, named, places, undoes=run.digest[:16])
    return {}


def _record(
    run: StepContext,
    step: str,
    what: str,
    names: Iterable[str],
    places: Mapping[str, str],
    remedy: str = "",
    undoes: str = "",
) -> None:
    """A row for each stage is in the history, once. places: of checkpoints that are elsewhere from now on."""
    run_ids = {name: f"{run.digest[:16]}-{step}-{name}" for name in names}
    known = {record.run_id for record in read_runs(run.environment, run.spark)}
    rows: list[RunRecord] = []
    for name in run_ids:
        if run_ids[name] in known:
            continue
        environment = run.environment
        if name in places:
            environment = environment.with_checkpoint(name, places[name])
        record = describe_run(run.spark, environment, run.chain.link(name).stage)
        note = (f"{what}, digest {run.digest[:12]}",)
        record = replace(record, run_id=run_ids[name], event=REMEDY, remedy=remedy, undoes=undoes)
        rows.append(replace(record, ended_at=now(), outcome=FINISHED, accepted=note))
    if rows:
        append_runs(run.spark, run.environment, rows)


def _start(run: StepContext, link: Link, how: dict[str, Any]) -> StageStart:
    """how: {"kept": marks are in `surestart_kept`, "caught_up": whatever the input holds by now is in the output}."""
    kept = bool(how.get("kept"))
    if link.input is not None:
        version = _mark_version(run, link) if how.get("caught_up") else None
        return StageStart(run.digest, link.name, version=version, kept=kept and version is None and not link.keyed)
    topic = topic_of(link.stage.source)
    if topic is not None:
        return StageStart(run.digest, link.name, below=_kafka_offsets(run, link, topic) if kept else None, kept=kept)
    return StageStart(run.digest, link.name, kept=kept)


def _kafka_offsets(run: StepContext, link: Link, source: KafkaSource) -> dict[str, int]:
    """Of every partition that the topic has now: the offset behind the rows that stay, or its earliest above that."""
    from surestart.facts.kafka.evidence import read_kafka_evidence

    kept = read_kept(run.spark, run.environment, run.digest, link.name)
    topic = recorded_topic(read_runs(run.environment, run.spark), link, run.environment)
    if run.plan.method != BESIDE:
        # The tables beside were filled from the topic that exists now. The live runs may have read a former one.
        refuse_other_topic(run.environment, link, kept, topic, "The output is partly cleared.")
    evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security)
    rows = kept.collect()
    marks = {row["partition"]: row["below"] for row in rows if row["source"] == source.topic}
    # What retention has taken since the last row that stays cannot be read: Spark fails at an offset below that.
    return {str(one.partition): max(marks.get(one.partition, 0), one.earliest) for one in evidence.partitions}


def _mark_version(run: StepContext, link: Link) -> int:
    """A commit of the input table that changes no row, behind the clearing: the stream begins there. A version that
    does not exist yet is no start for Delta, and the newest one may have added rows."""
    assert link.input is not None
    return mark_once(run.spark, link.input, run.digest, f"begin:{link.name}")
