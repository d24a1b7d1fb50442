"""What a rewind of a declared stream is refused for, each by name and with what works instead; nothing is written.

Checkpoints and logs written by hand: no Spark. Rows and their loss are counted by Spark elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from surestart.errors import SurestartError
from surestart.remedies.basis.plan import Plan, parse_plan
from surestart.remedies.loss.loss import Loss
from surestart.remedies.of_stages import plan_of_stages
from surestart.remedies.planning import plan_rewind as planning
from surestart.remedies.planning import rewind_back
from surestart.remedies.planning.wanted import Wanted
from surestart.report.html.plan import render_plan_html
from surestart.report.text.plan import render_plan
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text
from tests.deltalog.handmade import add, commit_file, create, info, remove, txn, write_commit
from tests.state.spark_row import lz4_blocks, records

OURS, THEIRS = "11111111-1111-4111-8111-111111111111", "99999999-9999-4999-8999-999999999999"
LAST = 4
# Five batches, a second each; the first one at 03:00:00.
BEGAN = int(datetime(2026, 10, 1, 3, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_rewind_loss", lambda *given: Loss())
    for module in (planning, rewind_back):
        monkeypatch.setattr(module, "counts_by_position", lambda *given: False)


class Lake:
    """A stream `orders` of five batches with state, from files to a table: batch N is version N + 1 of the table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place, self.table, self.landing = folder / "chk", folder / "table", folder / "landing"
        self.more = ""
        self.source = f'source = {{ files = "{self.landing}" }}'
        self.sink = f'{{ delta = "{self.table}", shared = false }}'
        self.landing.mkdir(parents=True)
        for name in ("offsets", "commits", "sources/0", "state/0/0/_metadata"):
            (self.place / name).mkdir(parents=True)
        (self.place / "metadata").write_text(json.dumps({"id": OURS}))
        write_commit(self.table, 0, *create())
        for batch in range(LAST + 1):
            times = {"batchWatermarkMs": 0, "batchTimestampMs": BEGAN + batch * 1000, "conf": {}}
            (self.place / f"offsets/{batch}").write_text(f'v1\n{json.dumps(times)}\n{{"logOffset":{batch}}}')
            (self.place / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
            (self.landing / str(batch)).write_text("{}")
            listed = {"path": f"file://{self.landing}/{batch}", "timestamp": batch, "batchId": batch}
            (self.place / f"sources/0/{batch}").write_text(f"v1\n{json.dumps(listed)}")
            (self.place / f"state/0/0/{batch + 1}.delta").write_bytes(b"what nobody here can read")
            self.commit(batch + 1, OURS, batch)

    def commit(self, version: int, query_id: str, batch: int) -> None:
        said = {"queryId": query_id, "epochId": str(batch)}
        note = info("STREAMING UPDATE", operationParameters=said, timestamp=BEGAN + (version - 1) * 1000)
        write_commit(self.table, version, note, txn(query_id, batch), add(f"{version}.parquet"))
        (self.table / f"{version}.parquet").write_bytes(b"x" * 100)

    def by_hand(self, version: int, operation: str, *actions: dict[str, Any], **more: Any) -> None:
        write_commit(self.table, version, info(operation, timestamp=BEGAN + version * 1000, **more), *actions)

    def plan(self, batch: int | None = None, **given: Any) -> Plan:
        text = f"""
            history = "{self.folder}/history"
            [stream.orders]
            checkpoint = "{self.place}"
            {self.source}
            sink = {self.sink}
            {self.more}
        """
        project = parse_project_text(self.folder / "surestart.toml", text)
        stages = pipeline_of_streams(project.streams).build_stages({})
        wanted = Wanted("rewind", "orders", to_batch=batch, **given)
        spark: Any = None
        return plan_of_stages(spark, environment_of_streams(project), list(stages), wanted)

    def refused(self, batch: int | None = None, **given: Any) -> SurestartError:
        before = self.all_bytes()
        with pytest.raises(SurestartError) as said:
            self.plan(batch, **given)
        assert self.all_bytes() == before
        assert all((said.value.what, said.value.meaning, str(said.value.next), said.value.code))
        return said.value

    def all_bytes(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_batch_that_is_whole_is_planned(lake: Lake) -> None:
    plan = lake.plan(2)
    assert [one.kind for one in plan.steps] == ["restore", "rewind", "start"]
    assert plan.steps[0].arguments["to"] == 3


def test_a_plan_says_which_rows_of_the_state_are_given_up(lake: Lake) -> None:
    """Keys 0 to 4, one a batch; the last batch changes key 1 and removes key 0."""
    for batch in range(LAST + 1):
        rows = [(bytes([batch] * 8), b"12345678")]
        if batch == LAST:
            rows += [(bytes([1] * 8), b"87654321"), (bytes(8), None)]
        (lake.place / f"state/0/0/{batch + 1}.delta").write_bytes(lz4_blocks(records(rows)))
    offsets = lake.place / "offsets/4"
    offsets.write_text(offsets.read_text().replace('"conf": {}', '"conf": {"spark.sql.shuffle.partitions": "1"}'))
    plan = lake.plan(2)
    (given_up,) = plan.state
    assert (given_up.rows, given_up.then) == (4, 3)
    assert (given_up.came, given_up.changed, given_up.back) == (2, 1, 1)
    now = "Rows of state of orders (operator 0): 4 now, 3 at batch 2."
    said = f"{now} Since then 2 came, 1 changed and 1 went: given up."
    assert said in plan.statements
    assert parse_plan(plan.as_json(), "it") == plan
    assert json.loads(plan.as_json())["state"][0]["came"] == 2
    assert said in " ".join(render_plan(plan).split())
    assert said in render_plan_html(plan)


def test_state_that_no_file_counts_is_not_counted_and_is_not_none(lake: Lake) -> None:
    assert "Rows of state of orders (operator 0): not counted now, not counted at batch 2." in lake.plan(2).statements


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (-1, "cannot go back to batch -1"),
        (99, "has no batch 99 yet"),
        (LAST, "is at batch 4 already"),
    ],
)
def test_a_batch_that_is_none_to_go_back_to(lake: Lake, batch: int, why: str) -> None:
    error = lake.refused(batch)
    assert (error.code, why in error.what) == ("BatchNotPossible", True), error.what
    assert "batches 0 to 3 are possible" in error.what


def test_whoever_asked_for_a_fork_is_told_of_a_fork(lake: Lake) -> None:
    """And not with which command the stream itself would be taken back."""
    place = str(lake.folder.parent / "fork")
    for error in (lake.refused(99, beside=place), lake.refused(to_time="2001-01-01T00:00:00Z", beside=place)):
        assert error.code == "BatchNotPossible"
        assert f"plan rewind orders --to-batch 4 --beside {place}" in str(error.next)
    assert lake.plan(4, beside=place).touched == ()


def test_a_batch_in_flight_is_named_as_such(lake: Lake) -> None:
    (lake.place / "commits/4").unlink()
    error = lake.refused(LAST)
    assert "batch 4, which is in flight: planned, and not committed" in error.what
    assert lake.plan(3).steps


DAMAGES: dict[str, tuple[Callable[[Lake], object], int, str, str]] = {
    "offsets purged": (
        lambda lake: [(lake.place / log / "0").unlink() for log in ("offsets", "commits")],
        1,
        "BatchNotPossible",
        "bounded by its offsets",
    ),
    "offsets lost": (lambda lake: (lake.place / "offsets/2").unlink(), 2, "BatchNotPossible", "offsets/2 is not there"),
    "offsets before it lost": (
        lambda lake: (lake.place / "offsets/1").unlink(),
        2,
        "BatchNotPossible",
        "cannot go back to batch 2: offsets/1 is not there; batches 0 to 0, 3 to 3 are possible",
    ),
    "a commit lost": (
        lambda lake: (lake.place / "commits/2").unlink(),
        2,
        "BatchNotPossible",
        "commits/2 is not there",
    ),
    "state purged": (
        lambda lake: [(lake.place / f"state/0/0/{one}.delta").unlink() for one in (1, 2)],
        1,
        "BatchNotPossible",
        "no batch is possible (its state is whole for no batch that is kept)",
    ),
    "state of the batch lost": (
        lambda lake: (lake.place / "state/0/0/3.delta").unlink(),
        3,
        "BatchNotPossible",
        "batches 0 to 1 are possible",
    ),
    "the list of files lost": (
        lambda lake: (lake.place / "sources/0/1").unlink(),
        2,
        "BatchNotPossible",
        "sources/0/1 is not there, and no later file holds that entry",
    ),
    "offsets torn": (
        lambda lake: (lake.place / "offsets/2").write_text("v1\n{"),
        2,
        "BatchNotPossible",
        "offsets/2",
    ),
    "a commit torn": (lambda lake: (lake.place / "commits/2").write_bytes(b""), 2, "BatchNotPossible", "commits/2"),
    "a state file torn": (
        lambda lake: (lake.place / "state/0/0/3.delta").write_bytes(b""),
        2,
        "BatchNotPossible",
        "batches 0 to 1 are possible",
    ),
    "a state file cut off, without a checksum": (
        lambda lake: (lake.place / "state/0/0/3.delta").write_bytes(lz4_blocks(records([(b"k" * 8, b"v" * 8)]))[:-30]),
        2,
        "BatchNotPossible",
        "state/0/0 lacks version 3",
    ),
    "no query id": (
        lambda lake: (lake.place / "metadata").unlink(),
        2,
        "BatchNotPossible",
        "has no query id",
    ),
    "a strange file": (
        lambda lake: (lake.place / "state/0/0/archive.tar").write_bytes(b"x"),
        2,
        "BatchNotPossible",
        "archive.tar is, is not known",
    ),
    "a link": (
        lambda lake: (lake.place / "state/0/0/link").symlink_to(lake.landing),
        2,
        "LinkInCheckpoint",
        "is a link",
    ),
    "Auto Loader": (
        lambda lake: (lake.place / "sources/0/rocksdb").mkdir(),
        2,
        "BatchNotPossible",
        "only Databricks",
    ),
    "a schema that has changed": (
        lambda lake: [schema_log(lake.place / "sources/0/_schema_log_T", number) for number in (0, 1)],
        2,
        "BatchNotPossible",
        "schema has changed",
    ),
    "files that are gone": (lambda lake: (lake.landing / "3").unlink(), 2, "SourceLostRows", "/landing/3"),
    "the version's files vacuumed": (
        lambda lake: (lake.table / "2.parquet").unlink(),
        2,
        "VersionGone",
        "1 of 3 files of version 3",
    ),
}


def test_a_deletion_vector_that_is_gone_is_a_file_that_is_gone(lake: Lake) -> None:
    """Its name in the log is that of the protocol's own example."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "cardinality": 2}
    place = lake.table / "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    place.parent.mkdir()
    place.write_bytes(b"x")
    path = commit_file(lake.table, 2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one | {"add": one["add"] | {"deletionVector": vector}} if "add" in one else one)
                            + "\n" for one in lines))  # fmt: skip
    assert lake.plan(2).steps
    place.unlink()
    error = lake.refused(2)
    assert (error.code, "1 of 3 files" in error.what) == ("VersionGone", True), error.what


def schema_log(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / str(number)).write_text('v1\n{"tableId":"T"}')


@pytest.mark.parametrize("case", DAMAGES)
def test_what_is_damaged_or_gone_is_refused_by_name(lake: Lake, case: str) -> None:
    damage, batch, code, said = DAMAGES[case]
    damage(lake)
    error = lake.refused(batch)
    assert (error.code, said in error.what) == (code, True), (error.code, error.what)
    assert "replay" not in str(error.next)


OTHERS: dict[str, tuple[Callable[[Lake], object], str]] = {
    "another query": (lambda lake: lake.commit(6, THEIRS, 0), f"STREAMING UPDATE of query {THEIRS} at version 6"),
    "an append by hand": (lambda lake: lake.by_hand(6, "WRITE", add("theirs")), "WRITE at version 6"),
    "a DELETE": (lambda lake: lake.by_hand(6, "DELETE", remove("1.parquet")), "DELETE at version 6"),
    "a RESTORE": (
        lambda lake: lake.by_hand(6, "RESTORE", remove("5.parquet"), operationParameters={"version": "4"}),
        "RESTORE at version 6",
    ),
    "another schema": (
        lambda lake: lake.by_hand(6, "ADD COLUMNS", create(schema='{"type":"struct","fields":[]}')[2]),
        "ADD COLUMNS at version 6",
    ),
    "column mapping, a column renamed": (
        lambda lake: lake.by_hand(6, "RENAME COLUMN", create()[2]),
        "RENAME COLUMN at version 6",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_whoever_has_changed_the_table_since_is_named(lake: Lake, case: str) -> None:
    damage, said = OTHERS[case]
    damage(lake)
    error = lake.refused(2)
    assert error.code == "OthersHaveWritten"
    assert said in error.what, error.what


def test_maintenance_since_is_no_other_writer_and_settings_that_go_back_are_named(lake: Lake) -> None:
    lake.by_hand(6, "OPTIMIZE", add("all", dataChange=False), remove("1.parquet", dataChange=False))
    lake.by_hand(7, "VACUUM START")
    lake.by_hand(8, "VACUUM END")
    lake.by_hand(9, "SET TBLPROPERTIES", create({"delta.enableChangeDataFeed": "true"})[2])
    said = " ".join(lake.plan(2).statements)
    assert "The settings of" in said
    assert "go back with it; set them again afterwards: SET TBLPROPERTIES at version 9" in said


def test_what_others_did_before_the_next_batch_stays_and_is_named(lake: Lake) -> None:
    shutil.rmtree(lake.table)
    write_commit(lake.table, 0, *create())
    for version, batch in ((1, 0), (2, 1), (4, 2), (5, 3), (6, 4)):
        lake.commit(version, OURS, batch)
    lake.by_hand(3, "RESTORE", remove("2.parquet"), operationParameters={"version": "1"})
    plan = lake.plan(1)
    assert plan.steps[0].arguments["to"] == 3
    said = " ".join(plan.statements)
    assert "had been changed by others before the next batch, and that stays: RESTORE at version 3" in said
    assert "changed by others" not in " ".join(lake.plan(2).statements)


SINKS = {
    "kafka": ('{ kafka = "orders-out" }', "A topic takes no record back"),
    "parquet": ('{ parquet = "/lake/out" }', "Its log knows a batch by its number alone"),
    "a table and a topic": ('[{ delta = "TABLE" }, { kafka = "orders-out" }]', "A topic takes no record back"),
    "a constant identity": ('{ append = "TABLE", app_id = "nightly" }', "would take no batch that it has"),
    "postgres": ('{ postgres = "public.orders" }', "It does not keep what it held at a batch"),
    "jdbc with a ledger": ('{ jdbc = "public.orders", ledger = "done" }', "It does not keep what it held at a batch"),
    "iceberg": ('{ iceberg = "/lake/iceberg" }', "It does not keep what it held at a batch"),
    "a function": ('{ foreach-batch = "TABLE" }', "does not say"),
}


@pytest.mark.parametrize("case", SINKS)
def test_a_sink_that_cannot_go_back_is_named_with_why_and_with_what_is_left(lake: Lake, case: str) -> None:
    sink, why = SINKS[case]
    lake.sink = sink.replace("TABLE", str(lake.table))
    error = lake.refused(2)
    assert error.code == "SinkWithoutRemedy"
    assert why in error.meaning, error.meaning
    assert "plan restart orders --from-batch" in str(error.next)


def test_a_table_whose_log_begins_with_a_clone_goes_back_to_no_batch_before_it(lake: Lake) -> None:
    """Its first version holds the rows up to batch 2, as a fork at batch 2 has them."""
    for path in (lake.table / "_delta_log").iterdir():
        path.unlink()
    write_commit(lake.table, 0, info("CLONE"), *create()[1:], *(add(f"{number}.parquet") for number in (1, 2, 3)))
    write_commit(lake.table, 1, info("WRITE", timestamp=BEGAN), txn(OURS, 2))
    for batch in (3, 4):
        lake.commit(batch - 1, OURS, batch)
    refused = lake.refused(1)
    assert refused.code == "BatchNotPossible"
    assert "batches 2 to 3 are possible (bounded by its table: the oldest that the log of" in refused.what
    assert lake.plan(2).steps[0].arguments["to"] == 1


def test_how_far_the_source_reaches_back_is_said_with_the_other_bounds(lake: Lake) -> None:
    def said() -> str:
        return next(line for line in lake.plan(3).statements if line.startswith("How far back"))

    assert "source: batch 0" in said()
    (lake.landing / "2").unlink()
    assert "bounded by its source: the oldest behind which everything is still there is 2" in said()
    assert lake.refused(1).code == "SourceLostRows"


def test_two_tables_go_back_together(lake: Lake) -> None:
    second = Path(shutil.copytree(lake.table, lake.folder / "second"))
    lake.sink = f'[{{ delta = "{lake.table}" }}, {{ delta = "{second}" }}]'
    restores = [one for one in lake.plan(2).steps if one.kind == "restore"]
    assert {one.arguments["table"]: one.arguments["to"] for one in restores} == {str(lake.table): 3, str(second): 3}


def test_declared_streams_that_read_its_table_are_named_with_the_way_on(lake: Lake) -> None:
    reader = lake.folder / "reader"
    shutil.copytree(lake.place, reader)
    lake.more = f"""
            [stream.reports]
            checkpoint = "{reader}"
            source = {{ delta = "{lake.table}" }}
            sink = {{ kafka = "reports" }}
    """
    error = lake.refused(2)
    assert error.code == "TablesAreRead"
    assert "reports read the table of orders" in error.what
    assert "plan retire reports" in str(error.next)

    assert "take it out of surestart.toml" in str(error.next)

    # As that says.
    lake.more = ""
    assert lake.plan(2).touched == ("orders",)


TIMES = {
    "2026-10-01T03:00:02Z": 2,
    "2026-10-01T03:00:02.999Z": 2,
    "2026-10-01T03:00:01.999Z": 1,
    "2026-10-01T05:00:02+02:00": 2,
    "2026-09-30T20:00:02-07:00": 2,
    "2026-10-01T03:00:03.999999+00:00": 3,
}


@pytest.mark.parametrize("time", TIMES)
def test_a_time_means_one_moment_at_the_border_as_well(lake: Lake, time: str) -> None:
    plan = lake.plan(to_time=time)
    assert plan.steps[0].arguments["batch"] == TIMES[time]
    assert f"its newest batch was {TIMES[time]}, written 2026-10-01 03:00:0{TIMES[time]}.000 UTC" in plan.statements[0]


@pytest.mark.parametrize("time", ["2026-10-01T03:00:02", "2026-10-01", "2026-10-01 03:00"])
def test_a_time_without_a_zone_is_refused_with_what_it_may_mean(lake: Lake, time: str) -> None:
    error = lake.refused(to_time=time)
    assert error.code == "TimeWithoutZone"
    assert "--to-time 2026-10-01T03:00:02Z" in str(error.next) or "--to-time 2026-10-01T0" in str(error.next)


@pytest.mark.parametrize("time", ["yesterday", "", " ", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(lake: Lake, time: str) -> None:
    assert "plan rewind orders --to-time 2026-01-31T03:00:00Z" in str(lake.refused(to_time=time).next)


BEFORE = "2026-10-01T02:59:59.999Z"


@pytest.mark.parametrize("time", [BEFORE, "2026-10-01T03:00:04Z", "2031-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_a_time_before_the_first_or_after_the_newest_batch_is_refused_with_the_times(lake: Lake, time: str) -> None:
    error = lake.refused(to_time=time)
    assert error.code == "BatchNotPossible"
    assert "from 2026-10-01 03:00:00.000 UTC to 2026-10-01 03:00:04.000 UTC" in error.what


def test_a_driver_whose_clock_was_ahead_makes_no_batch_younger_than_the_one_behind_it(lake: Lake) -> None:
    """Delta counts a commit as no older than the one before it."""
    text = commit_file(lake.table, 3).read_text()
    commit_file(lake.table, 3).write_text(text.replace(str(BEGAN + 2000), str(BEGAN + 3500)))
    assert lake.plan(to_time="2026-10-01T03:00:03.200Z").steps[0].arguments["batch"] == 1


KAFKA, DELTA = (
    '{{"orders":{{"0":{}}}}}',
    ('{{"sourceVersion":1,"reservoirId":"T","reservoirVersion":{},"index":-1,"isStartingVersion":false}}'),
)
SOURCES = {
    "brokers that do not answer": ('source = { kafka = "orders", bootstrap = "127.0.0.1:1" }', KAFKA),
    "brokers that nobody has named": ('source = { kafka = "orders" }', KAFKA),
    "a table that is gone": ('source = { delta = "/nowhere/table" }', DELTA),
}


def reads(lake: Lake, source: str, position: str) -> None:
    shutil.rmtree(lake.place / "sources")
    lake.source = source
    for batch in range(LAST + 1):
        path = lake.place / f"offsets/{batch}"
        path.write_text("\n".join([*path.read_text().splitlines()[:2], position.format(batch + 1)]))


@pytest.mark.parametrize("case", SOURCES)
def test_a_source_that_does_not_say_what_it_still_has_is_no_ground_to_go_back_on(lake: Lake, case: str) -> None:
    """Where the stream stands it may be a finding like others; further back it would be rows."""
    reads(lake, *SOURCES[case])
    error = lake.refused(2)
    assert error.code in ("KAFKA_OUT_OF_REACH", "SOURCE_NOT_READ", "SOURCE_MISSING")
    assert "could not go on from batch 2" in error.what


@pytest.mark.parametrize("source", ["", 'source = { kinesis = "orders" }'])
def test_a_source_that_only_spark_can_ask_is_named_and_reassures_nobody(lake: Lake, source: str) -> None:
    reads(lake, source, '{{"orders":{}}}')
    (said,) = [line for line in lake.plan(2).statements if "no positions" in line]
    assert "still reaches back" not in said
    assert "nobody could be asked" in said


def test_the_command_line_refuses_a_time_without_a_zone_before_it_starts_spark(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surestart.spark.session.obtain_session", lambda *given: pytest.fail("Spark was started"))
    (lake.folder / "surestart.toml").write_text(f"[stream.orders]\ncheckpoint = '{lake.place}'\nsink = {lake.sink}\n")
    toml = str(lake.folder / "surestart.toml")
    code = main(["plan", "rewind", "orders", "--to-time", "2026-10-01T03:00", "--streams", toml])
    assert code == 2
    said = capsys.readouterr().err
    assert "has no time zone" in said
    assert "--to-time 2026-10-01T03:00:00Z" in said
