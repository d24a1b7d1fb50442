"""A Kafka cluster that does not answer is never taken for one without findings."""

from __future__ import annotations

from pathlib import Path

from surestart.checkpoint.snapshot import read_checkpoint
from surestart.declaration import SourceDeclaration
from surestart.diagnosis.ask_kafka import ask_kafka, read_offsets
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Severity
from surestart.sources.kafka import KafkaSource
from tests.diagnosis.stage_values import NOW, write_checkpoint


def test_an_unreachable_cluster_is_cannot_tell(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "ck", planned=1, committed=1, offset='{"orders":{"0":5,"1":7}}')
    checkpoint = read_checkpoint(str(folder))

    found = ask_kafka(
        KafkaSource("127.0.0.1:1", "orders"),
        SourceDeclaration("kafka", "orders"),
        checkpoint,
        Commands("ingest"),
        now=NOW,
        timeout_seconds=1,
    )

    assert [finding.severity for finding in found] == [Severity.CANNOT_TELL]
    assert read_offsets(checkpoint, "orders") == {0: 5, 1: 7}
    assert read_offsets(checkpoint, "another") == {}
