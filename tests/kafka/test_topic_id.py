"""Which topic a checkpoint has read from is known from the run's beginning, however the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from confluent_kafka import Uuid

from sensor_pipeline.stages import PIPELINE, build_stages
from surestart import BatchProgress
from surestart.cli.stage_answers import ask_stages
from surestart.declaration import SourceDeclaration, StageDeclaration
from surestart.errors import Refused
from surestart.facts.kafka.evidence import known_topic_id, read_kafka_evidence
from surestart.history.run_record import DIED, FINISHED, REMEDY, RunRecord
from surestart.history.run_table import read_runs
from surestart.notebooks.exploration import explore
from surestart.runs.history_findings import read_source_ids, read_topic_id
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from surestart.words.finding import Verdict
from tests.kafka.kafka_client import payloads, raw_rows, raw_stage


@pytest.mark.long(instead="test_the_recorded_topic_is_that_of_the_newest_run_that_stands")
def test_a_first_run_that_was_killed_has_recorded_its_topic_and_the_next_one_just_starts(
    spark, environment, broker, client, topic
):
    client.create(topic, partitions=2)
    stored = client.produce(topic, payloads(40))
    settings = {"source": "kafka", "bootstrap": broker.bootstrap, "topic": topic}
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    killed = subprocess.run(
        [sys.executable, "-m", "surestart", "run", "raw-ingest", "--no-count", "--root", environment.root, *given],
        env={**os.environ, "SURESTART_FAILPOINT": "append.after_commit"},
        # The failpoint kills the whole process group: the driver with its JVM.
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    recorded = {topic: read_kafka_evidence(broker.bootstrap, topic).topic_id}
    assert [run.sources for run in read_runs(environment)] == [recorded]

    stored += client.produce(topic, payloads(10, "later-"))
    run = run_stage(spark, environment, build_stages(settings)[0])

    assert (run.replayed, run.last_batch) == (0, 1)
    assert raw_rows(spark, environment) == stored
    runs = read_runs(environment)
    assert [(one.outcome, one.sources, one.accepted) for one in runs] == [
        (DIED, recorded, ()),
        (FINISHED, recorded, ()),
    ]


@pytest.mark.long(
    instead="kafka/test_faults.py::test_a_topic_made_again_under_its_name_is_told_by_its_id_where_spark_sees_nothing"
)
def test_a_topic_replaced_while_a_run_goes_on_is_told_at_the_next_start(spark, environment, broker, client, topic):
    client.create(topic, partitions=1)
    client.produce(topic, payloads(10), partitions=1)
    stage = raw_stage(KafkaSource(broker.bootstrap, topic))
    former = read_kafka_evidence(broker.bootstrap, topic).topic_id

    def replace_topic(progress: BatchProgress) -> None:
        client.delete(topic)
        client.create(topic, partitions=1)
        # Past the checkpoint: by offsets alone nothing is wrong.
        client.produce(topic, payloads(30, "other-"), partitions=1)

    run_stage(spark, environment, stage, on_progress=replace_topic)

    assert read_kafka_evidence(broker.bootstrap, topic).topic_id != former
    assert [run.sources for run in read_runs(environment)] == [{topic: former}]
    with pytest.raises(Refused) as refused:
        run_stage(spark, environment, stage)
    assert refused.value.code == "KAFKA_TOPIC_REPLACED"


def test_the_exploration_notebook_judges_by_the_recorded_topic_as_the_doctor_does(
    spark, environment, broker, client, topic
):
    client.create(topic, partitions=1)
    client.produce(topic, payloads(5), partitions=1)
    settings = {"source": "kafka", "bootstrap": broker.bootstrap, "topic": topic}
    run_stage(spark, environment, build_stages(settings)[0])
    place = {"environment": "local", "root": environment.root, "stage": "raw-ingest"}

    found = explore(PIPELINE, {**place, **settings}).inspections["raw-ingest"]

    assert found.verdict is Verdict.SAFE
    assert [finding.code for finding in found.findings if finding.code.startswith("KAFKA")] == []
    (doctors,) = ask_stages(environment, build_stages(settings)[:1])
    assert found.findings == doctors.findings


def test_the_id_of_a_broker_that_has_no_ids_is_not_known(broker, client, topic, environment):
    assert known_topic_id(Uuid(0, 0)) == known_topic_id(str(Uuid(0, 0))) == ""
    client.create(topic, partitions=1)
    found = read_source_ids(raw_stage(KafkaSource(broker.bootstrap, topic)), environment)
    assert found == {topic: read_kafka_evidence(broker.bootstrap, topic).topic_id}
    assert len(found[topic]) == 22


TOPIC = StageDeclaration("raw", "sensor-raw", "/ck", (SourceDeclaration("kafka", "t"),), ())
RUN = RunRecord(run_id="1", query="sensor-raw", query_id="q", sources={"t": "first"})


@pytest.mark.parametrize(
    ("runs", "known"),
    [
        ([], ""),
        ([RUN, replace(RUN, run_id="2", sources={})], "first"),
        ([RUN, replace(RUN, run_id="2", sources={"t": "second"})], "second"),
        # As versions before this one have recorded a broker without ids.
        ([RUN, replace(RUN, run_id="2", sources={"t": str(Uuid(0, 0))})], "first"),
        # A reset whose run has read another topic, taken back: the checkpoint of the first one stands again.
        (
            [
                RUN,
                replace(RUN, run_id="3", event=REMEDY, remedy="d1", sources={}),
                replace(RUN, run_id="2", sources={"t": "second"}),
                replace(RUN, run_id="4", event=REMEDY, undoes="d1", sources={}),
            ],
            "first",
        ),
    ],
)
def test_the_recorded_topic_is_that_of_the_newest_run_that_stands(runs, known):
    assert read_topic_id(runs, TOPIC) == known
