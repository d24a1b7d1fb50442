"""The doctor's page over a real broker: what is unread in each partition, and no number where the broker is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.cli.main import main
from tests.checkpoint.checkpoint_maker import compact, make_checkpoint
from tests.kafka.kafka_client import KafkaClient
from tests.report.pages import Element, read_page


def doctor_page(root: Path, bootstrap: str, topic: str) -> Element:
    out = root / "page.html"
    settings = [("source", "kafka"), ("bootstrap", bootstrap), ("topic", topic)]
    options = [part for name, value in settings for part in ("--set", f"{name}={value}")]
    main(["doctor", "raw-ingest", "-e", "local", "--root", str(root), *options, "--html", str(out)])
    return read_page(out.read_text())


def write_checkpoint(root: Path, topic: str) -> None:
    """Batches 0..4, the last of which ends before offset 4 of partition 0 and before offset 9 of partition 1."""
    folder = root / "checkpoints/sensor-raw-ingest"
    make_checkpoint(folder, source=lambda batch: compact({topic: {"0": batch, "1": batch + 5}}))


def test_lag_per_partition_is_what_the_broker_holds_beyond_the_checkpoint(
    broker, client: KafkaClient, topic: str, tmp_path: Path
) -> None:
    client.create(topic, 2)
    client.produce(topic, [b"x"] * 40)
    write_checkpoint(tmp_path, topic)
    page = doctor_page(tmp_path, broker.bootstrap, topic)

    rows = {row[0]: row[1:] for row in page.by_id("s0-source-0-table").rows()}
    assert rows == {f"{topic}-0": ["3", "4", "1", "20", "16"], f"{topic}-1": ["8", "9", "1", "20", "11"]}
    assert "Lag per partition: 27 offsets unread, at most 16 in one. Asked at " in page.by_id("s0-sources").text


@pytest.mark.long(
    instead="kafka/test_evidence.py::test_a_cluster_out_of_reach_is_cannot_tell_within_the_time_limit_and_never_silence"
)
@pytest.mark.timeout(120)
def test_a_silent_broker_gives_no_lag_rather_than_none(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "orders")
    page = doctor_page(tmp_path, "127.0.0.1:1", "orders")

    assert "The broker did not tell: " in page.by_id("s0-sources").text
    assert "Lag" not in page.by_id("s0-source-0-table").text
    assert next(page.all("h1")).text != "Safe: start it"
