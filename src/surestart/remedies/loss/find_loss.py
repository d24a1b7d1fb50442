"""Which of the rows that a plan removes will not come again: from any table of any of its stages, databases included.

    first stage      what its source still gives                                                    (still_given)
    a stage below    its input as it will be: rows of it that stay, and those that come again from above

A position is counted once, in the first stage that loses it. Rows without a position, and those of a table that keeps
none, cannot be told from others: no plan removes them without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_

from surestart.environment import Environment
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import NEWEST, POSITION, Link, Output
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.rows_that_stay import removed_rows
from surestart.remedies.loss.loss import Loss, LossSearch, Marks, count_lost, rows_below
from surestart.remedies.loss.still_given import read_giving, read_row_positions
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side


def begin_loss_search(
    spark: SparkSession, environment: Environment, links: Sequence[Link], recorded_topic_id: str = ""
) -> LossSearch:
    giving = read_giving(spark, environment, links[0], recorded_topic_id)
    return LossSearch(spark, environment, {link.name: link for link in links}, giving)


def find_loss(found: LossSearch, link: Link, kept: DataFrame | None) -> Loss:
    """The loss of this stage: of the rows that would go from its tables and databases, those that will not come
    again."""
    found.kept[link.name], found.before = kept, len(found.counted)
    return together(list(_losses(found, link, kept)))


def _losses(found: LossSearch, link: Link, kept: DataFrame | None) -> Iterator[Loss]:
    # A source that gives all of its rows again also gives those that go.
    asked = link.name == found.giving.link.name and found.giving.gives_all
    rows = None if asked else read_row_positions(found.spark, link.outputs)
    if rows is not None:
        yield count_lost(found, link, rows if kept is None else removed_rows(rows, kept))
    for output in link.outputs:
        columns = read_columns(found.spark, output.table)
        if columns is not None and not set(POSITION) <= columns.keys():
            yield _without_positions(found, link, output)
    for own in link.own_sinks:
        there = own.read_positions(found.spark)
        if there is not None:
            yield count_lost(found, link, there, own.label)
    if link.databases:
        from surestart.remedies.loss.database_loss import find_database_loss

        for sink in link.databases:
            yield find_database_loss(found, link, sink, kept)


def hidden_below(found: LossSearch, link: Link, marks: Marks) -> int:
    """Rows of the stage's input below these marks that its tables do not have: kept rows would hide them from it."""
    if link.input is None or link.keyed or read_columns(found.spark, link.input) is None:
        return 0
    named = [(source, int(part), mark) for source, parts in marks.items() for part, mark in parts.items()]
    below = found.spark.createDataFrame(named, "source STRING, partition INT, below BIGINT")
    given, have = rows_below(read_table(found.spark, link.input), below), read_row_positions(found.spark, link.outputs)
    if have is None:
        return 0
    missing = not_in(given.select(*POSITION), have)
    return 0 if missing is None else missing.count()


def _without_positions(found: LossSearch, link: Link, output: Output) -> Loss:
    """By its keys, where it has some and its input is a table; else nobody can tell its rows apart."""
    rows = read_table(found.spark, output.table)
    if output.role == NEWEST and link.input is not None and read_columns(found.spark, link.input) is not None:
        from pyspark.sql import functions as F

        given = link.stage.transform(read_table(found.spark, link.input))
        if set(output.keys) <= set(given.columns):
            keys = given.select(*[F.col(key).alias(f"_given_{key}") for key in output.keys])
            same = reduce(and_, [F.col(key).eqNullSafe(F.col(f"_given_{key}")) for key in output.keys])
            count = rows.join(large_side(keys), same, "left_anti").count()
            why = f"{count:,} keys of {output.table.name} have no row in {link.input.name}"
            return Loss(count, why, of_stage=count) if count else Loss()
    count = rows.count()
    why = f"{output.table.name} has no columns {', '.join(POSITION)}: whether its rows come again cannot be told"
    return Loss(count, why, of_stage=count) if count else Loss()


def together(losses: Sequence[Loss]) -> Loss:
    """Of all stages of a plan, or all tables of a stage. marks: empty as soon as something of it cannot be kept."""
    marks: dict[str, dict[str, int]] = {}
    for loss in losses:
        for source, parts in loss.marks.items():
            known = marks.setdefault(source, {})
            known.update({part: max(mark, known.get(part, 0)) for part, mark in parts.items()})
    return Loss(
        rows=sum(loss.rows for loss in losses),
        why="; ".join(dict.fromkeys(loss.why for loss in losses if loss.why)),
        marks={} if any(loss.of_stage and not loss.marks for loss in losses) else marks,
        other_topic=any(loss.other_topic for loss in losses),
        of_stage=sum(loss.of_stage for loss in losses),
    )
