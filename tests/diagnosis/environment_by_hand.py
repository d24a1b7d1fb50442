"""A local environment of the sensor pipeline as five batches leave it, written by hand: no Spark, a few milliseconds.

raw-ingest   files            -> sensor_raw
deserialize  sensor_raw       -> sensor_quarantine, sensor_readings_deserialized
merge-gold   …_deserialized   -> sensor_gold
"""

from __future__ import annotations

import json
from pathlib import Path

from surestart.facts.delta import CommitMark
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.diagnosis.stage_values import write_checkpoint
from tests.diagnosis.test_change_safety import CONFS

IDS = {
    "raw-ingest": "aaaaaaaa-0000-4000-8000-000000000001",
    "deserialize": "aaaaaaaa-0000-4000-8000-000000000002",
    "merge-gold": "aaaaaaaa-0000-4000-8000-000000000003",
}
TABLES = {
    "sensor_raw": "raw-ingest",
    "sensor_quarantine": "deserialize",
    "sensor_readings_deserialized": "deserialize",
    "sensor_gold": "merge-gold",
}
SOURCES = {"deserialize": "sensor_raw", "merge-gold": "sensor_readings_deserialized"}


def lay_out(root: Path, batches: int = 5) -> Path:
    """Each stage has planned and committed batches 0..batches-1, and each table holds them."""
    for name, stage in TABLES.items():
        write_commit(table(root, name), 0, *create(table_id=f"id-{name}"))
        for batch in range(batches):
            write_batch(root, name, batch, IDS[stage])
    landing = root / "landing"
    landing.mkdir(parents=True)
    for stage, query_id in IDS.items():
        offset = json.dumps({"logOffset": batches - 1})
        if stage in SOURCES:
            position = {"sourceVersion": 1, "reservoirId": f"id-{SOURCES[stage]}", "reservoirVersion": batches + 1}
            offset = json.dumps({**position, "index": -1, "isStartingVersion": False})
        last = batches - 1
        write_checkpoint(
            checkpoint(root, stage), planned=last, committed=last, query_id=query_id, offset=offset, confs=CONFS
        )
    listed = checkpoint(root, "raw-ingest") / "sources" / "0"
    listed.mkdir(parents=True)
    for batch in range(batches):
        path = landing / f"part-{batch}.jsonl"
        path.write_text("{}\n")
        (listed / str(batch)).write_text(f"v1\n{json.dumps({'path': path.as_uri(), 'timestamp': 1, 'batchId': batch})}")
    return root


def table(root: Path, name: str) -> Path:
    return root / "tables" / name


def checkpoint(root: Path, stage: str) -> Path:
    return root / "checkpoints" / f"sensor-{stage}"


def write_batch(root: Path, name: str, batch: int, query_id: str) -> None:
    stage = TABLES[name]
    mark = CommitMark(f"sensor-{stage}", query_id, batch, stage)
    note = info("WRITE", userMetadata=mark.as_json())
    path = table(root, name)
    version = len(list((path / "_delta_log").glob("*.json")))
    write_commit(path, version, note, txn(query_id, batch), add(f"part-{batch}.parquet"))
