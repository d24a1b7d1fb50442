"""Avro on each line of Spark: one without a connector says so before a batch is planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.deserialize import READER
from sensor_pipeline.stages import build_stages
from surestart.avro.decode import refuse_without_avro
from surestart.environment import Environment
from surestart.errors import UsageError
from surestart.runs.runner import run_stage
from surestart.spark.spark_lines import installed_line


@pytest.mark.parametrize("kind", ["avro", "confluent"])
def test_a_line_without_a_connector_refuses_avro_and_nothing_else(
    spark: Any, environment: Environment, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "reading.avsc").write_text(READER, encoding="utf-8")
    where = {"avro": {"avro_schema": str(tmp_path / "reading.avsc")}, "confluent": {"registry": str(tmp_path)}}
    if installed_line().has_avro:
        refuse_without_avro(spark)
        return
    raw, deserialize, _ = build_stages({"format": kind, **where[kind]})
    Path(environment.landing).mkdir(parents=True)
    (Path(environment.landing) / "a.jsonl").write_text(json.dumps({"a": 1}) + "\n", encoding="utf-8")
    assert run_stage(spark, environment, raw).rows == 1
    with pytest.raises(UsageError, match="has no Avro connector here") as refused:
        run_stage(spark, environment, deserialize)
    assert refused.value.code == "AvroNotLoaded"
    assert not (Path(environment.checkpoint("deserialize")) / "offsets").exists()
