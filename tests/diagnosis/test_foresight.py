"""What is said of a Delta source before the start is what Spark does at the start: each operation on a table that a
stream has read to its end, asked by files and by session, and then started for real."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from surestart.declaration import SourceDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.evidence.session_evidence import read_source_by_session
from surestart.facts.evidence.source_evidence import NextRead, first_version, read_delta_source
from surestart.verdict.delta_source_findings import find_delta_source
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands
from tests.deltalog.handmade import commit_file

MAPPED = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
VECTORS = {"delta.enableDeletionVectors": "true"}
WIDENS = {"delta.enableTypeWidening": "true"}
DELETES, CHANGES = "DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
SCHEMA, TABLE = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
ALL_GONE = ("DELETE FROM {t}", "RESTORE TABLE {t} TO VERSION AS OF 3")


@dataclass(frozen=True)
class Case:
    """code: what is said before it. fails: what the start ends in, "" when it goes on. twice: rows that come again."""

    name: str
    statements: tuple[str, ...]
    code: str = ""
    fails: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    options: tuple[tuple[str, str], ...] = ()
    twice: int = 0
    fast: bool = False
    append: str = "INSERT INTO {t} (id, v) VALUES (30, 'late')"


CASES = (
    Case("nothing", ()),
    Case("delete some rows of a file", ("DELETE FROM {t} WHERE id = 15",), "SOURCE_REWRITTEN", CHANGES),
    Case("delete a whole file", ("DELETE FROM {t} WHERE id >= 20",), "SOURCE_ROWS_DELETED", DELETES),
    Case("delete everything", ("DELETE FROM {t}",), "SOURCE_ROWS_DELETED", DELETES),
    Case("delete nothing", ("DELETE FROM {t} WHERE id = 1000",)),
    Case("delete by vector", ("DELETE FROM {t} WHERE id = 15",), "SOURCE_REWRITTEN", CHANGES, VECTORS),
    Case("update", ("UPDATE {t} SET v = 'x' WHERE id = 15",), "SOURCE_REWRITTEN", CHANGES),
    Case(
        "merge that updates",
        ("MERGE INTO {t} t USING (SELECT 15 id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'x'",),
        "SOURCE_REWRITTEN",
        CHANGES,
        fast=True,
    ),
    Case(
        "merge that only inserts",
        ("MERGE INTO {t} t USING (SELECT 90 id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (90)",),
    ),
    Case("overwrite", ("INSERT OVERWRITE {t} SELECT 50, 'v'",), "SOURCE_REWRITTEN", CHANGES),
    Case("overwrite a part", ("INSERT INTO {t} REPLACE WHERE id >= 20 SELECT 25, 'v'",), "SOURCE_REWRITTEN", CHANGES),
    Case("restore", ("RESTORE TABLE {t} TO VERSION AS OF 1",), "SOURCE_ROWS_DELETED", DELETES),
    # Taken back, and refused all the same: Spark looks at each commit by itself.
    Case("delete, restored", ALL_GONE, "SOURCE_ROWS_DELETED SOURCE_ROWS_RETURN", DELETES, fast=True),
    Case(
        "update, restored",
        ("UPDATE {t} SET v = 'x' WHERE id = 15", ALL_GONE[1]),
        "SOURCE_REWRITTEN",
        CHANGES,
    ),
    Case(
        "delete, restored, deletions ignored",
        ALL_GONE,
        "SOURCE_ROWS_RETURN",
        options=(("ignoreDeletes", "true"),),
        twice=4,
        fast=True,
    ),
    Case(
        "delete, restored, changes skipped",
        ALL_GONE,
        "SOURCE_ROWS_RETURN",
        options=(("skipChangeCommits", "true"),),
        twice=4,
    ),
    Case("delete, deletions ignored", ("DELETE FROM {t}",), options=(("ignoreDeletes", "true"),)),
    Case(
        "replaced", ("CREATE OR REPLACE TABLE {t} USING delta AS SELECT 50 id, 'v' v",), "SOURCE_TABLE_REPLACED", TABLE
    ),
    Case("optimize", ("OPTIMIZE {t}",), fast=True),
    Case("optimize by order", ("OPTIMIZE {t} ZORDER BY (id)",)),
    Case("vacuum", ("OPTIMIZE {t}", "VACUUM {t}")),
    Case(
        "purge",
        ("DELETE FROM {t} WHERE id = 15", "REORG TABLE {t} APPLY (PURGE)"),
        "SOURCE_REWRITTEN",
        CHANGES,
        VECTORS,
    ),
    Case("column added", ("ALTER TABLE {t} ADD COLUMNS (more INT)",)),
    Case("column added first", ("ALTER TABLE {t} ADD COLUMNS (more INT FIRST)",)),
    Case("column added, mapped", ("ALTER TABLE {t} ADD COLUMNS (more INT)",), properties=MAPPED),
    Case(
        "column dropped", ("ALTER TABLE {t} DROP COLUMN v",), "SOURCE_SCHEMA_CHANGED", SCHEMA, MAPPED, append="SELECT 1"
    ),
    Case(
        "column renamed",
        ("ALTER TABLE {t} RENAME COLUMN v TO w",),
        "SOURCE_SCHEMA_CHANGED",
        SCHEMA,
        MAPPED,
        append="INSERT INTO {t} (id, w) VALUES (30, 'late')",
        fast=True,
    ),
    Case(
        "column added and dropped",
        ("ALTER TABLE {t} ADD COLUMNS (more INT)", "ALTER TABLE {t} DROP COLUMN more"),
        "SOURCE_SCHEMA_CHANGED",
        SCHEMA,
        MAPPED,
    ),
    Case(
        "column dropped and made again",
        ("ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMNS (v STRING)"),
        "SOURCE_SCHEMA_CHANGED",
        SCHEMA,
        MAPPED,
    ),
    Case("column widened", ("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",), properties=WIDENS),
    Case(
        "column widened behind unread rows",
        ("INSERT INTO {t} VALUES (80, 'x')", "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"),
        properties=WIDENS,
    ),
    Case(
        "column widened behind a comment",
        ("ALTER TABLE {t} ALTER COLUMN v COMMENT 'c'", "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"),
        properties=WIDENS,
    ),
    Case("comment", ("ALTER TABLE {t} ALTER COLUMN v COMMENT 'hello'",)),
    Case("order of columns", ("ALTER TABLE {t} ALTER COLUMN v FIRST",)),
    Case("property", ("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",)),
    Case("constraint", ("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id >= 0)",)),
    Case("vectors enabled", ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",)),
    Case(
        "mapping enabled",
        (
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
            "'delta.minWriterVersion' = '5')",
        ),
    ),
    Case("field added", ("ALTER TABLE {t} ADD COLUMNS (s STRUCT<a: INT>)", "ALTER TABLE {t} ADD COLUMNS (s.b INT)")),
)


class Stream:
    """A table of three files, and a query that has read it to its end."""

    def __init__(self, spark: Any, place: Path, case: Case) -> None:
        self.spark, self.case, self.place = spark, case, place
        self.table, self.checkpoint = str(place / "t"), str(place / "ck")
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in case.properties.items())
        self.sql(f"CREATE TABLE {{t}} (id INT, v STRING) USING delta {f'TBLPROPERTIES ({listed})' if listed else ''}")
        for rows in ("(5, 'a')", "(15, 'b'), (16, 'b')", "(25, 'c')"):
            self.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.format(t=f"delta.`{self.table}`")).collect()

    def start(self) -> str:
        """The error in which the query ended, or ""."""
        reader = self.spark.readStream.format("delta").options(**dict(self.case.options))
        writer = (
            reader.load(self.table)
            .selectExpr("CAST(id AS BIGINT) id")
            .writeStream.option("checkpointLocation", self.checkpoint)
        )
        query = writer.format("parquet").trigger(availableNow=True).start(str(self.place / "out"))
        try:
            query.awaitTermination()
        except PySparkException as failure:
            return str(failure)
        return ""

    def read(self) -> Counter[int]:
        return Counter(row["id"] for row in self.spark.read.parquet(str(self.place / "out")).collect())

    def ask(self, how: Callable[..., Any]) -> tuple[Finding, ...]:
        checkpoint = read_checkpoint(self.checkpoint)
        span = NextRead(checkpoint.sources[0], replayed=checkpoint.latest_planned != checkpoint.latest_committed)
        source = SourceDeclaration("delta", self.table, self.table, self.case.options)
        return find_delta_source(source, span, how(source, span), Commands("s"), int(time.time() * 1000))

    def by_files(self, source: SourceDeclaration, span: NextRead) -> Any:
        return read_delta_source(source.path, span.delta)

    def by_session(self, source: SourceDeclaration, span: NextRead) -> Any:
        return read_source_by_session(self.spark, source, first_version(span.delta))


def told(found: tuple[Finding, ...]) -> set[str]:
    return {one.code for one in found if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)}


# `make test` has one start that goes on, one whose rows are gone and one whose rows were rewritten.
IN_MAKE_TEST = ("delete, restored", "merge that updates", "optimize")
LONG = pytest.mark.long(instead="test_what_the_next_start_meets_is_said_before_it")


def marks_of(case: Case) -> tuple[pytest.MarkDecorator, ...]:
    return () if case.name in IN_MAKE_TEST else (LONG,) if case.fast else (pytest.mark.chaos,)


@pytest.mark.parametrize("case", [pytest.param(one, id=one.name, marks=marks_of(one)) for one in CASES])
def test_what_the_next_start_meets_is_said_before_it(spark: Any, tmp_path: Path, case: Case) -> None:
    stream = Stream(spark, tmp_path, case)
    assert stream.start() == ""
    before = stream.read()
    for statement in case.statements:
        stream.sql(statement)
    stream.sql(case.append)

    from_files, from_session = stream.ask(stream.by_files), stream.ask(stream.by_session)
    failure = stream.start()

    assert case.fails in failure
    assert bool(case.fails) == bool(failure), failure
    expected = set(case.code.split())
    assert told(from_files) == expected
    assert told(from_session) == expected
    if case.fails:
        finding = next(one for one in from_files if one.code in expected)
        assert case.fails in finding.meaning
        assert case.code == "SOURCE_TABLE_REPLACED" or re.search(
            r": version [45] \([A-Z ]+, 20.+ UTC\)", finding.evidence
        )
        assert stream.start() != "", "another start does not heal it"
        assert stream.read() == before
    else:
        assert sum(number - 1 for number in stream.read().values()) == case.twice


@pytest.mark.long(instead="test_what_the_next_start_meets_is_said_before_it")
@pytest.mark.parametrize(
    ("unread", "kept_from", "code"),
    [
        # Also of a batch that is done: Spark makes it once more at the start.
        pytest.param(0, 6, "SOURCE_HISTORY_GONE", id="of the newest batch"),
        pytest.param(0, 5, "", id="before the newest batch", marks=pytest.mark.chaos),
        pytest.param(2, 8, "SOURCE_HISTORY_GONE", id="of what is not read", marks=pytest.mark.chaos),
        pytest.param(2, 7, "SOURCE_HISTORY_GONE", id="of the newest batch, with more to read", marks=pytest.mark.chaos),
    ],
)
def test_a_version_that_is_gone_is_said_before_the_start(
    spark: Any, tmp_path: Path, unread: int, kept_from: int, code: str
) -> None:
    stream = Stream(spark, tmp_path, Case("gone", (), properties={"delta.checkpointInterval": "1"}))
    assert stream.start() == ""
    for batch in ("4", "56"):
        for version in batch:
            stream.sql(f"INSERT INTO {{t}} VALUES ({version}, 'x')")
        assert stream.start() == ""
    for number in range(unread):
        stream.sql(f"INSERT INTO {{t}} VALUES ({90 + number}, 'x')")
    for version in range(kept_from):
        commit_file(Path(stream.table), version).unlink()

    found = stream.ask(stream.by_files)
    failure = stream.start()

    assert bool(failure) == bool(code), failure
    assert told(found) == {code} - {""}
