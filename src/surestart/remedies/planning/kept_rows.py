"""Rows of what a rewind takes back that a stage below holds also at the version to which its table goes back.

A replay has kept them, or a former self of the stage has written them before its checkpoint was lost: no batch that it
goes back behind has brought them, and nothing would ever take them away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.delta import Commit
from surestart.journal.next_command import plan_command
from surestart.remedies.basis.chain import POSITION, Link
from surestart.remedies.basis.missing_positions import not_in
from surestart.remedies.basis.rows_that_stay import read_at
from surestart.remedies.planning.rewind_table import batch_by
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.large_side import large_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_kept_rows(
    spark: SparkSession,
    environment: Environment,
    link: Link,
    standing: Mapping[str, Sequence[Commit]],
    versions: Mapping[str, int],
    ids: Collection[str],
    instead: tuple[str, int],
) -> None:
    """Raises where the stage's tables would keep such rows. standing: the commits of each of them. versions: those that
    tables go back to. ids: of the stage. instead: the stage and the first batch of a replay, which goes by the rows'
    positions."""
    if link.input is None or link.input.name not in versions:
        return
    for name, commits in standing.items():
        if not _has_former_rows(link, commits, versions.get(name), ids):
            continue
        rows = _rows_that_go(spark, environment, link.input.name, name, versions, _before_own(commits, ids))
        if rows:
            stage, batch = instead
            raise Refused(
                f"{link.query} would keep {rows:,} rows of {name} that are of what is taken back",
                meaning="A replay has kept them, or its checkpoint was lost since: no batch of it says when they came, "
                "and nothing would take them away. Nothing was planned.",
                next=plan_command(environment, "replay", stage, "--from-batch", batch),
                code="ReaderCannotGoBack",
            )


def _has_former_rows(link: Link, commits: Sequence[Commit], version: int | None, ids: Collection[str]) -> bool:
    """The stage has written into it under an id that is none of its own by now; or may have, where the log does not
    reach back to the beginning. Rows of others stay in any case."""
    marks = [one.mark for one in commits if version is None or one.version <= version]
    begins = bool(commits) and commits[0].version == 0
    return not begins or any(mark and mark.query == link.query and mark.query_id not in ids for mark in marks)


def _before_own(commits: Sequence[Commit], ids: Collection[str]) -> int | None:
    """The version before the first batch of the stage's own; None: it has none."""
    own = [one.rows_at for one in commits if batch_by(one, ids) is not None]
    return min(own) - 1 if own else None


def _rows_that_go(
    spark: SparkSession,
    environment: Environment,
    given: str,
    name: str,
    versions: Mapping[str, int],
    former: int | None,
) -> int:
    """By position; of a table without positions, every row of before its own batches."""
    rows = _read(spark, environment, name, versions)
    columns = read_columns(spark, environment.table(given)) or {}
    if not set(POSITION) <= set(columns) or not set(POSITION) <= set(rows.columns):
        return rows.count() if former is None else read_at(spark, environment, name, former).count()
    now = read_table(spark, environment.table(given)).select(*POSITION)
    going = not_in(now, read_at(spark, environment, given, versions[given]))
    return 0 if going is None else rows.join(large_side(going), list(POSITION), "left_semi").count()


def _read(spark: SparkSession, environment: Environment, name: str, versions: Mapping[str, int]) -> DataFrame:
    if name in versions:
        return read_at(spark, environment, name, versions[name])
    return read_table(spark, environment.table(name))
