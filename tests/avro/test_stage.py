"""sensor-deserialize on Avro: two writers' schemas and broken records through the real stages, into the two tables."""

from __future__ import annotations

import json
import pickle
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import RAW_COLUMNS
from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import CannotTell, UsageError
from surestart.runs.runner import run_stage
from surestart.stage import BatchContext
from tests.avro.avro_bytes import confluent, encode, record

CANARY = "canary-r3gistry"

FIRST = record(
    "Reading",
    {"name": "sensor_id", "type": "string"},
    {"name": "reading_time", "type": "string"},
    {"name": "revision", "type": "int"},
    {"name": "temperature", "type": "float"},
    {"name": "humidity", "type": "double"},
    {"name": "battery", "type": "double"},
)
# A later writer: other order, a field more, and one that the reader does not know.
SECOND = record(
    "Reading",
    {"name": "room", "type": "string"},
    *reversed(FIRST["fields"]),
    {"name": "altitude", "type": "double"},
)


def reading(sensor: str, **more: Any) -> dict[str, Any]:
    values = {"reading_time": "2026-01-01T00:00:00Z", "revision": 0, "temperature": 20.5, "humidity": 40.0}
    return {"sensor_id": sensor, **values, "battery": 99.0, "room": "room-1", "altitude": 3.0, **more}


def put_raw(spark: Any, environment: Environment, payloads: list[bytes | None]) -> None:
    rows = [(payload, None, None, "sensor", 0, offset, None, None) for offset, payload in enumerate(payloads)]
    spark.createDataFrame(rows, RAW_COLUMNS).write.format("delta").mode("append").save(
        environment.table("sensor_raw").path
    )


def tables(spark: Any, environment: Environment) -> tuple[Counter[Any], dict[int, str]]:
    good = spark.read.format("delta").load(environment.table("sensor_readings_deserialized").path)
    bad = spark.read.format("delta").load(environment.table("sensor_quarantine").path)
    accepted = Counter((row.offset, row.sensor_id, row.room, row.temperature) for row in good.collect())
    return accepted, {row.offset: row.reason for row in bad.collect()}


def test_each_record_of_two_schemas_is_a_reading_or_has_its_reason(
    spark: Any, environment: Environment, registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register(7, FIRST)
    registry.register(8, SECOND)
    # On Spark Connect these variables are not where the batch runs.
    registry.protect("sensor", CANARY)
    monkeypatch.setenv("SURESTART_REGISTRY_USERNAME", "sensor")
    monkeypatch.setenv("SURESTART_REGISTRY_PASSWORD", CANARY)
    whole = confluent(7, encode(FIRST, reading("sensor-1")))
    put_raw(
        spark,
        environment,
        [
            whole,
            confluent(8, encode(SECOND, reading("sensor-2"))),
            confluent(99, encode(FIRST, reading("sensor-3"))),
            b"\x01" + whole[1:],
            whole[:-3],
            confluent(7, encode(FIRST, reading("sensor-4", temperature=900.0))),
            b"",
            None,
        ],
    )
    settings = {"format": "confluent", "registry": registry.url}

    run_stage(spark, environment, build_stages(settings)[1])

    accepted, reasons = tables(spark, environment)
    assert accepted == {(0, "sensor-1", None, 20.5): 1, (1, "sensor-2", "room-1", 20.5): 1}
    assert sorted(reasons) == [2, 3, 4, 5, 6, 7]
    assert "99" in reasons[2]
    assert "magic" in reasons[3]
    assert reasons[5] == "range: temperature"


def test_the_credentials_of_a_registry_are_read_where_the_run_starts(
    spark: Any, environment: Environment, registry: Any, tmp_path: Path
) -> None:
    registry.register(7, FIRST)
    registry.protect("sensor", CANARY)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    put_raw(spark, environment, [confluent(7, encode(FIRST, reading("sensor-1")))])
    stage = build_stages({"format": "confluent", "registry": registry.url})[1]
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("SURESTART_REGISTRY_USERNAME", "sensor")
        variables.setenv("SURESTART_REGISTRY_PASSWORD", CANARY)
        stage.sink.prepare(spark, environment)
        writer = stage.sink.batch_writer(BatchContext(environment, stage.name, "sensor-deserialize", str(checkpoint)))

    # As on Spark Connect: pickled here, run in a process that has neither variables nor secret scopes of this one.
    elsewhere = pickle.loads(pickle.dumps(writer))
    elsewhere(stage.transform(stage.source.read_batch(spark, environment)), 0)

    accepted, reasons = tables(spark, environment)
    assert (accepted, reasons) == ({(0, "sensor-1", None, 20.5): 1}, {})
    assert CANARY not in repr(writer) + repr(stage)


def test_a_registry_that_refuses_stops_the_run_before_a_batch_is_planned(
    spark: Any, environment: Environment, registry: Any
) -> None:
    registry.register(7, FIRST)
    registry.protect("sensor", CANARY)
    put_raw(spark, environment, [confluent(7, encode(FIRST, reading("sensor-1")))])

    with pytest.raises(CannotTell, match="did not answer /subjects: HTTP 401") as refused:
        run_stage(spark, environment, build_stages({"format": "confluent", "registry": registry.url})[1])

    assert refused.value.code == "RegistryOutOfReach"
    assert not (Path(environment.checkpoint("deserialize")) / "offsets").exists()


def test_a_fixed_schema_needs_no_registry(spark: Any, environment: Environment, tmp_path: Any) -> None:
    (tmp_path / "reading.avsc").write_text(json.dumps(FIRST))
    put_raw(spark, environment, [encode(FIRST, reading("sensor-1")), b"{}"])
    settings = {"format": "avro", "avro_schema": str(tmp_path / "reading.avsc")}

    run_stage(spark, environment, build_stages(settings)[1])

    accepted, reasons = tables(spark, environment)
    assert accepted == {(0, "sensor-1", None, 20.5): 1}
    assert list(reasons) == [1]


@pytest.mark.parametrize("settings", [{"format": "xml"}, {"format": "avro"}, {"format": "confluent"}])
def test_a_format_without_what_it_needs_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        build_stages(settings)
