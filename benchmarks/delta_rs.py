"""The honest outside peer: the three hops as a Python loop on delta-rs.

    python -m benchmarks.delta_rs ROOT LANDING [--one-file]

One core, no JVM, no checkpoint: each commit carries the transaction (application, batch), which a loop would ask for
 at its start. --one-file makes a batch of each file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sensor_pipeline.count import judge

RAW = pa.schema([("payload", pa.binary()), ("source", pa.string()), ("offset", pa.int64())])
READING = pa.schema(
    [
        ("sensor_id", pa.string()),
        ("reading_time", pa.timestamp("us", tz="UTC")),
        ("revision", pa.int32()),
        ("temperature", pa.float64()),
        ("humidity", pa.float64()),
        ("battery", pa.float64()),
        ("source", pa.string()),
        ("offset", pa.int64()),
    ]
)
BAD = pa.schema([("payload", pa.binary()), ("source", pa.string()), ("offset", pa.int64())])


def read_batches(landing: Path, files_per_batch: int) -> Iterator[list[tuple[bytes, str, int]]]:
    files = sorted(landing.glob("*.jsonl"))
    for first in range(0, len(files), files_per_batch):
        batch = []
        for path in files[first : first + files_per_batch]:
            lines = path.read_bytes().split(b"\n")
            if lines[-1] == b"":
                lines.pop()
            batch += [(line, str(path), number) for number, line in enumerate(lines)]
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("landing", type=Path)
    parser.add_argument("--one-file", action="store_true")
    args = parser.parse_args()
    tables = {
        name: DeltaTable.create(f"{args.root}/{name}", schema)
        for name, schema in (("raw", RAW), ("silver", READING), ("quarantine", BAD), ("gold", READING))
    }
    for number, batch in enumerate(read_batches(args.landing, 1 if args.one_file else 40)):
        began = time.monotonic()
        mark = CommitProperties(app_transactions=[Transaction("delta-rs-loop", number)])
        _append(f"{args.root}/raw", RAW, batch, mark)
        raw_done = time.monotonic()
        good, bad = [], []
        for line, source, offset in batch:
            reading = judge(line)
            if reading is None:
                bad.append((line, source, offset))
            else:
                good.append((*reading, source, offset))
        _append(f"{args.root}/silver", READING, good, mark)
        _append(f"{args.root}/quarantine", BAD, bad, mark)
        best: dict[tuple[Any, Any], tuple[Any, ...]] = {}
        for row in good:
            held = best.get(row[:2])
            if held is None or (row[2], row[6], row[7]) > (held[2], held[6], held[7]):
                best[row[:2]] = row
        merge_began = time.monotonic()
        tables["gold"].update_incremental()
        if best:
            low, high = min(row[1] for row in best.values()), max(row[1] for row in best.values())
            window = " AND ".join(
                f"t.reading_time {sign} TIMESTAMP '{time:%Y-%m-%dT%H:%M:%SZ}'"
                for sign, time in ((">=", low), ("<=", high))
            )
            (
                tables["gold"]
                .merge(
                    _table(READING, list(best.values())),
                    f"t.sensor_id = s.sensor_id AND t.reading_time = s.reading_time AND {window}",
                    source_alias="s",
                    target_alias="t",
                    commit_properties=mark,
                )
                .when_matched_update_all("s.revision > t.revision")
                .when_not_matched_insert_all()
                .execute()
            )
        ended = time.monotonic()
        if args.one_file:
            for stage, seconds in (("raw", raw_done - began), ("gold", ended - merge_began)):
                line = {"stage": stage, "batch": number, "rows": len(batch), "seconds": seconds}
                sys.stdout.write(json.dumps(line) + "\n")


def _append(path: str, schema: pa.Schema, rows: list[tuple[Any, ...]], mark: CommitProperties) -> None:
    if rows:
        write_deltalake(path, _table(schema, rows), mode="append", commit_properties=mark)


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)], schema=schema)


if __name__ == "__main__":
    main()
