"""`surestart inspect`: text of 80 columns, JSON by its schema, exit codes, and the sink's half of the truth."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from surestart.cli.main import main
from surestart.declaration import StageDeclaration
from surestart.report.json.inspection import inspection_json
from surestart.report.text.inspection import render_inspection
from surestart.spark.spark_lines import DEFAULT
from surestart.verdict.diagnose import diagnose, read_stage
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Acceptance, Severity, Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, compact, delta, files, kafka, make_checkpoint, make_state, rate
from tests.diagnosis.called import surestart

SCHEMA = Path(__file__).parents[2] / "src/surestart/report/inspect.schema.json"


def make_table(root: Path, *batches: int, query_id: str = QUERY_ID, step: str = "") -> Path:
    """A Delta log as a streaming sink leaves it: one commit and one txn action for each batch."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    app = f"{query_id}:{step}" if step else query_id
    schema = compact({"type": "struct", "fields": []})
    table = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    table |= {"partitionColumns": [], "configuration": {}}
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": table}]
    (log / f"{0:020}.json").write_text("\n".join(map(compact, first)))
    for version, batch in enumerate(batches, start=1):
        file = {"path": f"part-{batch}.parquet", "size": 10, "modificationTime": 1, "dataChange": True}
        file |= {"partitionValues": {}, "stats": compact({"numRecords": 10})}
        parameters = {"outputMode": "Append", "queryId": query_id, "epochId": str(batch)}
        info = {"timestamp": version, "operation": "STREAMING UPDATE", "operationParameters": parameters}
        actions = [
            {"commitInfo": info},
            {"txn": {"appId": app, "version": batch, "lastUpdated": version}},
            {"add": file},
        ]
        (log / f"{version:020}.json").write_text("\n".join(map(compact, actions)))
    return root


def run(*arguments: str) -> tuple[int, str]:
    done = surestart("inspect", *arguments)
    return done.returncode, done.stdout


@pytest.mark.parametrize("source", [kafka, files, delta, rate])
def test_a_healthy_checkpoint_and_its_sink_are_safe(tmp_path: Path, source: Callable[[int], str]) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", source=source)
    code, text = run(str(root), "--sink", str(make_table(tmp_path / "raw", *range(5))))
    assert code == 0, text
    assert "SAFE: start it" in text
    assert f"Spark {DEFAULT} starts batch 5" in text
    assert "ACCEPTS" in text


@pytest.mark.parametrize(
    ("below", "verdict"),
    [("_checkpoints/orders", "safe"), (".chk", "safe"), ("checkpoint", "attention"), ("day=1/_chk", "safe")],
)
def test_vacuum_passes_over_a_folder_below_a_table_by_its_name_alone(tmp_path: Path, below: str, verdict: str) -> None:
    table = make_table(tmp_path / "table", *range(5))
    checkpoint = make_checkpoint(table / below)
    found = inspect_checkpoint(str(checkpoint), sinks=(f"{table}/",))

    assert (found.verdict.value, "CHECKPOINT_IN_TABLE" in {one.code for one in found.findings}) == (
        verdict,
        verdict == "attention",
    )


def test_a_checkpoint_without_a_sink_is_half_of_the_truth(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest")
    code, text = run(str(root))
    assert code == 4
    assert "SINK_NOT_NAMED" in text
    assert run(str(root), "--sink", "none")[0] == 0


def test_a_rewound_checkpoint_looks_whole_and_its_sink_tells(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", planned=range(3), committed=range(3))
    table = make_table(tmp_path / "raw", *range(5))
    assert inspect_checkpoint(str(root), sinks=("none",)).verdict is Verdict.SAFE
    inspection = inspect_checkpoint(str(root), sinks=(str(table),))
    assert (inspection.verdict, inspection.acceptance) == (Verdict.UNSAFE, Acceptance.SKIPS)


# What a suspicion of the checkpoint alone becomes: where nobody has named a sink, with a sink that it harms, with
# `--sink none`. State that later batches have left, and a start that fails, no sink makes good. This table's commits
# carry no times by which a former self could be told.
SUSPECTED: dict[str, tuple[Callable[[Path], object], str, str, tuple[Severity, Severity, Severity]]] = {
    "file list goes further": (
        lambda root: drop_logs(root, 3, 4),
        "REWOUND",
        "4.1",
        (Severity.CANNOT_TELL, Severity.UNSAFE, Severity.UNSAFE),
    ),
    "state goes further": (
        lambda root: (drop_logs(root, 3, 4), make_state(root, range(1, 6))),
        "REWOUND",
        "4.1",
        (Severity.UNSAFE, Severity.UNSAFE, Severity.UNSAFE),
    ),
    "both logs deleted": (
        lambda root: drop_logs(root, *range(5)),
        "LOGS_DELETED",
        "4.1",
        (Severity.CANNOT_TELL, Severity.UNSAFE, Severity.UNSAFE),
    ),
    "metadata gone, in flight": (
        lambda root: ((root / "metadata").unlink(), (root / "commits/4").unlink()),
        "METADATA_MISSING",
        "4.1",
        (Severity.CANNOT_TELL, Severity.CANNOT_TELL, Severity.UNSAFE),
    ),
    "metadata gone, in flight, on Spark 4.2": (
        lambda root: ((root / "metadata").unlink(), (root / "commits/4").unlink()),
        "METADATA_MISSING",
        "4.2",
        (Severity.UNSAFE, Severity.UNSAFE, Severity.UNSAFE),
    ),
}


def drop_logs(root: Path, *batches: int) -> None:
    for batch in batches:
        (root / f"offsets/{batch}").unlink()
        (root / f"commits/{batch}").unlink()


@pytest.mark.parametrize("name", SUSPECTED)
def test_what_a_suspicion_foretells_is_open_where_nobody_has_named_a_sink(tmp_path: Path, name: str) -> None:
    damage, code, spark, expected = SUSPECTED[name]
    root = make_checkpoint(tmp_path / "orders", source=files)
    table = f"delta-builtin+alone:{make_table(tmp_path / 'raw', *range(5))}"
    damage(root)

    asked = [inspect_checkpoint(str(root), sinks=sinks, spark=spark) for sinks in ((), (table,), ("none",))]
    found = [next(one for one in each.findings if one.code == code) for each in asked]

    assert tuple(one.severity for one in found) == expected
    assert asked[0].verdict is (Verdict.UNSAFE if expected[0] is Severity.UNSAFE else Verdict.CANNOT_TELL)
    if expected[0] is Severity.CANNOT_TELL:
        assert "--sink" in str(found[0].next)
        assert asked[0].findings[0].code == code


@pytest.mark.parametrize("name", SUSPECTED)
def test_the_doctor_says_the_same_of_a_declared_stream(tmp_path: Path, name: str) -> None:
    damage, code, spark, expected = SUSPECTED[name]
    root = make_checkpoint(tmp_path / "orders", source=files)
    damage(root)
    stage = StageDeclaration("orders", "orders", str(root), sources=(), sinks=(), foreign=True)

    told = diagnose(read_stage(stage), spark=spark, now=int(time.time() * 1000))
    found = next(one for one in told.findings if one.code == code)

    assert found.severity is expected[0]
    assert told.verdict is (Verdict.UNSAFE if expected[0] is Severity.UNSAFE else Verdict.CANNOT_TELL)
    if expected[0] is Severity.CANNOT_TELL:
        assert "names its sink" in str(found.next)


def test_the_next_start_on_a_version_that_nobody_has_tried_is_never_safe(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "orders", source=files)
    stage = StageDeclaration("orders", "orders", str(root), sources=(), sinks=(), foreign=True)
    known, alike = (
        {one.code: one.severity for one in diagnose(read_stage(stage), spark=spark, now=0).findings}
        for spark in ("4.1", "5.0")
    )
    assert "SPARK_UNKNOWN" not in known
    assert alike["SPARK_UNKNOWN"] is Severity.ATTENTION
    (root / "metadata").unlink()
    differ = diagnose(read_stage(stage), spark="5.0", now=0)
    assert differ.verdict is not Verdict.SAFE
    assert "SPARK_UNKNOWN" in {one.code for one in differ.findings}


def test_a_batch_in_flight_that_the_sink_holds_is_recognised(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", committed=range(4))
    (answer,) = inspect_checkpoint(str(root), sinks=(str(make_table(tmp_path / "raw", *range(5))),)).sinks
    assert (answer.acceptance, answer.replay_recognised) == (Acceptance.ACCEPTS, True)


def test_the_steps_of_a_batch_that_writes_twice_are_found_in_the_table(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-deserialize")
    table = make_table(tmp_path / "readings", *range(5), step="quarantine")
    (answer,) = inspect_checkpoint(str(root), sinks=(str(table),)).sinks
    assert (answer.sink.step, answer.acceptance) == ("quarantine", Acceptance.ACCEPTS)


def test_state_that_the_skipped_replay_would_have_written_is_missed(tmp_path: Path) -> None:
    """Measured on Spark 4.0: the sink skips batch 4, nobody writes its state, batch 5 fails."""
    root = make_checkpoint(tmp_path / "sensor-merge-gold", committed=range(4))
    make_state(root, range(1, 5))
    table = make_table(tmp_path / "gold", *range(5))
    assert inspect_checkpoint(str(root), sinks=("none",)).verdict is Verdict.SAFE
    inspection = inspect_checkpoint(str(root), sinks=(str(table),))
    assert ("STATE_BEHIND_SINK", Severity.UNSAFE) in {(found.code, found.severity) for found in inspection.findings}


def test_a_sink_that_cannot_be_read_is_never_safe(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest")
    for sink in ("main.sensor.raw", "postgres:public.gold", str(tmp_path)):
        code, text = run(str(root), "--sink", sink)
        assert code in (3, 4), text
        assert "ACCEPTS" not in text


@pytest.mark.parametrize("scheme", ["postgres://", "postgresql://", "jdbc:postgresql://"])
def test_a_password_in_an_argument_is_refused_and_not_repeated(tmp_path: Path, scheme: str) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest")
    done = surestart("inspect", str(root), "--sink", f"{scheme}user:hunter2@db/sensor")
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("planned", "committed", "exit_code"), [(5, 5, 0), (5, 4, 0), (5, 2, 1), (4, 5, 3), (0, 0, 4), (0, 5, 3)]
)
def test_exit_codes(tmp_path: Path, planned: int, committed: int, exit_code: int) -> None:
    root = make_checkpoint(tmp_path / "sensor-x", planned=range(planned), committed=range(committed))
    assert run(str(root), "--sink", "none")[0] == exit_code


def test_a_wrong_argument_is_usage(tmp_path: Path) -> None:
    assert run(str(tmp_path), "--spark", "2.4")[0] == 2
    assert run("dbfs:/user/checkpoint")[0] == 2
    assert run("abfss://c@a.dfs.core.windows.net/ck")[0] == 4
    assert run(str(tmp_path / "no-such-folder"))[0] == 1


def shapes(tmp_path: Path) -> dict[str, Path]:
    made = {
        "healthy": make_checkpoint(tmp_path / "healthy"),
        "flight": make_checkpoint(tmp_path / "flight", committed=range(4), source=files),
        "ahead": make_checkpoint(tmp_path / "ahead", planned=range(2), source=delta),
        "no id": make_checkpoint(tmp_path / "no-id", query_id=None, source=rate),
        "empty": make_checkpoint(tmp_path / "empty", planned=(), committed=()),
        "absent": tmp_path / "absent",
        "table": make_table(tmp_path / "table", 0),
        "state": make_checkpoint(tmp_path / "state"),
        "torn": make_checkpoint(tmp_path / "torn"),
        "a-checkpoint-with-a-name-so-long-that-it-does-not-fit-into-a-line-of-eighty-columns": make_checkpoint(
            tmp_path / ("a-long-name" * 12)
        ),
    }
    make_state(made["state"], range(1, 6))
    (made["torn"] / "offsets/4").write_text("")
    return made


def test_json_follows_its_schema_and_text_its_width(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    table = make_table(tmp_path / "raw", *range(5))
    for name, root in shapes(tmp_path).items():
        for sinks in ((), ("none",), (str(table),)):
            for spark in ("3.5", "4.0", "4.1", "4.2"):
                inspection = inspect_checkpoint(str(root), sinks=sinks, spark=spark)
                validator.validate(json.loads(inspection_json(inspection)))
                text = render_inspection(inspection)
                lines = [line for line in text.splitlines() if not line.startswith("  Next: ")]
                assert max(map(len, lines)) <= 80, (name, text)


def test_the_json_says_what_the_issue_lists(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", committed=range(4))
    make_state(root, range(1, 6))
    found = json.loads(run(str(root), "--json", "--sink", str(make_table(tmp_path / "raw", *range(4))))[1])
    assert found["schema_version"] == 1
    assert found["location"] == str(root)
    assert found["query_id"] == QUERY_ID
    assert {key: found["batches"][key] for key in ("planned", "committed", "next", "in_flight")} == {
        "planned": 4,
        "committed": 3,
        "next": 4,
        "in_flight": 4,
    }
    (source,) = found["sources"]
    assert (source["index"], source["kind"]) == (0, "kafka")
    assert source["start"] == {"orders": {"0": 130, "1": 55}}
    assert source["end"] == {"orders": {"0": 140, "1": 60}}
    assert found["state"]["provider"] == "hdfs"
    assert (
        found["state"]["operators"][0] | {"id": 0, "name": "dedupe", "partitions": 2} == found["state"]["operators"][0]
    )
    assert found["formats"] == {"offsets": 1, "commits": 1}
    assert found["confs"]["spark.sql.shuffle.partitions"] == "2"
    assert (found["acceptance"], found["verdict"], found["spark_version"]) == ("accepts", "safe", "4.0-4.1")
    assert [finding["code"] for finding in found["findings"]] == ["IN_FLIGHT"]


def test_the_lines_differ_where_spark_differs(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", query_id=None)
    starts = json.loads(run(str(root), "--json")[1])["next_start"]
    assert {line: start["outcome"] for line, start in starts.items()} == {
        "3.5": "starts",
        "4.0": "starts",
        "4.1": "starts",
        "4.2": "fails",
    }
    assert starts["4.0"]["new_identity"]
    assert run(str(root), "--sink", "none", "--spark", "4.2.0")[0] == 3


def test_nothing_but_the_object_is_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(make_checkpoint(tmp_path / "x")), "--json", "--sink", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "safe"


def test_no_spark_is_imported(tmp_path: Path) -> None:
    """The doctor needs no JVM, and none of the extras."""
    code = (
        "import sys; from surestart.cli.main import main; "
        f"main(['inspect', {str(make_checkpoint(tmp_path / 'x'))!r}, '--sink', "
        f"{str(make_table(tmp_path / 't', 4))!r}]); "
        "print([name for name in ('pyspark', 'pyarrow', 'fsspec', 'databricks', 'psycopg') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
