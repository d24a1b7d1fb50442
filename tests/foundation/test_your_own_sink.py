"""docs/your-own-sink.md: a sink in one module, as printed, through run, doctor, reset and undo.

No module of the package knows it.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import surestart
from surestart import CannotTell, Environment, Refused, Stage, UsageError, Verdict, Wanted, environment_from_settings
from surestart.report.text.certificate import render_certificate
from tests.foundation.test_your_own_pipeline import typed_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-sink.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RUN, REMEDY, BACK = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
EVERY = Counter(("one", "two", "three"))


@dataclass
class Place:
    """The page's sink in a folder of its own, with three lines landed."""

    module: ModuleType
    environment: Environment
    stage: Stage
    spark: SparkSession

    @property
    def folder(self) -> Path:
        return Path(self.environment.root) / "lines" / "landed"

    @property
    def checkpoint(self) -> Path:
        return Path(self.environment.checkpoint("land"))

    def run(self) -> surestart.StageRun:
        return surestart.run_stage(self.spark, self.environment, self.stage)

    def land(self, name: str, *lines: str) -> None:
        landing = Path(self.environment.landing)
        landing.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text("".join(f"{line}\n" for line in lines))

    def lines(self) -> Counter[str]:
        files = sorted(self.folder.glob("*.jsonl"))
        return Counter(json.loads(line)["line"] for file in files for line in file.read_text().splitlines())

    def ask(self, sink: object = None) -> surestart.Diagnosis:
        stage = self.stage if sink is None else replace(self.stage, sink=sink)  # type: ignore[arg-type]
        (diagnosis,) = surestart.diagnose(self.environment, [stage], session=self.spark)
        return diagnosis

    def plan(self, *wanted: Any, sink: object = None, **options: Any) -> surestart.Plan:
        stage = self.stage if sink is None else replace(self.stage, sink=sink)  # type: ignore[arg-type]
        return surestart.plan(self.spark, self.environment, [stage], Wanted(*wanted, **options))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, classic_only: None) -> Iterator[Place]:
    (tmp_path / "lines.py").write_text(CODE)
    spec = importlib.util.spec_from_file_location("lines_of_the_page", tmp_path / "lines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setitem(__import__("sys").modules, spec.name, module)
        spec.loader.exec_module(module)
        environment = environment_from_settings("local", "copies", {"root": str(tmp_path / "root")})
        found = Place(module, environment, module.build_stages({})[0], spark)
        found.land("first.jsonl", "one", "two", "three")
        yield found


@pytest.mark.long(instead="remedies/test_reset.py::test_an_undone_reset_leaves_what_was_there_and_goes_on")
def test_it_is_run_judged_reset_and_put_back(place: Place) -> None:
    assert (place.ask().verdict, place.run().rows) == (Verdict.SAFE, 1)
    assert (place.lines(), place.ask().verdict) == (EVERY, Verdict.SAFE)
    former = sorted(place.folder.iterdir())

    plan = place.plan("reset", "land")
    assert [(effect.target, effect.rows) for effect in plan.effects][:1] == [("json-lines landed", 3)]
    assert (place.lines(), sorted(place.folder.iterdir())) == (EVERY, former)

    applied = surestart.apply(place.spark, place.environment, [place.stage], plan, confirm=plan.target)
    assert applied.certificate is not None
    assert (applied.certificate["verdict"], applied.certificate["stages"][0]["counts"]["rows"]) == ("exact", 3)
    assert place.lines() == EVERY
    assert sorted(place.folder.iterdir()) != former

    place.land("second.jsonl", "four")
    place.run()
    surestart.undo(place.spark, place.environment, [place.stage], plan, confirm=plan.target)
    assert (place.lines(), sorted(place.folder.iterdir())) == (EVERY, former)
    assert place.ask().verdict is Verdict.SAFE
    place.run()
    assert place.lines() == EVERY + Counter(["four"])


@pytest.mark.long(instead="remedies/test_reset.py::test_an_undone_reset_leaves_what_was_there_and_goes_on")
def test_a_retired_query_takes_out_what_it_held_and_an_undo_puts_it_back(place: Place) -> None:
    place.run()
    plan = place.plan("retire", "land", clear_tables=True)

    surestart.apply(place.spark, place.environment, [place.stage], plan, confirm=plan.target)
    assert (place.lines(), place.checkpoint.exists()) == (Counter(), False)

    surestart.undo(place.spark, place.environment, [place.stage], plan, confirm=plan.target)
    assert (place.lines(), place.ask().verdict) == (EVERY, Verdict.SAFE)


@pytest.mark.long(instead="test_a_sink_that_cannot_be_asked_is_never_safe")
def test_what_the_sink_says_of_its_batches_decides(place: Place) -> None:
    place.run()
    # As after a crash between the sink's file and Spark's.
    for file in (place.checkpoint / "commits").glob("*0*"):
        file.unlink()
    answer = place.ask().sinks[0]
    assert (answer.acceptance.value, answer.replay_recognised) == ("accepts", True)
    place.run()
    assert place.lines() == EVERY

    place.land("second.jsonl", "four")
    place.run()
    for file in (*(place.checkpoint / "commits").glob("*1*"), *(place.checkpoint / "offsets").glob("*1*")):
        file.unlink()
    assert place.ask().sinks[0].acceptance.value == "skips"
    with pytest.raises(Refused):
        place.run()


def test_a_sink_that_cannot_be_asked_is_never_safe(place: Place) -> None:
    mute = without(place.module.JsonLines, "read_evidence")("landed")
    # Not at its first start either, where a folder that is not there would look like an empty sink.
    assert place.ask(mute).verdict is Verdict.CANNOT_TELL
    place.run()
    torn = raising(place.module.JsonLines, "read_evidence", OSError("it is torn"))("landed")
    silent = raising(place.module.JsonLines, "read_evidence", None)("landed")

    assert {place.ask(sink).verdict for sink in (mute, torn, silent)} == {Verdict.CANNOT_TELL}
    assert any("it is torn" in finding.evidence for finding in place.ask(torn).findings)


@pytest.mark.long(instead="test_a_sink_that_cannot_be_asked_is_never_safe")
def test_what_it_cannot_do_is_refused_before_anything_is_planned(place: Place) -> None:
    place.run()
    elsewhere = str(place.checkpoint.parent / "elsewhere")
    for wanted in (
        {"remedy": "replay", "from_batch": 0},
        {"remedy": "replay", "from_output": True},
        {"remedy": "backfill"},
        {"remedy": "reset", "beside": True},
        {"remedy": "rewind", "to_batch": 0},
        {"remedy": "rewind"},
        {"remedy": "rewind", "to_batch": 0, "beside": elsewhere},
        {"remedy": "restart", "from_batch": 0},
        {"remedy": "move", "to": elsewhere},
    ):
        with pytest.raises((Refused, UsageError), match=r"json-lines landed|JsonLines|land is a stage") as told:
            place.plan(stage="land", **wanted)
        # What comes next is none of those that this sink refuses as well.
        words = str(told.value.next).split()
        assert words[1:3] in (["plan", "reset"], ["doctor", "land"], ["status", "-e"]), (wanted, words)
    bare = without(place.module.JsonLines, "remove_all")("landed")
    with pytest.raises(Refused, match="which no remedy knows"):
        place.plan("reset", "land", sink=bare)
    assert place.lines() == EVERY


@pytest.mark.long(instead="remedies/test_nothing_lost.py::test_rows_without_a_position_are_named_and_cannot_be_kept")
def test_rows_that_would_not_come_again_are_counted_in_it(place: Place) -> None:
    place.run()
    (Path(place.environment.landing) / "first.jsonl").unlink()

    with pytest.raises(Refused, match="3 rows would be lost for ever"):
        place.plan("reset", "land")


@pytest.mark.long(instead="remedies/test_apply.py::test_what_moved_since_the_plan_is_named_and_nothing_changed")
def test_a_plan_is_stale_once_the_sink_has_changed(place: Place) -> None:
    place.run()
    plan = place.plan("reset", "land")
    place.land("second.jsonl", "four")
    place.run()

    with pytest.raises(Refused, match="json-lines landed: was at version"):
        surestart.apply(place.spark, place.environment, [place.stage], plan, confirm=plan.target)


@pytest.mark.chaos
def test_the_page_goes_as_printed(tmp_path: Path) -> None:
    shown = typed_from(PAGE, tmp_path, "lines", RUN, REMEDY)
    assert "EXACT        lost 0, duplicated 0" in shown
    (digest,) = re.findall(r"^Undo: surestart undo (\w+) ", shown, re.MULTILINE)
    typed_from(PAGE, tmp_path, "lines", BACK.replace("DIGEST", digest))


def without(kind: type, name: str) -> type:
    """A class like this one that lacks the method."""
    return type("Bare", (), {key: value for key, value in vars(kind).items() if key not in (name, "__dict__")})


def raising(kind: type, name: str, error: Exception | None) -> type:
    def answer(self: object, environment: Environment) -> None:
        if error is not None:
            raise error

    return type("Broken", (kind,), {name: answer})


@dataclass(frozen=True)
class Pulses:
    """A source of a kind that nobody knows. says: what it finds, or why it cannot tell."""

    says: Any = ()

    def read_stream(self, spark: SparkSession, environment: Environment) -> Any:
        raise NotImplementedError

    def read_batch(self, spark: SparkSession, environment: Environment) -> Any:
        raise NotImplementedError

    def declare(self, environment: Environment) -> surestart.SourceDeclaration:
        return surestart.SourceDeclaration("pulses", "meter 7")

    def find_problems(self, environment: Environment, checkpoint: str) -> Any:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


GONE = surestart.Finding(
    "PULSES_GONE", surestart.Severity.UNSAFE, "12 pulses are gone", "They are not read.", "surestart status"
)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (Pulses(), Verdict.SAFE),
        (Pulses((GONE,)), Verdict.UNSAFE),
        (Pulses(OSError("no answer")), Verdict.CANNOT_TELL),
        (Pulses(None), Verdict.CANNOT_TELL),
        (Pulses("nothing"), Verdict.CANNOT_TELL),
        (without(Pulses, "find_problems")(), Verdict.CANNOT_TELL),
    ],
)
def test_a_source_of_your_own_says_what_is_wrong_or_nobody_can_tell(
    source: Any, verdict: Verdict, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "meters", {"root": str(tmp_path)})
    stage = Stage("read", source, lambda rows: rows, surestart.DeltaAppend("pulses", "at BIGINT"))

    (diagnosis,) = surestart.diagnose(environment, [stage], spark="4.0")

    assert diagnosis.verdict is verdict


@dataclass(frozen=True)
class Meter(Pulses):
    """As many pulses as its file says, read by a data source that nobody knows."""

    file: str = ""

    def read_stream(self, spark: SparkSession, environment: Environment) -> Any:
        from pyspark.sql import datasource

        file = self.file

        class Reader(datasource.SimpleDataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:
                return {"at": 0}

            def read(self, start: dict[str, int]) -> Any:
                end = {"at": int(Path(file).read_text())}
                return self.readBetweenOffsets(start, end), end

            def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Any:
                return iter([(at,) for at in range(start["at"], end["at"])])

        class Pulse(datasource.DataSource):
            @classmethod
            def name(cls) -> str:
                return "pulses"

            def schema(self) -> str:
                return "at BIGINT"

            def simpleStreamReader(self, schema: Any) -> Any:
                return Reader()

        spark.dataSource.register(Pulse)
        return spark.readStream.format("pulses").load()

    def read_batch(self, spark: SparkSession, environment: Environment) -> Any:
        return spark.range(int(Path(self.file).read_text())).withColumnRenamed("id", "at")


@pytest.mark.long(instead="remedies/test_nothing_lost.py::test_rows_without_a_position_are_named_and_cannot_be_kept")
def test_a_source_of_your_own_and_a_table_without_positions_go_through_every_remedy(place: Place) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="Spark 3.5 has no data sources in Python")
    counted = Path(place.environment.root) / "pulses.txt"
    counted.parent.mkdir(parents=True, exist_ok=True)
    sink = surestart.DeltaAppend("bare", "at BIGINT")
    here = replace(place, stage=Stage("land", Meter(file=str(counted)), lambda rows: rows, sink))
    for pulses in (3, 5):
        counted.write_text(str(pulses))
        here.run()
    assert here.ask().verdict is Verdict.SAFE

    for wanted in ({"from_batch": 1}, {"from_output": True}):
        with pytest.raises(Refused, match="bare has no column source, partition, offset") as told:
            here.plan("replay", "land", **wanted)
        assert str(told.value.next).startswith("surestart plan reset land")
    with pytest.raises(CannotTell, match="bare has no columns source, partition, offset"):
        here.plan("backfill", "land")
    with pytest.raises(Refused, match="5 rows would be lost for ever"):
        here.plan("reset", "land")
    assert here.plan("retire", "land").steps[0].kind == "retire"
    assert here.plan("resume", "land").verdict == "safe"

    # It was asked about the start from the newest batch, and says nothing of what came behind an older one.
    rewind = here.plan("rewind", "land", to_batch=0)
    assert any("nobody could be asked whether its source still has them" in line for line in rewind.statements)
    applied = surestart.apply(here.spark, here.environment, [here.stage], rewind, confirm=rewind.target)
    assert applied.certificate is not None
    (count,) = applied.certificate["stages"]
    assert (applied.certificate["verdict"], count["counts"]["rows"]) == ("cannot tell", 5)
    assert "bare has no columns source, partition, offset" in count["problem"]
    assert "5 rows, not told apart" in render_certificate(applied.certificate)
