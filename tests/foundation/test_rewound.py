"""A table that is ahead of its checkpoint: each kind of sink stops its stage at the first batch that the table drops.

Removing the last files of offsets/ and commits/ is what a checkpoint restored from a backup looks like. Spark plans
other rows under the same batch ids, and Delta takes them for batches it has. The gate refuses such a start; here the
stages run without it.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.runs.runner import StageFailed, run_ungated
from surestart.sources.delta import DeltaSource
from surestart.stage import Stage
from tests.foundation.rows import land, whole_rows

BATCHES = 3


def stages() -> dict[str, Stage]:
    """Each writes a batch per landed file."""
    raw, deserialize, merge = build_stages({"max_files_per_trigger": "1"})
    by_file = (("maxFilesPerTrigger", "1"),)
    return {
        raw.name: raw,
        deserialize.name: replace(deserialize, source=DeltaSource("sensor_raw", by_file)),
        merge.name: replace(merge, source=DeltaSource("sensor_readings_deserialized", by_file)),
    }


def rewind(environment: Environment, stage: str, batches: int = 2) -> None:
    for log in ("offsets", "commits"):
        folder = Path(environment.checkpoint(stage)) / log
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
        assert numbers == list(range(BATCHES))
        for number in numbers[-batches:]:
            (folder / str(number)).unlink()
            (folder / f".{number}.crc").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def rewound(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Three batches stand in each table, and each checkpoint knows of the first."""
    root = tmp_path_factory.mktemp("rewound")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 60 * BATCHES, per_file=60)
    for stage in stages().values():
        assert run_ungated(spark, environment, stage).batches == BATCHES
    for name in stages():
        rewind(environment, name)
    return environment


@pytest.mark.long(instead="test_an_append_that_a_catalog_table_drops_stops_the_stage")
@pytest.mark.parametrize(
    ("stage", "code", "tables"),
    [
        ("raw-ingest", "BatchDropped", ["sensor_raw"]),
        ("deserialize", "BatchDropped", ["sensor_quarantine", "sensor_readings_deserialized"]),
        ("merge-gold", "SkippedBatch", ["sensor_gold"]),
    ],
)
def test_a_batch_that_its_table_drops_stops_the_stage(
    spark: Any, rewound: Environment, stage: str, code: str, tables: list[str]
) -> None:
    before = whole_rows(spark, rewound)

    with pytest.raises(StageFailed) as stopped:
        run_ungated(spark, rewound, stages()[stage])

    assert stopped.value.code == code
    assert "batch 1 of sensor-" in stopped.value.what
    assert [table for table in tables if rewound.table(table).path not in stopped.value.what] == []
    assert "surestart doctor" in str(stopped.value.next)
    assert whole_rows(spark, rewound) == before


@pytest.mark.long(instead="test_an_append_that_a_catalog_table_drops_stops_the_stage")
def test_a_batch_that_one_of_two_tables_drops_stops_the_stage(spark: Any, tmp_path: Path) -> None:
    """The quarantine table is new and takes the batch; the good rows are the ones that are lost."""
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    land(environment, 60 * BATCHES, per_file=60)
    raw, deserialize, _ = stages().values()
    run_ungated(spark, environment, raw)
    run_ungated(spark, environment, deserialize)
    rewind(environment, "deserialize")
    shutil.rmtree(environment.table("sensor_quarantine").path)

    with pytest.raises(StageFailed) as stopped:
        run_ungated(spark, environment, deserialize)

    assert stopped.value.code == "BatchDropped"
    assert environment.table("sensor_readings_deserialized").path in stopped.value.what
    assert environment.table("sensor_quarantine").path not in stopped.value.what


def test_an_append_that_a_catalog_table_drops_stops_the_stage(spark: Any, tmp_path: Path) -> None:
    """Its files are nobody's to read, so the sink itself asks the table's history, at the first new batch."""
    settings = {
        "catalog": "spark_catalog",
        "schema": "rewound",
        "checkpoint_root": str(tmp_path / "checkpoints"),
        "landing": str(tmp_path / "landing"),
        "root": "",
    }
    environment = environment_from_settings("local", "sensor", settings, environ={})
    assert environment.table("sensor_raw").path == ""
    land(replace(environment, root=str(tmp_path)), 60 * BATCHES, per_file=60)
    raw = stages()["raw-ingest"]
    spark.sql("CREATE SCHEMA IF NOT EXISTS rewound")
    try:
        assert run_ungated(spark, environment, raw).batches == BATCHES
        rewind(environment, "raw-ingest")

        with pytest.raises(StageFailed) as stopped:
            run_ungated(spark, environment, raw)

        assert stopped.value.code == "SkippedBatch"
        assert "sensor_raw dropped batch 1 of sensor-raw-ingest" in stopped.value.what
        assert spark.read.table(environment.table("sensor_raw").sql).count() == 60 * BATCHES
    finally:
        spark.sql("DROP SCHEMA rewound CASCADE")
