"""Freezes which rows stay: the marks of a stage are rows of `surestart_kept` under the plan's digest."""

from __future__ import annotations

from typing import Any

from surestart.errors import Refused
from surestart.journal.stage_start import KEPT, KEPT_COLUMNS, read_kept
from surestart.library_types import DataFrame
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import find_stay_marks, read_rule, summarize_marks
from surestart.remedies.basis.step_context import StepContext, again
from surestart.spark.delta_table import create_or_check_table, save_to


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The marks are in the table, once, and are those that the plan has counted."""
    write_marks(run, step.stage, find_stay_marks(run.spark, run.environment, read_rule(step.arguments["rule"])))
    found = summarize_marks(read_kept(run.spark, run.environment, run.digest, step.stage).collect())
    planned = {name: step.arguments[name] for name in ("marks", "sha256")}
    if found != planned:
        raise Refused(
            f"{step.stage}: {found['marks']} partitions and files keep rows, the plan was made for {planned['marks']}, "
            "or for other offsets of them",
            meaning="What the plan rests on cannot be found again. No table and no checkpoint was changed.",
            next=again(run, "undo"),
            code="KeptRowsDiffer",
        )
    return found


def write_marks(run: StepContext, stage: str, marks: DataFrame) -> None:
    """They are rows of `surestart_kept` under the plan's digest, once."""
    from pyspark.sql import functions as F

    table = run.environment.table(KEPT)
    create_or_check_table(run.spark, table, KEPT_COLUMNS)
    rows = marks.select(F.lit(run.digest).alias("digest"), F.lit(stage).alias("stage"), "source", "partition", "below")
    writer = (
        rows.coalesce(1)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", f"kept-{run.digest}-{stage}")
        .option("txnVersion", "0")
    )
    save_to(table, writer)


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    return {}
