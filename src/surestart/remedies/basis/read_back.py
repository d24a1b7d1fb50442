"""What the doctor says of a checkpoint that is to replace another one: asked before it is written, and once it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.storage.storage import Storage
from surestart.history.describe_run import options_of
from surestart.journal.unfinished import CODE as UNFINISHED
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.step_context import StepContext, again
from surestart.runs.judge_start import judge_stage
from surestart.sources.abilities import finds_problems
from surestart.verdict.diagnose import Diagnosis
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import commands_for

_STOPS = (Severity.UNSAFE, Severity.CANNOT_TELL)
# Whether the source gives again what was read behind a batch that is gone back to. A stream that stands at its newest
# batch may not need to know; this one does.
_OF_WHAT_COMES_AGAIN = frozenset(
    {
        "SOURCE_MISSING",
        "SOURCE_TABLE_REPLACED",
        "SOURCE_COMMITS_VANISHED",
        "SOURCE_HISTORY_GONE",
        "SOURCE_FILES_GONE",
        "SOURCE_NOT_READ",
        "SOURCE_NOT_READ_TO_END",
        "KAFKA_RECORDS_LOST",
        "KAFKA_TOPIC_REPLACED",
        "KAFKA_OFFSETS_BEYOND_END",
        "KAFKA_PARTITIONS_GONE",
        "KAFKA_TOPIC_MISSING",
        "KAFKA_OUT_OF_REACH",
    }
)
_ASKED_BY_POSITION = frozenset({"files", "kafka", "delta"})
_NOT_ASKED = ("SOURCE_NOT_ASKED", "SOURCE_NOT_DECLARED")


@dataclass(frozen=True)
class CutAnswer:
    """What the doctor says of a cut.

    stops: what keeps the stage from starting there and did not where it stands, or from which rows would not come
        again.
    known: what keeps it from starting either way.
    not_asked: sources that nobody could ask what they still have."""

    stops: tuple[Finding, ...]
    known: tuple[str, ...]
    not_asked: tuple[str, ...]


def ask_of_cut(spark: SparkSession, environment: Environment, link: Link, cut: Storage) -> CutAnswer:
    before = stopping_findings(spark, environment, link)
    known = tuple(dict.fromkeys(one.code for one in before if one.code not in _OF_WHAT_COMES_AGAIN))
    judged = _judge(spark, environment, link, cut)
    stops = tuple(one for one in _but_of_sinks(judged) if one.code not in known)
    not_asked = [one.evidence for one in judged.findings if one.code in _NOT_ASKED]
    kinds = {one.kind for one in link.stage.declare(environment).sources}
    if finds_problems(link.stage.source) and not kinds <= _ASKED_BY_POSITION:
        not_asked.append("a source of your own is asked about the next start alone")
    return CutAnswer(stops, known, tuple(not_asked))


def stopping_findings(
    spark: SparkSession, environment: Environment, link: Link, storage: Storage | None = None
) -> tuple[Finding, ...]:
    """What would keep the stage from starting, as far as checkpoint and sources tell. storage: in the place of the
    checkpoint that is there. The sinks still hold what is to be taken back."""
    return _but_of_sinks(_judge(spark, environment, link, storage))


def not_given_again(spark: SparkSession, environment: Environment, link: Link, storage: Storage) -> tuple[Finding, ...]:
    """What keeps the sources from giving again what came behind the checkpoint in that storage."""
    found = stopping_findings(spark, environment, link, storage)
    return tuple(one for one in found if one.code in _OF_WHAT_COMES_AGAIN)


def refuse_unsafe_cut(run: StepContext, link: Link, place: Path, known: Collection[str]) -> None:
    """Raises unless the doctor would let the stage start from the checkpoint at that place, its tables being restored.
    known: what it had found before, and would find again."""
    environment = run.environment.with_checkpoint(link.name, str(place))
    found = [one for one in _stopping(_judge(run.spark, environment, link, None)) if one.code not in known]
    if not found:
        return
    raise Refused(
        f"the checkpoint that was made for {link.query} is not safe: {found[0].code}: {found[0].evidence}",
        meaning=f"{found[0].meaning} The one in use is as it was; the one that was made is in {place}.",
        next=again(run, "undo"),
        do_not="put it in its place by hand.",
        code="CutNotSafe",
    )


def _judge(spark: SparkSession, environment: Environment, link: Link, storage: Storage | None) -> Diagnosis:
    commands = commands_for(link.stage, environment, options_of(environment))
    return judge_stage(environment, link.stage, (), commands, session=spark, storage=storage)


def _but_of_sinks(judged: Diagnosis) -> tuple[Finding, ...]:
    of_sinks = {finding for answer in judged.sinks for finding in answer.findings}
    return tuple(finding for finding in _stopping(judged) if finding not in of_sinks)


def _stopping(judged: Diagnosis) -> list[Finding]:
    return [one for one in judged.findings if one.severity in _STOPS and one.code != UNFINISHED]
