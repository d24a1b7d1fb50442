"""What happens to a stopped stream: crashes, hands, copies and remedies out of forums; and what is no damage at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.diagnosis.restart_lab import remove, write
from tests.diagnosis.stream_kinds import (
    AGGREGATE,
    APPEND,
    CONSTANT,
    DEDUP,
    FUNCTION,
    INSERT_NEW,
    JOIN,
    KINDS,
    MERGE,
    MERGE_PAIR,
    PANDAS,
    PARQUET,
    TWO_SINKS,
    TWO_WRITERS,
    another_writer,
)
from tests.diagnosis.stream_lab import LAST, Damage, Folder, Kind


def drop(folder: Path, *names: str) -> None:
    remove(*(folder / name for name in names))


def nothing(spark: Any, folder: Folder) -> None: ...


def killed_after_the_sink(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, f"commits/{LAST}")


def killed_before_the_sink(spark: Any, folder: Folder) -> None:
    killed_after_the_sink(spark, folder)
    for table in (folder.out, folder.out2):
        take_back_the_newest(table)


def killed_between_two_sinks(spark: Any, folder: Folder) -> None:
    killed_after_the_sink(spark, folder)
    take_back_the_newest(folder.out2)


def take_back_the_newest(table: Path) -> None:
    """As if the last commit had never been made; its files are orphans then, as after a crash."""
    if (table / "_delta_log").exists():
        newest = max(path for path in (table / "_delta_log").glob("*.json") if path.name[0] != ".")
        remove(newest)
        if newest.with_suffix(".crc").exists():
            remove(newest.with_suffix(".crc"))
    elif (table / "_spark_metadata").exists():
        drop(table, f"_spark_metadata/{LAST}")


def checkpoint_deleted(spark: Any, folder: Folder) -> None:
    shutil.rmtree(folder.checkpoint)


def rewound(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in (LAST - 1, LAST)))


def commits_truncated(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, *(f"commits/{batch}" for batch in range(LAST - 2, LAST + 1)))


def logs_deleted(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, "offsets", "commits")


def metadata_gone(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, "metadata")


def metadata_gone_in_flight(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, "metadata", f"commits/{LAST}")


def metadata_gone_unwritten(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, "metadata")
    killed_before_the_sink(spark, folder)


def backup_put_back(spark: Any, folder: Folder) -> None:
    query = (folder.checkpoint / "metadata").read_bytes()
    shutil.rmtree(folder.checkpoint)
    shutil.copytree(folder.root / "early", folder.checkpoint)
    write(folder.checkpoint / "metadata", query)


def table_restored(spark: Any, folder: Folder) -> None:
    newest = max(int(path.stem) for path in (folder.out / "_delta_log").glob("0*.json"))
    spark.sql(f"RESTORE TABLE delta.`{folder.out}` TO VERSION AS OF {newest - 2}")


def restored_in_flight(spark: Any, folder: Folder) -> None:
    table_restored(spark, folder)
    killed_after_the_sink(spark, folder)


def table_emptied(spark: Any, folder: Folder) -> None:
    spark.sql(f"DELETE FROM delta.`{folder.out}`")


def table_deleted(spark: Any, folder: Folder) -> None:
    shutil.rmtree(folder.out)


def table_made_anew(spark: Any, folder: Folder) -> None:
    columns = spark.read.format("delta").load(str(folder.out)).schema
    shutil.rmtree(folder.out)
    spark.createDataFrame([], columns).write.format("delta").save(str(folder.out))


def older_table_put_back(spark: Any, folder: Folder) -> None:
    take_back_the_newest(folder.out)
    take_back_the_newest(folder.out)


def file_log_deleted(spark: Any, folder: Folder) -> None:
    shutil.rmtree(folder.out / "_spark_metadata")


def state_deleted(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, "state")


def second_table_made_anew(spark: Any, folder: Folder) -> None:
    columns = spark.read.format("delta").load(str(folder.out2)).schema
    shutil.rmtree(folder.out2)
    spark.createDataFrame([], columns).write.format("delta").save(str(folder.out2))


def the_other_writes_on(spark: Any, folder: Folder) -> None:
    """Nothing has happened to ours; the other query has read three files more."""
    another_writer(spark, folder)


def new_into_a_shared_table(spark: Any, folder: Folder) -> None:
    """Ours has never run: the table holds rows of the other query only."""
    shutil.rmtree(folder.checkpoint)
    shutil.rmtree(folder.out)
    shutil.rmtree(folder.root / "theirs")
    another_writer(spark, folder)


HEALTHY = Damage("nothing", nothing, healthy=True)
IN_FLIGHT = Damage("killed after the sink", killed_after_the_sink)
UNWRITTEN = Damage("killed before the sink", killed_before_the_sink)
DELETED = Damage("checkpoint deleted", checkpoint_deleted)
REWOUND = Damage("offsets and commits rewound", rewound)
TRUNCATED = Damage("commits truncated", commits_truncated)
LOGS = Damage("offsets and commits deleted", logs_deleted)
NO_ID = Damage("metadata gone", metadata_gone)
NO_ID_IN_FLIGHT = Damage("metadata gone, in flight", metadata_gone_in_flight)
NO_ID_UNWRITTEN = Damage("metadata gone, not written", metadata_gone_unwritten)
BACKUP = Damage("an older checkpoint put back", backup_put_back)
RESTORED = Damage("table RESTOREd", table_restored)
RESTORED_IN_FLIGHT = Damage("table RESTOREd, in flight", restored_in_flight)
EMPTIED = Damage("rows deleted", table_emptied)
GONE = Damage("table deleted", table_deleted)
ANEW = Damage("table made anew", table_made_anew)
OLDER = Damage("an older table put back", older_table_put_back)

CASES: list[tuple[Kind, Damage]] = [
    *((kind, HEALTHY) for kind in KINDS),
    (TWO_WRITERS, Damage("the other writes on", the_other_writes_on, healthy=True)),
    (TWO_WRITERS, Damage("a new stream into a shared table", new_into_a_shared_table, healthy=True, said=("new",))),
    *(
        (APPEND, damage)
        for damage in (
            IN_FLIGHT, UNWRITTEN, DELETED, REWOUND, TRUNCATED, LOGS, NO_ID, NO_ID_IN_FLIGHT, NO_ID_UNWRITTEN, BACKUP,
            RESTORED, RESTORED_IN_FLIGHT, EMPTIED, GONE, ANEW, OLDER,
        )
    ),
    *((TWO_WRITERS, damage) for damage in (IN_FLIGHT, DELETED, REWOUND, NO_ID_IN_FLIGHT, EMPTIED)),
    *((MERGE, damage) for damage in (IN_FLIGHT, UNWRITTEN, DELETED, REWOUND, NO_ID_IN_FLIGHT, RESTORED, ANEW, BACKUP)),
    *((INSERT_NEW, damage) for damage in (IN_FLIGHT, DELETED, REWOUND)),
    *((MERGE_PAIR, damage) for damage in (IN_FLIGHT, DELETED, REWOUND, RESTORED)),
    *(
        (FUNCTION, damage)
        for damage in (IN_FLIGHT, UNWRITTEN, DELETED, REWOUND, NO_ID_IN_FLIGHT, RESTORED, ANEW, OLDER, BACKUP)
    ),
    *((CONSTANT, damage) for damage in (IN_FLIGHT, DELETED, REWOUND, NO_ID_IN_FLIGHT, RESTORED)),
    *(
        (PARQUET, damage)
        for damage in (
            IN_FLIGHT, UNWRITTEN, DELETED, REWOUND, NO_ID_IN_FLIGHT, GONE, Damage("its log deleted", file_log_deleted),
        )
    ),
    *((DEDUP, damage) for damage in (IN_FLIGHT, REWOUND, Damage("state deleted", state_deleted))),
    *((AGGREGATE, damage) for damage in (IN_FLIGHT, REWOUND, DELETED)),
    (JOIN, IN_FLIGHT),
    (PANDAS, IN_FLIGHT),
    (TWO_SINKS, Damage("killed between the two", killed_between_two_sinks)),
    (TWO_SINKS, UNWRITTEN),
    (TWO_SINKS, Damage("the second made anew", second_table_made_anew)),
]  # fmt: skip
KAFKA_DAMAGES = (HEALTHY, IN_FLIGHT, UNWRITTEN, DELETED, REWOUND)
# One of each mechanism, for `make test-all`.
FAST_KINDS = (APPEND, TWO_WRITERS, MERGE, FUNCTION, CONSTANT, PARQUET)
FAST_DAMAGES = {
    APPEND: (HEALTHY, NO_ID_UNWRITTEN, ANEW),
    TWO_WRITERS: (HEALTHY,),
    MERGE: (IN_FLIGHT, REWOUND),
    FUNCTION: (HEALTHY, IN_FLIGHT, UNWRITTEN, RESTORED),
    CONSTANT: (DELETED,),
    PARQUET: (NO_ID_IN_FLIGHT,),
}
FAST = [(kind, damage) for kind in FAST_KINDS for damage in FAST_DAMAGES[kind]]
