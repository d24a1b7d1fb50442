"""Which line of Spark a version is of, and that nothing else decides it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensor_pipeline.stages import build_stages
from surestart.cli.main import main
from surestart.environment import environment_from_settings
from surestart.errors import UsageError
from surestart.history.run_record import RunRecord
from surestart.report.text.history_table import history_object, render_history
from surestart.runs.start_gate import open_gate
from surestart.spark.spark_lines import DEFAULT, LINES, NAMES, find_line, get_line, is_too_old, refuse_too_old
from surestart.verdict.next_start import NextStart, Outcome, start_on

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("3.5", "3.5"),
        ("3.5.9", "3.5"),
        ("4.0.1", "4.0"),
        ("4.1.0-preview1", "4.1"),
        ("4.2.1.dev0", "4.2"),
        ("spark 4.1", "4.1"),
        # Databricks Runtime, as people, clusters and serverless compute write it.
        ("14.3", "3.5"),
        ("15.4", "3.5"),
        ("16.4.x-scala2.12", "3.5"),
        ("17.3.x-photon-scala2.13", "4.0"),
        ("DBR 18.0", "4.1"),
        ("18.3", "4.1"),
        ("15.4 LTS", "3.5"),
        ("databricks runtime 17.3 LTS", "4.0"),
        ("runtime 14", "3.5"),
        ("16.x-scala2.12", "3.5"),
        ("18", "4.1"),
        ("client.1.13", "3.5"),
        ("client.4.9", "4.0"),
        ("client.5.1", "4.1"),
        ("serverless-5", "4.1"),
        ("serverless 5", "4.1"),
        ("Serverless environment version 4", "4.0"),
        ("17.3LTS", "4.0"),
        ("databricks-connect 17.3.2", "4.0"),
        ("Apache Spark 3.5", "3.5"),
        ("3.5.1-amzn-0", "3.5"),
        ("18.0.x-aarch64-photon-scala2.13", "4.1"),
    ],
)
def test_a_version_of_spark_or_databricks_is_of_one_line(version: str, line: str) -> None:
    found = find_line(version)
    assert found is not None
    assert found.name == line


@pytest.mark.parametrize(
    "version",
    [
        *("", "3", "3.10", "3.55", "4.10", "5.0", "3.4.1", "13.3", "19.0", "13", "19", "client.9", "4", "latest"),
        *("4.x", "٤.٠", "3.5x"),
        # Runtimes had these numbers once, and Spark has them now; Spark will not have those of runtimes soon.
        *("dbr 4.0", "databricks runtime 4.2", "4.1 LTS", "3.5.x-scala2.12", "spark 17.3", "serverless 6"),
    ],
)
def test_a_version_of_no_line_is_unknown(version: str) -> None:
    assert find_line(version) is None


@given(st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_versions_are_compared_as_numbers(number: tuple[int, int]) -> None:
    major, minor = number
    line = find_line(f"{major}.{minor}")
    if major < 10:
        assert (line is None) == (f"{major}.{minor}" not in NAMES)
        assert is_too_old(f"{major}.{minor}.0") == ((major, minor) < (3, 5))
    else:
        assert (line is None) == (major not in (14, 15, 16, 17, 18))
        assert is_too_old(f"{major}.{minor}") == (major < 14)


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8", "13.3", "13", "12.2.x-scala2.12", "dbr 9.1", "7.3 LTS"])
def test_a_start_on_a_runtime_older_than_the_oldest_line_is_refused_in_one_sentence(version: str) -> None:
    @dataclass
    class OldSession:
        version: str

    stage = build_stages({})[0]
    with pytest.raises(UsageError) as refused:
        open_gate(OldSession(version), environment_from_settings("dev", "sensor", environ={}), stage)  # type: ignore[arg-type]
    assert refused.value.what == f"Spark {version} is here, and surestart knows 3.5, 4.0, 4.1, 4.2"
    assert refused.value.code == "SparkLineUnknown"


@pytest.mark.parametrize("version", [*NAMES, "14.3", "19.0", "5.0.0", "client.9", "client.1", "3", "", "latest"])
def test_no_other_is_called_too_old(version: str) -> None:
    refuse_too_old(version)


def test_what_make_installs_is_what_the_table_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # The wheel alone brings none: it would replace a cluster's own pyspark.
    assert project["dependencies"] == []
    assert extras["local"][0] == get_line(DEFAULT).pyspark
    for line in LINES:
        assert extras[f"local-{line.name.replace('.', '-')}"][0] == line.pyspark
    makefile = (ROOT / "Makefile").read_text()
    assert f"\nLINES := {' '.join(NAMES)}\n" in makefile
    assert f"\nDEFAULT_LINE := {DEFAULT}\n" in makefile


def test_no_other_module_names_a_connector_or_a_version_of_one() -> None:
    """A second place would be forgotten when a line gets a newer connector."""
    coordinates = re.compile(r"(?:delta-spark|spark-sql-kafka|spark-avro|spark-token-provider)\w*[-_:]")
    found = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "spark_lines.py" and coordinates.search(path.read_text())
    ]
    assert found == []


def test_on_an_unknown_version_only_what_all_lines_do_alike_is_said() -> None:
    alike = [NextStart(name, Outcome.STARTS, 4, "batch 3 is done") for name in NAMES]
    assert start_on(alike, "4.7.0") == NextStart("4.7.0", Outcome.STARTS, 4, "batch 3 is done")
    differ = [*alike[:-1], NextStart(NAMES[-1], Outcome.FAILS, None, "there is no metadata")]
    assert start_on(differ, "4.7.0").outcome is Outcome.CANNOT_TELL
    assert start_on(differ, "dbr 18.1") == differ[NAMES.index("4.1")]


def test_an_environment_of_serverless_says_only_from_which_line_on() -> None:
    """It names a client; Databricks upgrades the server behind it by itself."""
    alike = [NextStart(name, Outcome.STARTS, 4, "batch 3 is done") for name in NAMES]
    differ = [*alike[:-1], NextStart(NAMES[-1], Outcome.FAILS, None, "there is no metadata")]
    assert start_on(alike, "serverless-5") == alike[NAMES.index("4.1")]
    assert start_on(differ, "serverless-5").outcome is Outcome.CANNOT_TELL
    older = replace(differ[-1], spark=NAMES[0])
    assert start_on([older, *alike[1:]], "client.4.9") == alike[NAMES.index("4.0")]


def test_inspect_of_such_an_environment_cannot_tell_where_its_lines_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "query"
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"readings":{"0":5}}\n')
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}\n')
    asked = ["inspect", str(checkpoint), "--sink", "none", "--spark"]
    codes = {spark: main([*asked, spark]) for spark in ("18.1", "4.2", "serverless-5")}
    assert codes == {"18.1": 1, "4.2": 3, "serverless-5": 4}
    assert "'serverless-5' is a client; its server may be Spark 4.1, 4.2" in capsys.readouterr().out


def test_inspect_takes_a_runtime_and_refuses_what_it_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "query"
    (checkpoint / "offsets").mkdir(parents=True)
    assert main(["inspect", str(checkpoint), "--spark", "15.4", "--sink", "none"]) != 2
    assert "3.5" in capsys.readouterr().out
    assert main(["inspect", str(checkpoint), "--spark", "3.10"]) == 2
    assert "'3.10' is not a known version of Spark (3.5, 4.0, 4.1, 4.2)" in capsys.readouterr().err


def test_the_history_says_where_the_line_changed_and_which_one_is_unknown() -> None:
    place = environment_from_settings("dev", "sensor", {"root": "/r"}, environ={})
    ran = ("4.0.1", "4.0.5", "", "4.1.2", "5.0.0", "5.0.0", "4.1.2")
    runs = [RunRecord(f"{number}", stage="a", query="q", spark=spark) for number, spark in enumerate(ran)]
    shown = render_history(place, runs, {}, 0).splitlines()
    said = [line.split("Spark")[1].strip() for line in shown if "Spark" in line]
    unknown = "5.0.0, of no known line"
    assert said == ["4.1, before 4.0", f"{unknown}, before 4.1", f"4.1, before {unknown}"]
    assert f" {unknown}\n" in render_history(place, runs[4:5], {}, 0)
    lines = [run["spark_line"] for run in history_object(place, runs, {})["runs"]]
    assert lines == ["4.0", "4.0", None, "4.1", None, None, "4.1"]
