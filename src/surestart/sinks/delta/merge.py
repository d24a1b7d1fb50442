"""Merges each batch into one Delta table: one row per key, the newest by a total order that no replay can change.

    batch ──> newest row per key in the batch ──> MERGE … ON keys AND literal bounds of this batch
                                                   WHEN MATCHED AND the source row is newer  THEN UPDATE
                                                   WHEN NOT MATCHED                          THEN INSERT

Arrival order never matters: an older row neither overwrites a newer one nor wins inside a batch. The bounds are
literals read from the batch, so Delta leaves out every file of the target that cannot hold one of its keys, and the
cost of a MERGE follows the batch and not the table.

MERGE takes its transaction from session settings, not from options. Where no session takes these (serverless), the pair
follows the MERGE in a commit of its own: surestart.sinks.delta.merge.

A MERGE whose pair and note follow it, in an append of no rows: for compute whose sessions take no such settings.

    MERGE (no pair, no note)   ── kill ──>   the batch is in flight, its replay merges it once more: nothing changes
    append of no rows: pair (query id, batch id), note, the version of the MERGE and the rows that it was given
                               ── kill ──>   the pair is known: the replay is skipped

A MERGE by a total order gives the same table however often it comes. So the pair is not needed for the rows; it says
which batch the table holds, to the gate, the doctor and the history. docs/decisions/0031-a-merge-then-its-pair.md"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment, Table
from surestart.facts.delta.commit_notes import newest_version, read_new_steps, read_noted_commits, read_steps, rows_of
from surestart.failpoints import fail_point
from surestart.library_types import DataFrame, DataStreamWriter, Row, SparkSession, StreamingQuery
from surestart.sinks.abilities import NEWEST, Hole, Output
from surestart.sinks.batch_error import BatchShort, SkippedBatch, doctor_of, refuse_empty_looks
from surestart.sinks.delta.same_identity import read_identity, same_identity, what_replaced
from surestart.sinks.delta.transaction import append_pair, commit_note, takes_pairs, transaction
from surestart.spark.delta_table import create_or_check_table
from surestart.spark.session import applied
from surestart.spark.settings import MERGE, pairs
from surestart.stage import BatchContext

_log = logging.getLogger("surestart.merge")

_SMALL_BATCH = 5_000
_RANK = "surestart_rank"
_TRIES = 5
# Classes of Delta's errors, which their texts begin with; in Connect the text is all there is.
_CONFLICTS = ("DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_DELETE_READ", "DELTA_CONCURRENT_DELETE_DELETE")


@dataclass(frozen=True)
class DeltaMerge:
    """keys: what a row is about.
    order: what makes one row newer than another with the same keys; the last column must make it total.
    bounded_by: columns that are functions of the keys; list_of: partition columns, few per batch.
    shared: whether other queries write into this table as well; None: nobody has said."""

    table: str
    columns: str
    keys: tuple[str, ...]
    order: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    bounded_by: tuple[str, ...] = ()
    shared: bool | None = None

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        create_or_check_table(spark, environment.table(self.table), self.columns, self.partition_by)

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        return writer.foreachBatch(self.batch_writer(context)).start()

    def batch_writer(self, context: BatchContext) -> MergeBatch:
        return MergeBatch(
            context=context,
            table=context.environment.table(self.table),
            keys=self.keys,
            order=self.order,
            partition_by=self.partition_by,
            bounded_by=self.bounded_by,
        )

    def outputs(self, environment: Environment) -> tuple[Output, ...]:
        return (Output(environment.table(self.table), NEWEST, self.keys, self.order, self.partition_by),)

    def fill_once(self, hole: Hole) -> None:
        """The newest of these rows is in the table for each key, unless the table has a newer one. Rows of the table
        that are as new and hold other values are replaced."""
        # Not kept: Delta refuses a MERGE whose source is cached.
        self.batch_writer(hole.context).merge(hole.rows(), hole.identity, 0, as_new=True)

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        table = environment.table(self.table)
        return (SinkDeclaration("delta-merge", table.label, table.path, keys=self.keys, shared=self.shared),)


@dataclass(frozen=True)
class MergeBatch:
    context: BatchContext
    table: Table
    keys: tuple[str, ...]
    order: tuple[str, ...]
    partition_by: tuple[str, ...]
    bounded_by: tuple[str, ...]

    def __call__(self, batch_df: DataFrame, batch_id: int) -> None:
        query_id = read_identity(self.context, batch_df.sparkSession)
        with same_identity(self.context, batch_df.sparkSession, query_id, batch_id):
            merged = self.merge(batch_df, query_id, batch_id)
        if not merged:
            expected = batch_id == self.context.replayed_batch
            _log.log(
                logging.INFO if expected else logging.ERROR,
                "%s: batch %s was skipped by %s, which holds it under query id %s%s",
                self.context.query,
                batch_id,
                self.table.label,
                query_id,
                " (a replay after a crash)" if expected else "; it was not planned before: run surestart doctor",
            )
            if not expected:
                raise SkippedBatch(self.context, batch_id, self.table.label)

    def merge(self, batch_df: DataFrame, query_id: str, batch_id: int, *, as_new: bool = False) -> bool:
        """The table has the rows of this batch that are newer than its own. False: it had this batch before."""
        spark = batch_df.sparkSession
        pair = None if takes_pairs(spark) else MergePair(self.context, self.table, query_id, batch_id, not as_new)
        if pair is not None and pair.is_there(spark):
            return False
        batch_df = as_stored(batch_df, self.partition_by)
        found = read_bounds(batch_df, self.partition_by, self.bounded_by, self.keys, count_keys=pair is not None)
        if as_new:
            # Somebody may have altered values, so that they lie outside of the bounds; the key would then be there
            # twice.
            found = replace(found, conditions=())
        # The MERGE reads its source twice: a shuffle of a few rows would cost more tasks than the rows themselves.
        rows = batch_df.coalesce(1) if found.rows <= _SMALL_BATCH else batch_df
        newest = newest_per_key(rows, self.keys, self.order)
        # On Spark Connect temporary views belong to the user's session, which several streams may share; a backfill of
        # the same query may run beside it.
        view = f"surestart_{self.context.query}_{batch_id}{'_as_new' if as_new else ''}".replace("-", "_")
        newest.createOrReplaceTempView(view)
        try:
            merge = self.merge_sql(view, batch_df.columns, found, as_new=as_new)
            since = -1 if pair is None else newest_version(spark, self.table)
            fail_point("merge.before_commit")
            with applied(spark, pairs(MERGE)), self._carried(spark, pair, query_id, batch_id):
                counts = self._run(spark, merge, batch_id)
        finally:
            spark.catalog.dropTempView(view)
        if pair is not None:
            fail_point("merge.before_pair")
            pair.append(batch_df, found.rows, found.distinct_keys, since)
        fail_point("merge.after_commit")
        # Delta answers a MERGE that it has seen before with no row at all, and otherwise with one row of counts.
        return bool(counts)

    def _carried(
        self, spark: SparkSession, pair: MergePair | None, query_id: str, batch_id: int
    ) -> AbstractContextManager[None]:
        if pair is not None:
            return nullcontext()
        note = commit_note(self.context.query, query_id, batch_id, self.context.stage)
        return transaction(spark, query_id, batch_id, note)

    def _run(self, spark: SparkSession, merge: str, batch_id: int) -> list[Row]:
        """Delta rolls a MERGE back whole when another commit (an OPTIMIZE, a DELETE, a backfill) has changed what it
        had read. Raised, that would end the stream; the identity that it carries lets it be tried again."""
        for left in reversed(range(_TRIES)):
            try:
                return spark.sql(merge).collect()
            except Exception as problem:
                conflict = conflict_of(problem)
                if not left or not conflict:
                    raise
                own = self.context.query_id
                if own and what_replaced(self.context, own):
                    # The other commit was a remedy's: what it has cleared is not filled again.
                    raise
                _log.warning(
                    "%s: batch %s met another commit in %s and is merged again (%s)",
                    self.context.query,
                    batch_id,
                    self.table.label,
                    conflict,
                )
        raise AssertionError("the last try returns or raises")

    def merge_sql(self, view: str, columns: list[str], bounds: Bounds, *, as_new: bool = False) -> str:
        # Only where the batch has nulls: Spark joins by twice as many values for each column that it compares so.
        equal = {key: "<=>" if key in bounds.null_keys else "=" for key in self.keys}
        on = [*(f"t.`{key}` {sign} s.`{key}`" for key, sign in equal.items()), *bounds.conditions]
        newer = f"struct({_columns('s', self.order)}) > struct({_columns('t', self.order)})"
        if as_new:
            other = " OR ".join(f"NOT (t.`{name}` <=> s.`{name}`)" for name in columns)
            newer = f"({newer} OR {newer.replace(' > ', ' <=> ')} AND ({other}))"
        assignments = ", ".join(f"t.`{name}` = s.`{name}`" for name in columns)
        names = ", ".join(f"`{name}`" for name in columns)
        return (
            f"MERGE INTO {self.table.sql} t USING `{view}` s ON {' AND '.join(on)} "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({_columns('s', tuple(columns))})"
        )


def conflict_of(problem: Exception) -> str:
    """Delta's name for it, when it has rolled a write back because of another commit and the same write may be made
    again; "": not so. The other commit may not carry the same identity, nor have changed the columns."""
    return next((name for name in _CONFLICTS if name in str(problem)), "")


def newest_per_key(rows: DataFrame, keys: tuple[str, ...], order: tuple[str, ...]) -> DataFrame:
    """One row per key, the greatest by `order`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # max_by over the row cannot be hashed and sorts it too. Measured on 200,000 rows: 0.8 s of CPU against 1.1 s.
    # The sort compares the first key's leading eight bytes before anything else, and those of texts are often the same.
    kinds = dict(rows.dtypes)
    distinguishing = sorted(keys, key=lambda name: kinds[name] in ("string", "binary"))
    ranked = Window.partitionBy(*distinguishing).orderBy(*[F.col(name).desc() for name in order])
    return rows.withColumn(_RANK, F.row_number().over(ranked)).where(F.col(_RANK) == 1).select(*rows.columns)


def as_stored(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """The rows with the values that the table will give back: Delta stores an empty text in a partition column as
    null."""
    from pyspark.sql import functions as F

    kinds = dict(rows.dtypes)
    texts = [name for name in partition_by if kinds.get(name) == "string"]
    return rows.withColumns({name: F.nullif(F.col(name), F.lit("")) for name in texts}) if texts else rows


@dataclass(frozen=True)
class Bounds:
    """conditions: on the target, true for every row that the batch can match, as SQL with literals.
    null_keys: the columns of the key that are null in some row of it.
    distinct_keys: counted only where it was asked for."""

    conditions: tuple[str, ...]
    null_keys: frozenset[str]
    rows: int
    distinct_keys: int = 0


def read_bounds(
    rows: DataFrame,
    partition_by: tuple[str, ...],
    bounded_by: tuple[str, ...],
    keys: tuple[str, ...],
    *,
    count_keys: bool = False,
) -> Bounds:
    from pyspark.sql import functions as F

    wanted = [F.count("*").alias("rows")]
    if count_keys:
        # As one struct: a key with a null in it would not be counted.
        wanted.append(F.count_distinct(F.struct(*keys)).alias("distinct_keys"))
    # Neither a set nor a least and a greatest value tell of nulls.
    named = dict.fromkeys((*keys, *partition_by, *bounded_by))
    wanted += [F.count_if(F.col(name).isNull()).alias(f"nulls_{name}") for name in named]
    wanted += [F.collect_set(F.col(name).cast("string")).alias(f"set_{name}") for name in partition_by]
    for name in bounded_by:
        wanted += [F.min(name).cast("string").alias(f"min_{name}"), F.max(name).cast("string").alias(f"max_{name}")]
    kinds = dict(rows.dtypes)
    row = rows.agg(*wanted).collect()[0]
    conditions = []
    for name in partition_by:
        values = sorted(row[f"set_{name}"])
        within = f"t.`{name}` IN ({', '.join(literal(value, kinds[name]) for value in values)})" if values else ""
        conditions.append(_or_null(name, within, row[f"nulls_{name}"]))
    for name in bounded_by:
        low, high = row[f"min_{name}"], row[f"max_{name}"]
        within = (
            "" if low is None else f"t.`{name}` BETWEEN {literal(low, kinds[name])} AND {literal(high, kinds[name])}"
        )
        conditions.append(_or_null(name, within, row[f"nulls_{name}"]))
    null_keys = frozenset(name for name in keys if row[f"nulls_{name}"])
    distinct_keys = row["distinct_keys"] if count_keys else 0
    return Bounds(tuple(one for one in conditions if one), null_keys, row["rows"], distinct_keys)


def _or_null(name: str, within: str, nulls: int) -> str:
    parts = [within] if within else []
    parts += [f"t.`{name}` IS NULL"] if nulls else []
    return f"({' OR '.join(parts)})" if len(parts) > 1 else "".join(parts)


def _columns(side: str, names: tuple[str, ...]) -> str:
    return ", ".join(f"{side}.`{name}`" for name in names)


# Types whose values can be written as texts in SQL.
LITERAL_KINDS = frozenset({"string", "date", "timestamp", "int", "bigint", "smallint", "tinyint"})


def literal(value: str, kind: str) -> str:
    if kind not in LITERAL_KINDS:
        raise TypeError(f"a bound of type {kind} cannot be written as a literal")
    quoted = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return quoted if kind == "string" else f"CAST({quoted} AS {kind})"


@dataclass(frozen=True)
class MergePair:
    """of_stream: whether the batch is one of the stage's own, and not a repair's."""

    context: BatchContext
    table: Table
    query_id: str
    batch_id: int
    of_stream: bool = True

    def is_there(self, spark: SparkSession) -> bool:
        """Whether the table holds the batch. Asked only where it is possible: after the first new batch of a run, no
        later one can be."""
        known = (self.context.replayed_batch, self.context.first_new_batch)
        if self.of_stream and self.batch_id not in known:
            return False
        return "" in read_steps(spark, self.table, self.query_id, self.batch_id)

    def append(self, batch: DataFrame, rows: int, keys: int, since: int) -> None:
        """The pair is in the table, behind the MERGE that came after version `since`. keys: those of the batch, each of
        which the MERGE was to be given. Raises, without the pair, when it was given fewer."""
        spark = batch.sparkSession
        version, context = self._read_merge(batch, rows, keys, since), self.context
        merged = {"merged_rows": keys} if version is None else {"merged_rows": keys, "merged": version}
        note = commit_note(context.query, self.query_id, self.batch_id, context.stage, merged=merged)
        append_pair(spark, self.table, self.query_id, self.batch_id, note, batch.columns)
        asked = self.of_stream and self.batch_id == context.first_new_batch
        # Delta says nothing of a pair that it drops: then the table is ahead of the checkpoint.
        if asked and "" not in read_new_steps(spark, self.table, self.query_id, self.batch_id, since):
            raise SkippedBatch(context, self.batch_id, self.table.label)

    def _read_merge(self, batch: DataFrame, rows: int, keys: int, since: int) -> int | None:
        """The version of the MERGE; None where it made none, or another one came in between."""
        newest = read_noted_commits(batch.sparkSession, self.table)
        merges = [one for one in newest if one.version > since and one.operation == "MERGE" and one.mark is None]
        given = [number for one in merges if (number := rows_of(one)) is not None]
        if not given:
            # A MERGE that changes nothing need not make a commit.
            refuse_empty_looks(self.context, batch, self.batch_id, rows, self.table.label)
        elif max(given) < keys:
            # More rows are no fault: Spark counts a part that it ran again twice.
            doctor = doctor_of(self.context)
            raise BatchShort(self.context.query, self.batch_id, max(given), keys, self.table.label, doctor)
        return merges[0].version if len(merges) == 1 else None
