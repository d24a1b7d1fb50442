"""Refuses a backfill above a stage that has not read its table since a remedy.

That stage passes over every row below its marks, so it would pass over the new ones too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.checkpoint.stage_progress import read_stage_progress
from surestart.history.describe_run import named
from surestart.journal.journal import read_journals
from surestart.journal.stage_start import find_start, in_first_snapshot
from surestart.remedies.basis.chain import Chain
from surestart.typed import surestart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse_unread_begin(spark: SparkSession, environment: Environment, chain: Chain, stage: str) -> None:
    """Raises where a stage below would leave out rows that are written into its table now."""
    journals = read_journals(environment, spark)
    for link in chain.below(stage)[1:]:
        start = find_start(journals, link.name)
        if start is not None and start.kept and in_first_snapshot(read_stage_progress(link.checkpoint)):
            raise Refused(
                f"{link.query} has not yet read its table once since its last remedy ({start.digest[:12]})",
                meaning="Rows that are written below its marks now would be left out by it. Nothing was written.",
                next=surestart("run", link.name, place=named(environment)),
                code="BeginNotReached",
            )
