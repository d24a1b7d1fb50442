"""The bar: over fifty damaged checkpoints really restarted, and not one of them was called safe and then lost,
duplicated or failed. The whole matrix is printed; `make calibrate` does the same on the other lines of Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from surestart.spark.session import applied
from surestart.spark.spark_lines import installed_line
from tests.diagnosis.calibration import Case, describe, matrix
from tests.diagnosis.calibration_shapes import FAST
from tests.diagnosis.restart_lab import THRIFTY, Lab, restart_cases


@pytest.fixture(scope="module")
def cases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    lab = Lab(spark, tmp_path_factory.mktemp("lab"))
    with applied(spark, THRIFTY):
        return restart_cases(lab, FAST, installed_line().name)


@pytest.mark.long(
    instead="diagnosis/test_acceptance_against_spark.py::test_the_answer_before_the_start_is_what_the_start_then_does"
)
def test_no_damaged_checkpoint_is_called_safe_and_then_goes_wrong(
    cases: list[Case], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + matrix(cases, installed_line().name))
    assert len(cases) >= 40
    assert [case.shape.name for case in cases if case.falsely_safe] == []


@pytest.mark.long(
    instead="diagnosis/test_acceptance_against_spark.py::test_the_answer_before_the_start_is_what_the_start_then_does"
)
def test_every_start_does_what_was_predicted(cases: list[Case]) -> None:
    wrong = {case.shape.name: describe(case) for case in cases if not case.start_as_predicted}
    assert wrong == {}


@pytest.mark.long(
    instead="diagnosis/test_acceptance_against_spark.py::test_the_answer_before_the_start_is_what_the_start_then_does"
)
def test_undamaged_checkpoints_are_called_safe(cases: list[Case]) -> None:
    """A doctor that calls everything unsafe would pass the test above."""
    healthy = {case.shape.name: case.prediction.verdict.value for case in cases if case.shape.name in HEALTHY}
    assert healthy == dict.fromkeys(HEALTHY, "safe")


HEALTHY = ("nothing", "in flight", "stateful: nothing", "stateful: in flight")


@pytest.mark.long(
    instead="diagnosis/test_acceptance_against_spark.py::test_the_answer_before_the_start_is_what_the_start_then_does"
)
def test_shapes_that_go_wrong_without_an_error_are_called_unsafe(cases: list[Case]) -> None:
    """Rows lost or doubled by a start that reports success: what nothing but the doctor would notice."""
    silent = [case for case in cases if not case.went_well and not case.outcomes[-1].failed]
    assert len(silent) >= 5
    assert {case.shape.name: case.prediction.verdict.value for case in silent} == {
        case.shape.name: "unsafe" for case in silent
    }
