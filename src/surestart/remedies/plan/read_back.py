"""What the doctor says of a checkpoint that is to take the place of another: while it is a value, and as written."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.storage.storage import Storage
from surestart.history.describe_run import options_of
from surestart.journal.half_way import CODE as HALF_WAY
from surestart.remedies.plan.chain import Link
from surestart.remedies.plan.journaling import again
from surestart.remedies.plan.running import Running
from surestart.runs.judge_start import judge_stage
from surestart.verdict.diagnose import Diagnosis
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOPS = (Severity.UNSAFE, Severity.CANNOT_TELL)


def stopping_findings(
    spark: SparkSession, environment: Environment, link: Link, storage: Storage | None = None
) -> tuple[Finding, ...]:
    """What would keep the stage from starting, as far as checkpoint and sources tell. storage: in the place of the
    checkpoint that is there. The sinks still hold what is to be taken back."""
    judged = _judge(spark, environment, link, storage)
    of_sinks = {finding for answer in judged.sinks for finding in answer.findings}
    return tuple(finding for finding in _stopping(judged) if finding not in of_sinks)


def refuse_unsafe_cut(run: Running, link: Link, place: Path, known: Collection[str]) -> None:
    """Raises unless the doctor would let the stage start from the checkpoint at that place, its tables being restored.
    known: what it had found before, and would find again."""
    environment = run.environment.with_checkpoint(link.name, str(place))
    found = [one for one in _stopping(_judge(run.spark, environment, link, None)) if one.code not in known]
    if not found:
        return
    raise Refused(
        f"the checkpoint that was made for {link.query} is not safe: {found[0].code}: {found[0].evidence}",
        meaning=f"{found[0].meaning} The one in use is as it was; the one that was made lies in {place}.",
        next=again(run, "undo"),
        do_not="put it in its place by hand.",
        code="CutNotSafe",
    )


def _judge(spark: SparkSession, environment: Environment, link: Link, storage: Storage | None) -> Diagnosis:
    commands = Commands(link.name, environment.name, options_of(environment))
    return judge_stage(environment, link.stage, (), commands, session=spark, storage=storage)


def _stopping(judged: Diagnosis) -> list[Finding]:
    return [one for one in judged.findings if one.severity in _STOPS and one.code != HALF_WAY]
