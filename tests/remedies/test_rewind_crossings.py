"""A rewind, a fork and a move that meet each other, and what others did to table, source and checkpoint meanwhile.

Exact rows by a count in plain Python, or a refusal that names the thing and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.errors import SurestartError
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.basis.plan import Plan
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import read_project_file
from surestart.words.finding import Severity
from surestart.words.next_commands import Commands
from tests.checkpoint.rewind_lab import PROVIDERS, QUICK, WITHIN, Kind, Lab, Place, Rows, rows_of

NAME, LAST = "ids", 4
KIND = WITHIN


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    logged = {"spark.databricks.delta.properties.defaults.checkpointInterval": "2"}
    with applied(spark, {**pairs(EVERYWHERE), **QUICK, **PROVIDERS["hdfs"], **logged}):
        yield


class At(Place):
    """A table, and a checkpoint that lies elsewhere."""

    def __init__(self, root: Path, checkpoint: Path, table: Path) -> None:
        super().__init__(root)
        self.__dict__.update(own_checkpoint=checkpoint, own_table=table)

    @property
    def checkpoint(self) -> Path:
        return self.__dict__["own_checkpoint"]  # type: ignore[no-any-return]

    @property
    def table(self) -> Path:
        return self.__dict__["own_table"]  # type: ignore[no-any-return]


class Stream:
    """A stream that a file declares: what its owner does with plain Spark, and what is done to it."""

    def __init__(self, lab: Lab, file: Path, table: Path, kind: Kind = KIND) -> None:
        self.lab, self.file, self.table, self.kind = lab, file, table, kind

    @property
    def seen(self) -> tuple[StreamEnvironment, Any]:
        project = read_project_file(self.file)
        (stage,) = pipeline_of_streams(project.streams).build_stages({})
        return environment_of_streams(project), stage

    @property
    def checkpoint(self) -> Path:
        return Path(self.seen[0].checkpoint(NAME))

    @property
    def place(self) -> Place:
        return At(self.file.parent, self.checkpoint, self.table)

    def plan(self, remedy: str = "rewind", **given: Any) -> Plan:
        environment, stage = self.seen
        return plan_of_stages(self.lab.spark, environment, [stage], Wanted(remedy, NAME, **given))

    def apply(self, plan: Plan) -> Plan:
        environment, stage = self.seen
        apply_to_stages(self.lab.spark, environment, [stage], plan, confirm=plan.target)
        return plan

    def do(self, remedy: str = "rewind", **given: Any) -> Plan:
        for _ in range(4):
            try:
                return self.apply(self.plan(remedy, **given))
            except SurestartError as refused:
                # Spark's maintenance of the query that has just ended may still put a snapshot there.
                if refused.code != "PlanStale":
                    raise
        return self.apply(self.plan(remedy, **given))

    def undo(self, plan: Plan) -> None:
        environment, stage = self.seen
        undo_of_stages(self.lab.spark, environment, [stage], plan, confirm=plan.target)

    def go_on(self) -> Rows:
        self.lab.run(self.kind, self.place)
        return self.rows

    @property
    def rows(self) -> Rows:
        return rows_of(self.kind, self.place)

    @property
    def batch(self) -> int | None:
        return read_checkpoint(str(self.checkpoint)).latest_planned

    def look(self) -> tuple[Any, Rows]:
        return read_manifest(self.checkpoint), self.rows

    def stops(self) -> list[str]:
        environment, stage = self.seen
        commands = Commands(NAME, environment.name)
        runs = read_history_or_tell(environment, self.lab.spark, commands)
        judged = judge_stage(environment, stage, runs, commands, session=self.lab.spark)
        return [one.code for one in judged.findings if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)]

    def refused(self, remedy: str = "rewind", **given: Any) -> SurestartError:
        before = self.look()
        with pytest.raises(SurestartError) as said:
            self.plan(remedy, **given)
        print(f"{said.value.code}: {said.value.what}\n  {said.value.meaning}\n  Next: {said.value.next}")
        assert self.look() == before
        assert all((said.value.what, said.value.meaning, str(said.value.next), said.value.code))
        return said.value

    def undo_refused(self, plan: Plan) -> SurestartError:
        before = self.look()
        with pytest.raises(SurestartError) as said:
            self.undo(plan)
        print(f"{said.value.code}: {said.value.what}\n  {said.value.meaning}\n  Next: {said.value.next}")
        assert self.look() == before
        return said.value

    def arrives(self, file: int, first: int) -> Rows:
        """One more file in the source: the rows that it brings."""
        path = self.lab.input / f"part-{file:02d}.json"
        path.write_text("".join(f'{{"id":{number},"s":{86_400 + file * 60}}}\n' for number in range(first, first + 5)))
        os.utime(path, (1_790_000_000 + file * 10,) * 2)
        return Rows({(number,): 1 for number in range(first, first + 5)})


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("crossings") / "lab", last=LAST)


@pytest.fixture
def stream(lab: Lab, tmp_path: Path, classic_only: None) -> Iterator[Stream]:
    """Five files, a batch each; what arrives later in its input is gone after the test."""
    place = lab.copy(KIND, "hdfs", "crossed")
    file = tmp_path / "surestart.toml"
    file.write_text(
        f"history = '{tmp_path}/history'\n[stream.{NAME}]\ncheckpoint = '{place.checkpoint}'\n"
        f"source = {{ files = '{lab.input}' }}\nsink = {{ delta = '{place.table}', shared = false }}\n"
    )
    yield Stream(lab, file, place.table)
    for path in lab.input.iterdir():
        if int(path.stem[-2:]) > LAST:
            path.unlink()


def fork_of(stream: Stream, folder: Path, **given: Any) -> tuple[Stream, Plan]:
    plan = stream.do(beside=str(folder), **given)
    (table,) = (folder / "tables").iterdir()
    return Stream(stream.lab, folder / "surestart.toml", table), plan


pytestmark = pytest.mark.chaos


def test_a_fork_of_a_fork_is_exact_and_each_is_dropped_alone(stream: Stream, tmp_path: Path) -> None:
    before, expected = stream.look(), KIND.count(LAST)
    first, of_stream = fork_of(stream, tmp_path / "one", to_batch=2)
    assert first.stops() == []
    # Its table's log begins with the rows of batch 2: behind batch 1 those would come twice.
    refused = first.refused(to_batch=1, beside=str(tmp_path / "two"))
    assert refused.code == "BatchNotPossible"
    assert "batches 2 to 2 are possible (bounded by its table" in refused.what
    second, of_fork = fork_of(first, tmp_path / "two")
    assert second.stops() == []
    assert second.go_on() == expected
    assert first.go_on() == expected
    # It is a stream like any other by now: back to a batch of its own, and no further.
    assert first.refused(to_batch=1).code == "BatchNotPossible"
    back = first.do(to_batch=3)
    assert first.go_on() == expected
    first.undo(back)
    assert first.rows == expected
    assert stream.look() == before
    first.undo(of_fork)
    assert not (tmp_path / "two").exists()
    assert first.rows == expected
    stream.undo(of_stream)
    assert not (tmp_path / "one").exists()
    assert stream.look() == before
    assert stream.go_on() == expected


def test_a_fork_that_another_fork_reads_is_not_dropped(stream: Stream, tmp_path: Path) -> None:
    """The second fork's rows are files that the first one has written."""
    expected = KIND.count(LAST)
    first, of_stream = fork_of(stream, tmp_path / "one", to_batch=1)
    assert first.go_on() == expected
    second, _ = fork_of(first, tmp_path / "two")
    assert second.rows == expected
    with pytest.raises(SurestartError) as said:
        stream.undo(of_stream)
    assert str(tmp_path / "two") in said.value.what
    assert second.rows == expected


def test_a_fork_is_dropped_after_new_batches_on_both_sides(stream: Stream, tmp_path: Path) -> None:
    expected = KIND.count(LAST)
    fork, plan = fork_of(stream, tmp_path / "fork", to_batch=2)
    expected += stream.arrives(5, 500)
    assert stream.go_on() == expected
    assert fork.go_on() == expected
    expected += stream.arrives(6, 600)
    assert fork.go_on() == expected
    stood = stream.look()
    stream.undo(plan)
    assert stream.look() == stood
    assert stream.go_on() == expected


def test_a_rewind_after_a_move_and_a_move_after_a_rewind(stream: Stream, tmp_path: Path) -> None:
    expected = KIND.count(LAST)
    (tmp_path / "fast").mkdir()
    moved = stream.do("move", to=str(tmp_path / "fast" / "ids"))
    assert stream.checkpoint == tmp_path / "fast" / "ids"
    stood = stream.look()
    back = stream.do(to_batch=1)
    assert stream.batch == 1
    assert stream.stops() == []
    assert stream.go_on() == expected
    assert stream.undo_refused(moved).code == "RemedyOvertaken"
    again = stream.do("move", to=str(tmp_path / "fast" / "other"))
    expected += stream.arrives(5, 500)
    assert stream.go_on() == expected
    assert stream.stops() == []
    stream.undo(again)
    assert stream.checkpoint == tmp_path / "fast" / "ids"
    assert stream.go_on() == expected
    stream.undo(back)
    assert stream.look() == stood
    assert stream.stops() == []
    assert stream.go_on() == expected
    stream.undo(moved)
    assert stream.go_on() == expected


def test_a_rewind_is_undone_after_new_batches_and_they_come_again(stream: Stream) -> None:
    expected, stood = KIND.count(LAST), stream.look()
    plan = stream.do(to_batch=1)
    more = stream.arrives(5, 500)
    assert stream.go_on() == expected + more
    stream.undo(plan)
    assert stream.look() == stood
    assert stream.go_on() == expected + more


def test_rewinds_one_after_another_are_undone_one_after_another(stream: Stream) -> None:
    """What ran between two of them was the stream's own, under an id that an undo has taken back."""
    stood = [stream.look()]
    plans = []
    for batch in (3, 1, 2):
        plans.append(stream.do(to_batch=batch))
        assert stream.go_on() == KIND.count(LAST)
        stood.append(stream.look())
    for plan, (checkpoint, rows) in zip(reversed(plans), reversed(stood[:-1]), strict=True):
        stream.undo(plan)
        assert stream.look() == (checkpoint, rows)
    assert stream.go_on() == KIND.count(LAST)


def test_an_undo_whose_files_are_gone_is_refused_with_their_number(stream: Stream) -> None:
    """Read since the rewind, and archived: the restored checkpoint would never be given them."""
    expected = KIND.count(LAST)
    plan = stream.do(to_batch=1)
    expected += stream.arrives(5, 500)
    assert stream.go_on() == expected
    path = stream.lab.input / "part-05.json"
    kept = path.read_bytes()
    path.unlink()
    said = stream.undo_refused(plan)
    assert said.code == "SourceLostRows"
    assert "files are gone: 1, such as" in said.what
    assert "part-05.json" in said.what
    path.write_bytes(kept)
    stream.undo(plan)
    assert stream.go_on() == expected


def test_others_who_have_written_since_keep_it_from_going_back_and_an_undo_too(stream: Stream) -> None:
    spark, table = stream.lab.spark, f"delta.`{stream.table}`"
    plan = stream.do(to_batch=1)
    stream.go_on()
    spark.sql(f"INSERT INTO {table} VALUES (77777)").collect()
    refused = stream.refused(to_batch=2)
    assert refused.code == "OthersHaveWritten"
    assert "WRITE" in refused.what
    said = stream.undo_refused(plan)
    assert said.code == "SourceLostRows"
    assert "1 rows that arrived since would be lost for ever" in said.what


def test_maintenance_since_is_passed_over_and_deleted_files_are_not(stream: Stream) -> None:
    spark, table, expected = stream.lab.spark, f"delta.`{stream.table}`", KIND.count(LAST)
    spark.sql(f"OPTIMIZE {table}").collect()
    stood = stream.look()
    plan = stream.do(to_batch=2)
    assert stream.go_on() == expected
    stream.undo(plan)
    assert stream.look() == stood
    with applied(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
    assert stream.refused(to_batch=2).code == "VersionGone"
    assert stream.rows == expected


def test_a_column_that_was_added_since_is_named(stream: Stream) -> None:
    stream.lab.spark.sql(f"ALTER TABLE delta.`{stream.table}` ADD COLUMNS (more STRING)").collect()
    refused = stream.refused(to_batch=2)
    assert refused.code == "OthersHaveWritten"
    assert "ADD COLUMNS" in refused.what


@pytest.mark.parametrize("kept", [2, 4])
def test_a_log_that_was_cleaned_up_bounds_how_far_it_goes_back(stream: Stream, kept: int) -> None:
    """Versions before `kept` are gone from the log; a checkpoint of the log stands for them."""
    log, expected = stream.table / "_delta_log", KIND.count(LAST)
    for path in log.glob("*"):
        if path.name[:20].isdigit() and int(path.name[:20]) < kept:
            path.unlink()
    assert list(log.glob(f"{kept:020d}.checkpoint*"))
    stood = stream.look()
    possible, refused = [], {}
    for batch in range(LAST):
        try:
            stream.plan(to_batch=batch)
            possible.append(batch)
        except SurestartError as said:
            refused[batch] = said
    print(possible, {batch: (one.code, one.what, str(one.next)) for batch, one in refused.items()})
    assert {one.code for one in refused.values()} <= {"BatchNotPossible", "CommitGone", "VersionGone"}
    # Batch N is version N of the table: of those that the log still has, each is possible.
    assert possible == list(range(kept, LAST))
    for batch in possible:
        plan = stream.do(to_batch=batch)
        assert stream.go_on() == expected
        stream.undo(plan)
        assert stream.look() == stood


@pytest.mark.parametrize("lost", ["offsets/1", "offsets/2", "commits/2", "sources/0/2", "state/0/1/3"])
def test_what_of_a_batch_is_not_kept_is_named(stream: Stream, lost: str) -> None:
    found = [*stream.checkpoint.glob(lost), *stream.checkpoint.glob(f"{lost}.*")]
    assert found
    for path in found:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    refused = stream.refused(to_batch=2)
    assert refused.code in ("BatchNotPossible", "STATE_MISSING")
