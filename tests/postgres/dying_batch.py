"""A process that writes one batch to the table `events` without Spark, to be killed at a fail point.

python dying_batch.py <batch id> <replayed: 0|1>      the URL stands in SURESTART_POSTGRES_URL
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgres.database import Database, append, arrow, readings  # noqa: E402

from surestart.failpoints import reach  # noqa: E402
from surestart.sinks.postgres_batch import write_batch  # noqa: E402
from surestart.sinks.postgres_copy import copy_batches  # noqa: E402

if __name__ == "__main__":
    batch_id, replayed = int(sys.argv[1]), sys.argv[2] == "1"
    what = append(Database(os.environ["SURESTART_POSTGRES_URL"]), batch_id, replayed=replayed)
    rows = readings(batch_id)
    parts = [arrow(rows[start : start + 100]) for start in range(0, len(rows), 100)]
    written = write_batch(
        what,
        lambda staging: (copy_batches(parts[:5], what.url, staging), copy_batches(parts[5:], what.url, staging)),
    )
    reach("postgres.before_spark_commit")
    print(written.skipped)
