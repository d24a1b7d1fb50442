"""Near the physical limit: DuckDB reads the landed files, decodes, keeps the newest per key and writes Parquet.

    python -m benchmarks.duck ROOT LANDING

No raw copy, no quarantine, no transactions, no restart: what decoding and choosing alone cost on these cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

FIELDS = (
    "{sensor_id: 'VARCHAR', reading_time: 'VARCHAR', revision: 'JSON', "
    "temperature: 'JSON', humidity: 'JSON', battery: 'JSON'}"
)
FORM = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("landing")
    args = parser.parse_args()
    args.root.mkdir(parents=True, exist_ok=True)
    # The values stay JSON text until TRY_CAST, because one "warm" among the temperatures must not end the query.
    with duckdb.connect() as database:
        database.execute(
            f"""
            COPY (
                WITH message AS (
                    SELECT * FROM read_json('{args.landing}/*.jsonl', format = 'newline_delimited', columns = {FIELDS},
                                            ignore_errors = true)
                ), reading AS (
                    SELECT sensor_id, TRY_CAST(reading_time AS TIMESTAMP) AS reading_time,
                        TRY_CAST(revision AS INTEGER) AS revision, TRY_CAST(temperature AS DOUBLE) AS temperature,
                        TRY_CAST(humidity AS DOUBLE) AS humidity, TRY_CAST(battery AS DOUBLE) AS battery
                    FROM message
                    WHERE regexp_full_match(reading_time, '{FORM}')
                )
                SELECT unnest(arg_max(reading, revision)) FROM reading
                WHERE sensor_id IS NOT NULL AND reading_time IS NOT NULL AND revision BETWEEN 0 AND 1000000
                    AND temperature BETWEEN -60 AND 120 AND humidity BETWEEN 0 AND 100 AND battery BETWEEN 0 AND 100
                GROUP BY sensor_id, reading_time
            ) TO '{args.root}/gold.parquet' (FORMAT parquet)
            """
        )


if __name__ == "__main__":
    main()
