"""A declared stream of plain Spark is moved, goes on by its own code at the new place, and is moved back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.delta import read_history
from surestart.history.run_table import read_runs
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import read_project_file
from surestart.words.next_commands import Commands
from tests.checkpoint.rewind_lab import (
    BUCKETS,
    DEDUP,
    PLAIN,
    Kind,
    Lab,
    Place,
    Rows,
    query_id_of,
    rows_of,
    running_counts,
)

NAME = "ids"


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, pairs(EVERYWHERE)):
        yield


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("moved") / "lab")


class Declared:
    """A stream in a file, as its owner and as surestart see it."""

    def __init__(self, lab: Lab, kind: Kind, provider: str, folder: Path) -> None:
        self.lab, self.kind, self.spark = lab, kind, lab.spark
        self.place = lab.copy(kind, provider, "moved")
        self.file, self.target = folder / "surestart.toml", folder / "fast" / "ids"
        self.target.parent.mkdir()
        self.file.write_text(
            f"# streams\n[stream.{NAME}]\ncheckpoint = '{self.place.checkpoint}'  # ours\n"
            f"source = {{ files = '{lab.input}' }}\nsink = {{ delta = '{self.place.table}', shared = false }}\n"
        )

    @property
    def seen(self) -> tuple[StreamEnvironment, Any]:
        project = read_project_file(self.file)
        (stage,) = pipeline_of_streams(project.streams).build_stages({})
        return environment_of_streams(project), stage

    def verdict(self) -> tuple[str, list[str]]:
        environment, stage = self.seen
        commands = Commands(NAME, environment.name)
        runs = read_history_or_tell(environment, self.spark, commands)
        judged = judge_stage(environment, stage, runs, commands, session=self.spark)
        return judged.verdict.value, sorted(one.code for one in judged.findings)

    def plan(self) -> Any:
        environment, stage = self.seen
        return plan_of_stages(self.spark, environment, [stage], Wanted("move", NAME, to=str(self.target)))

    def apply(self, plan: Any) -> Any:
        environment, stage = self.seen
        return apply_to_stages(self.spark, environment, [stage], plan, confirm=plan.target)

    def undo(self, plan: Any) -> Any:
        environment, stage = self.seen
        return undo_of_stages(self.spark, environment, [stage], plan, confirm=plan.target)

    def run_at(self, checkpoint: Path) -> None:
        """As its owner does, with Spark alone."""
        self.lab.run(self.kind, _At(self.place.root, checkpoint))

    def run_guarded(self, checkpoint: Path) -> None:
        writer = self.kind.query(self.lab.read).writeStream.format("delta").outputMode(self.kind.mode)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = surestart.start(writer, NAME, str(self.place.table), file=self.file)
        assert query.awaitTermination(300)

    def rows(self) -> Rows:
        return rows_of(self.kind, self.place)

    def more(self, file: int, first: int) -> Rows:
        path = self.lab.input / f"part-{file:02d}.json"
        path.write_text("".join(f'{{"id":{number},"s":{file * 60}}}\n' for number in range(first, first + 5)))
        return Rows({(number,): 1 for number in range(first, first + 5)})


class _At(Place):
    def __init__(self, root: Path, checkpoint: Path) -> None:
        super().__init__(root)
        object.__setattr__(self, "at", checkpoint)

    @property
    def checkpoint(self) -> Path:
        return self.at  # type: ignore[attr-defined, no-any-return]


def goes_there_and_back(lab: Lab, kind: Kind, provider: str, folder: Path) -> None:
    with lab.with_settings(provider):
        stream = Declared(lab, kind, provider, folder)
        place, target, said = stream.place, stream.target, stream.file.read_bytes()
        expected = Rows(kind.expected)
        expected += stream.more(19, 995)
        stream.run_guarded(place.checkpoint)
        before, former, verdict = read_manifest(place.checkpoint), query_id_of(place), stream.verdict()
        versions = len(read_history(str(place.table)))

        plan = stream.plan()
        print("\n".join([*plan.statements, *(step.what for step in plan.steps)]))
        stream.apply(plan)
        assert read_manifest(target) == before
        assert stream.verdict() == verdict
        assert stream.seen[0].checkpoint(NAME) == str(target)

        # An old job of plain Spark: an error, and nothing is written anywhere.
        with pytest.raises(Exception, match=r"directory|exists") as failed:
            stream.run_at(place.checkpoint)
        print(str(failed.value).splitlines()[0])
        with pytest.raises(surestart.SurestartError):
            stream.run_guarded(place.checkpoint)
        assert place.checkpoint.is_file()
        assert len(read_history(str(place.table))) == versions
        assert read_manifest(target) == before

        expected += stream.more(20, 1000)
        stream.run_at(target)
        assert stream.rows() == expected
        assert stream.verdict() == verdict
        expected += stream.more(21, 1005)
        stream.run_guarded(target)
        assert stream.rows() == expected
        assert stream.verdict() == verdict
        ran = [(run.event, run.checkpoint, run.outcome) for run in read_runs(stream.seen[0], lab.spark)]
        assert ran[-2:] == [("remedy", str(target), "finished"), ("ended", str(target), "finished")]

        since = read_manifest(target)
        stream.undo(plan)
        assert read_manifest(place.checkpoint) == since
        assert query_id_of(place) == former
        assert stream.file.read_bytes() == said
        assert stream.verdict() == verdict
        with pytest.raises(Exception, match=r"directory|exists"):
            stream.run_at(target)
        expected += stream.more(22, 1010)
        stream.run_at(place.checkpoint)
        assert stream.rows() == expected
        for file in (19, 20, 21, 22):
            (lab.input / f"part-{file}.json").unlink()


@pytest.mark.long(instead="remedies/test_move_step.py::test_the_doctor_calls_the_moved_one_what_it_called_it_before")
def test_a_stream_with_state_is_moved_and_goes_on_and_back(lab: Lab, tmp_path: Path, classic_only: None) -> None:
    goes_there_and_back(lab, DEDUP, "changelog", tmp_path)


@pytest.mark.long(instead="remedies/test_move_step.py::test_the_doctor_calls_the_moved_one_what_it_called_it_before")
def test_a_stream_without_state_is_moved_and_goes_on_and_back(lab: Lab, tmp_path: Path, classic_only: None) -> None:
    goes_there_and_back(lab, PLAIN, "hdfs", tmp_path)


@pytest.mark.long(instead="remedies/test_move_step.py::test_nothing_is_written_over")
def test_what_runs_is_not_moved(lab: Lab, tmp_path: Path, classic_only: None) -> None:
    with lab.with_settings("hdfs"):
        stream = Declared(lab, PLAIN, "hdfs", tmp_path)
        plan = stream.plan()
        writer = PLAIN.query(lab.read).writeStream.format("delta").outputMode("append")
        writer = writer.option("checkpointLocation", str(stream.place.checkpoint)).trigger(processingTime="1 hour")
        query = surestart.start(writer, NAME, str(stream.place.table), file=stream.file)
        refused: list[Refused] = []

        def elsewhere() -> None:
            try:
                stream.apply(plan)
            except Refused as refusal:
                refused.append(refusal)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(120)
        query.stop()
        assert [one.code for one in refused] == ["OWNER_RUNNING"]
        assert stream.place.checkpoint.is_dir()
        assert not stream.target.exists()


def counted_by_processor(read: Callable[[], Any]) -> Any:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "n int")

        def handleInputRows(self, key: Any, frames: Iterator[Any], timers: Any) -> Iterator[Any]:
            total = (self.seen.get()[0] if self.seen.exists() else 0) + sum(len(frame) for frame in frames)
            self.seen.update((total,))
            yield pd.DataFrame({"id": [key[0]], "n": [total]})

        def close(self) -> None:
            return None

    grouped = read().selectExpr("id", f"id % {BUCKETS} AS bucket").groupBy("bucket")
    return grouped.transformWithStateInPandas(Counter(), "id int, n int", "append", "none")


PROCESSOR = Kind("processor", counted_by_processor, running_counts, ("id", "n"))


@pytest.mark.chaos
@pytest.mark.parametrize("encoding", ["unsaferow", "avro"])
def test_state_that_names_its_schema_by_the_old_path_goes_on(
    lab: Lab, tmp_path: Path, encoding: str, classic_only: None
) -> None:
    """transformWithState keeps absolute paths of schema files, which the doctor says as long as they are there."""
    conf = {"spark.sql.streaming.stateStore.encodingFormat": encoding}
    with lab.with_settings("changelog"), applied(lab.spark, conf):
        # A name of its own: what one encoding has left is not the other's to begin with.
        stream = Declared(lab, replace(PROCESSOR, name=f"processor-{encoding}"), "changelog", tmp_path)
        before = stream.verdict()
        plan = stream.plan()
        print(before, "\n".join(plan.statements))
        stream.apply(plan)
        print(stream.verdict())
        seen = PROCESSOR.expected
        stream.more(40, 3000)
        for bucket in range(BUCKETS):
            ids = [number for number in range(3000, 3005) if number % BUCKETS == bucket]
            highest = max(n for (one, n) in seen if one == bucket)
            seen[bucket, highest + len(ids)] += 1
        stream.run_at(stream.target)
        (lab.input / "part-40.json").unlink()
        assert stream.rows() == seen
        assert stream.verdict() == before
