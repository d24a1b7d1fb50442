"""The pipeline, unchanged, on a cluster: Kafka to gold while machines are lost in mid-batch; each row is there once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sensor_pipeline.count import count_rows
from sensor_pipeline.kafka_simulate import read_sent, write_topic
from surestart.environment import Environment
from tests.cluster.standalone import Cluster, standalone_cluster
from tests.servers.kafka_broker import KafkaBroker, kafka_broker

pytestmark = pytest.mark.cluster
READINGS = 60_000
TOPIC = "sensor-readings"
STAGES = ("raw-ingest", "deserialize", "merge-gold")


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster", workers=2) as running:
        yield running


def in_flight(environment: Environment, stage: str) -> int | None:
    """The batch that is planned and not committed, by the checkpoint's file names alone."""
    checkpoint = Path(environment.checkpoint(stage))
    planned = [int(entry.name) for entry in checkpoint.glob("offsets/*") if entry.name.isdigit()]
    newest = max(planned, default=None)
    return newest if newest is not None and not (checkpoint / "commits" / str(newest)).exists() else None


def test_a_worker_lost_in_the_middle_of_a_batch_of_each_stage_costs_no_row(
    cluster: Cluster, environment: Environment, broker: KafkaBroker, tmp_path: Path
) -> None:
    write_topic(broker.bootstrap, TOPIC, tmp_path / "truth.json", READINGS, partitions=4)
    command = [sys.executable, "-m", "surestart", "run", "all", "--root", environment.root, "--no-count"]
    for setting in ("source=kafka", f"bootstrap={broker.bootstrap}", f"topic={TOPIC}", "max_offsets_per_trigger=20000"):
        command += ["--set", setting]
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            command,
            env={**os.environ, "SURESTART_MASTER": cluster.url},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            lost = [lose_a_worker_in_mid_batch(cluster, environment, stage, driver) for stage in STAGES]
            code = driver.wait(timeout=600)
        finally:
            if driver.poll() is None:
                driver.kill()
                driver.wait()

    assert code == 0, (tmp_path / "driver.log").read_text()[-3000:]
    # The batches in which a machine was lost have been finished by the other one, in the same run of the query.
    for stage, batch in zip(STAGES, lost, strict=True):
        assert (Path(environment.checkpoint(stage)) / "commits" / str(batch)).exists()
    account = count_rows(environment, read_sent(broker.bootstrap, TOPIC))
    assert (account.produced, account.raw, account.faults) == (READINGS, READINGS, {})
    assert account.is_exact


def lose_a_worker_in_mid_batch(
    cluster: Cluster, environment: Environment, stage: str, driver: subprocess.Popen[bytes]
) -> int:
    """The batch that was in flight before and after the kill. A worker takes the lost one's place."""
    until = time.monotonic() + 300
    while time.monotonic() < until and driver.poll() is None:
        batch = in_flight(environment, stage)
        worker = cluster.workers[0]
        if batch is not None and cluster.executors_of(worker):
            cluster.lose(worker)
            caught = in_flight(environment, stage) == batch
            # Not waited for: the next stage may be through before it has registered.
            cluster.add_worker(wait=False)
            if caught:
                return batch
    raise AssertionError(f"no batch of {stage} was caught in flight; the driver ended with {driver.poll()}")
