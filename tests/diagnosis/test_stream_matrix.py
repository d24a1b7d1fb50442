"""The bar for streams that surestart did not write: each kind as people write it, healthy and damaged, judged as a user
would ask and then started again for real. None that is called safe loses, doubles or fails; none that is called unsafe
goes well. Printed by `make matrix`; docs/inspect.md holds the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.words.finding import Verdict
from tests.diagnosis.restart_lab import THRIFTY
from tests.diagnosis.stream_damages import CASES, FAST, HEALTHY, KAFKA_DAMAGES
from tests.diagnosis.stream_lab import SAID, Result, StreamLab, count_wrong, describe, matrix, restart_all
from tests.diagnosis.stream_to_kafka import to_kafka
from tests.diagnosis.stream_to_nowhere import NOOP, NOWHERE_CASES

# What the evidence cannot tell, with nothing said of the sinks and with what their owner knows.
CANNOT_TELL = {"undeclared": 19, "declared": 3}


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with applied(spark, {**pairs(EVERYWHERE), **THRIFTY}):
        yield


@pytest.fixture(scope="module")
def fast(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    cases = [*FAST, (NOOP, HEALTHY)]
    return restart_all(StreamLab(spark, tmp_path_factory.mktemp("streams")), cases)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    from tests.servers.kafka_broker import kafka_broker

    with kafka_broker() as broker:
        kafka = to_kafka(broker.bootstrap)
        cases = [*CASES, *NOWHERE_CASES, *((kafka, damage) for damage in KAFKA_DAMAGES)]
        return restart_all(StreamLab(spark, Path(tmp_path_factory.mktemp("streams"))), cases)


@pytest.mark.long(
    instead="diagnosis/test_acceptance_against_spark.py::test_the_answer_before_the_start_is_what_the_start_then_does"
)
def test_one_stream_of_each_mechanism_does_what_was_said(
    fast: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + matrix(fast))
    hold(fast)
    assert sum(one.outcome.went_well for one in fast) >= 5, "a doctor that calls everything unsafe would pass"
    assert sum(not one.outcome.went_well for one in fast) >= 4
    assert [one.name for one in fast if one.declared.verdict is Verdict.CANNOT_TELL] == []


@pytest.mark.chaos
def test_every_kind_and_every_damage_does_what_was_said(
    whole: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + matrix(whole))
    hold(whole)
    assert len({one.kind for one in whole if one.healthy}) >= 12
    assert sum(not one.healthy for one in whole) >= 30
    for which, most in CANNOT_TELL.items():
        assert len(count_wrong(whole, which)[2]) <= most


def hold(results: list[Result]) -> None:
    for which in SAID:
        false_safe, false_unsafe, _ = count_wrong(results, which)
        assert [describe(one, which) for one in false_safe] == []
        assert [describe(one, which) for one in false_unsafe] == []
    healthy = [one for one in results if one.healthy]
    assert [one.name for one in healthy if not one.outcome.went_well] == []
    assert [one.name for one in healthy if Verdict.UNSAFE in (one.undeclared.verdict, one.declared.verdict)] == []
