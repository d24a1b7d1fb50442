"""A storage root of somebody's forty projects, made in plain Python, with the truth of who writes where beside it.

Two hundred checkpoints and a hundred and fifty tables: streams of their own, shared tables, tables of queries that are
gone, foreign tables, copies, folders in folders, links in circles, names that no person would choose.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.deltalog.handmade import Action, add, create, info, txn, write_commit
from tests.diagnosis.stage_values import write_checkpoint

HOSTILE = (
    'a "quoted" one',
    "it's",
    "line\nbreak",
    "tab\tand # comment",
    "back\\slash",
    "]stream.x[",
    "= ?",
    "\u202eright-to-left",
    "umlaut-\u00fc-\U0001f600",
    "spaces   in  it",
    "a.b.c",
    "100% {x} $HOME `id`",
    "all",
    "-o",
    "\x7f\x1b[31m",
    "0123",
)


@dataclass
class Lake:
    """root: where all of it lies. sinks: checkpoint -> the tables that it writes, one that is a question -> none.
    shared: tables whose writers took turns. sources: checkpoint -> (kind, subject) of its only source.
    gone: table -> query ids whose checkpoint is nowhere. numbers: how many folders of each kind were made."""

    root: Path
    random: random.Random
    sinks: dict[str, set[str]] = field(default_factory=dict)
    shared: set[tuple[str, str]] = field(default_factory=set)
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    gone: dict[str, set[str]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    not_carried: set[str] = field(default_factory=set)

    def query_id(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def table(self, name: str, table_id: str = "") -> str:
        path = self.root / name
        table_id = table_id or self.query_id()
        write_commit(path, 0, *create(table_id=table_id))
        self.tables[str(path)] = table_id
        self.versions[str(path)] = 1
        return str(path)

    def commit(self, table: str, *actions: Action) -> None:
        version = self.versions[table]
        write_commit(Path(table), version, *actions, add(f"part-{version}.parquet"))
        self.versions[table] = version + 1

    def batch(self, table: str, query_id: str, number: int, way: str = "built-in", step: str = "") -> None:
        app_id = f"{query_id}:{step}" if step else query_id
        if way == "built-in":
            said = {"queryId": query_id, "epochId": str(number), "outputMode": "Append"}
            self.commit(table, info("STREAMING UPDATE", operationParameters=said), txn(app_id, number))
        elif way == "anonymous":
            self.commit(table, info("WRITE", operationParameters={"mode": "Append"}))
        elif way == "noted":
            note = {"query": "q", "query_id": query_id, "batch_id": number, "stage": "s", "step": step}
            self.commit(table, info("MERGE", userMetadata=json.dumps({"surestart": note})))
        else:
            self.commit(table, info(way), txn(app_id, number))

    def checkpoint(
        self, name: str, last: int, *, source: str = "", query_id: str = "", sinks: set[str] | None = None
    ) -> tuple[str, str]:
        """The folder and its query id."""
        path = self.root / name
        query_id = query_id or self.query_id()
        kind = source or self.random.choice(("kafka", "delta", "files"))
        offset, told = self.source(path, kind, last)
        write_checkpoint(path, planned=last, committed=last, query_id=query_id, offset=offset)
        if kind == "files":
            self.list_files(path, Path(told[1]), last)
        self.sinks[str(path)] = sinks or set()
        self.sources[str(path)] = told
        return str(path), query_id

    def source(self, path: Path, kind: str, last: int) -> tuple[str, tuple[str, str]]:
        if kind == "kafka":
            topic = f"topic-{self.random.randrange(10**6)}"
            return json.dumps({topic: {"0": last}}), ("kafka", topic)
        if kind == "files":
            return json.dumps({"logOffset": last}), ("files", str(self.root / "landing" / f"in-{len(self.sources)}"))
        table, table_id = self.random.choice(list(self.tables.items()))
        position = {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": 1, "index": -1}
        return json.dumps({**position, "isStartingVersion": False}), ("delta", table)

    def list_files(self, path: Path, folder: Path, last: int) -> None:
        listed = path / "sources" / "0"
        listed.mkdir(parents=True)
        for batch in range(last + 1):
            # By days: the folder above them is what the stream reads.
            file = folder / f"day={batch}" / "rows.json"
            (listed / str(batch)).write_text(
                "v1\n" + json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": batch})
            )

    def stream(self, name: str, table: str, way: str = "built-in", last: int = 3, step: str = "") -> str:
        path, query_id = self.checkpoint(name, last, sinks={table})
        for number in range(last + 1):
            self.batch(table, query_id, number, way, step)
        return path


def make_lake(root: Path, seed: int = 20) -> Lake:
    lake = Lake(root, random.Random(seed))
    base = lake.table("tables/base")
    lake.commit(base, info("WRITE"))
    _own_streams(lake)
    _shared_tables(lake)
    _several_sinks(lake)
    _without_a_table(lake)
    _gone_and_foreign(lake)
    _copies(lake)
    _other_formats(lake)
    _hostile(lake)
    _decoys_and_links(lake)
    return lake


def _own_streams(lake: Lake) -> None:
    for number in range(78):
        way = ("built-in", "WRITE", "MERGE", "noted")[number % 4]
        place = ("chk/{}", "chk/team-{}/checkpoint", "projects/p{}/_checkpoints/main", "tables/own-{}/_checkpoints/q")
        table = lake.table(f"tables/own-{number}")
        step = "second" if number % 8 == 1 else ""
        lake.stream(place[number % 4].format(number), table, way, last=lake.random.randrange(1, 6), step=step)
    # A table in a folder of a table, a checkpoint in a folder of a checkpoint.
    inner = lake.table("tables/own-1/nested/inner")
    outer = lake.stream("chk/outer", lake.table("tables/outer"))
    lake.stream(f"{Path(outer).relative_to(lake.root)}/inner/deep", inner)
    # Its old commits are cleaned up: the log's own checkpoint remembers the writer.
    cleaned = lake.table("tables/cleaned")
    lake.stream("chk/cleaned", cleaned, last=4)
    _clean_up(Path(cleaned), lake.versions[cleaned] - 1)


def _clean_up(table: Path, last: int) -> None:
    """A checkpoint of the new kind, in JSON, and no commit before it."""
    log = table / "_delta_log"
    actions = [json.loads(line) for version in range(last + 1) for line in (log / f"{version:020d}.json").open()]
    kept = [one for one in actions if "commitInfo" not in one]
    lines = [{"checkpointMetadata": {"version": last}}, *kept]
    name = f"{last:020d}.checkpoint.{uuid.UUID(int=last)}.json"
    (log / name).write_text("".join(json.dumps(one) + "\n" for one in lines))
    for version in range(last + 1):
        (log / f"{version:020d}.json").unlink()


def _shared_tables(lake: Lake) -> None:
    for number in range(10):
        table = lake.table(f"tables/shared-{number}")
        (one, a), (other, b) = (lake.checkpoint(f"chk/{who}-{number}", 3, sinks={table}) for who in ("left", "right"))
        for batch in range(4):
            for query_id in (a, b):
                lake.batch(table, query_id, batch)
        lake.shared |= {(one, table), (other, table)}
    for number in range(6):
        table = lake.table(f"tables/renewed-{number}")
        lake.stream(f"chk/renewed-{number}-v1", table)
        lake.stream(f"chk/renewed-{number}-v2", table)
    for number in range(4):
        table = lake.table(f"tables/batch-too-{number}")
        path, query_id = lake.checkpoint(f"chk/batch-too-{number}", 3, sinks={table})
        for batch in range(4):
            lake.batch(table, query_id, batch, "built-in" if number % 2 else "WRITE")
            lake.batch(table, "", batch, "anonymous")
        if number % 2:
            lake.shared.add((path, table))


def _several_sinks(lake: Lake) -> None:
    for number in range(6):
        good, bad = lake.table(f"tables/good-{number}"), lake.table(f"tables/bad-{number}")
        _, query_id = lake.checkpoint(f"chk/split-{number}", 3, sinks={good, bad})
        for batch in range(4):
            lake.batch(good, query_id, batch, "WRITE")
            lake.batch(bad, query_id, batch, "WRITE", "quarantine")


def _without_a_table(lake: Lake) -> None:
    for number in range(14):
        lake.checkpoint(f"chk/to-kafka-{number}", number, source="kafka")
    # Writes without the pair, in the times of its batches: nothing names it.
    for number in range(8):
        table = lake.table(f"tables/unsigned-{number}")
        lake.checkpoint(f"chk/unsigned-{number}", 3, source="kafka")
        for batch in range(4):
            lake.batch(table, "", batch, "anonymous")


def _gone_and_foreign(lake: Lake) -> None:
    for number in range(8):
        table, query_id = lake.table(f"tables/gone-{number}"), lake.query_id()
        for batch in range(3):
            lake.batch(table, query_id, batch)
        lake.gone[table] = {query_id}
    # Its checkpoint was deleted and begun anew: two ids, of which one is here.
    for number in range(4):
        table, former = lake.table(f"tables/begun-anew-{number}"), lake.query_id()
        for batch in range(3):
            lake.batch(table, former, batch)
        lake.stream(f"chk/begun-anew-{number}", table)
        lake.gone[table] = {former}
    for number in range(6):
        table = lake.table(f"tables/foreign-{number}")
        lake.commit(table, info("WRITE", operationParameters={"mode": "Append"}))
        if number % 2:
            lake.commit(table, info("WRITE"), txn("nightly", 7))
    # Ids that are nearly those of a checkpoint, and texts that only speak of one.
    for number in range(5):
        table = lake.table(f"tables/nearly-{number}")
        _, query_id = lake.checkpoint(f"chk/nearly-{number}", 3, source="kafka")
        other = query_id[:-1] + ("0" if query_id[-1] != "0" else "1")
        near = (other, query_id[:-1], f"{query_id}0", query_id[1:], f"0{query_id}")[number]
        lake.commit(table, info("WRITE"), txn(near, 3))
        lake.commit(table, info("WRITE", userMetadata=f"copied from {query_id}", engineInfo=query_id))
        if number == 0:
            lake.gone[table] = {other}


def _copies(lake: Lake) -> None:
    for number in range(3):
        # As far as each other: which one is the stream's own, nothing shows.
        table = lake.table(f"tables/copied-{number}")
        path, query_id = lake.checkpoint(f"chk/copied-{number}", 3, source="kafka")
        _, _ = lake.checkpoint(f"backup/copied-{number}", 3, source="kafka", query_id=query_id)
        for batch in range(4):
            lake.batch(table, query_id, batch)
        lake.sinks[path] = set()
    for number in range(3):
        # A backup from the day before cannot have written the newest batch.
        table = lake.table(f"tables/backed-up-{number}")
        _, query_id = lake.checkpoint(f"chk/backed-up-{number}", 5, sinks={table})
        lake.checkpoint(f"backup/backed-up-{number}", 2, source="kafka", query_id=query_id)
        for batch in range(6):
            lake.batch(table, query_id, batch)
    for number in range(3):
        # The table was copied with its log.
        table_id = lake.query_id()
        one = lake.table(f"tables/twin-{number}", table_id)
        other = lake.table(f"backup/twin-{number}", table_id)
        _, query_id = lake.checkpoint(f"chk/twin-{number}", 3, source="kafka")
        for table in (one, other):
            for batch in range(4):
                lake.batch(table, query_id, batch)
            lake.tables.pop(table)


def _other_formats(lake: Lake) -> None:
    for number in range(6):
        folder = lake.root / f"tables/files-{number}"
        (folder / "_spark_metadata").mkdir(parents=True)
        for batch in range(4):
            (folder / "_spark_metadata" / str(batch)).write_text('v1\n{"path":"x.parquet","size":1}')
        lake.checkpoint(f"chk/files-{number}", 3, source="kafka")
    for number in range(5):
        table = lake.root / f"tables/ice-{number}"
        (table / "metadata").mkdir(parents=True)
        (table / "data").mkdir()
        _, query_id = lake.checkpoint(f"chk/ice-{number}", 3, sinks={str(table)})
        snapshots = [
            {
                "snapshot-id": lake.random.getrandbits(62),
                "timestamp-ms": 1_700_000_000_000 + batch,
                "summary": {
                    "operation": "append",
                    "spark.sql.streaming.queryId": query_id,
                    "spark.sql.streaming.epochId": str(batch),
                },
            }
            for batch in range(4)
        ]
        body = {"format-version": 2, "table-uuid": lake.query_id(), "snapshots": snapshots}
        for version, last in ((1, 1), (2, 4)):
            text = json.dumps({**body, "snapshots": snapshots[:last]})
            (table / "metadata" / f"{version:05d}-{uuid.UUID(int=version)}.metadata.json").write_text(text)


def _hostile(lake: Lake) -> None:
    for number, name in enumerate(HOSTILE):
        lake.stream(f"hostile/{name}", lake.table(f"hostile tables/{name}-{number}"))
    # The same last folder many times.
    for number in range(6):
        lake.stream(f"projects/x{number}/orders", lake.table(f"projects/x{number}/table"))
    no_text = os.fsdecode(b"hostile/no-text-\xff\xfe")
    table = lake.table("tables/of-no-text")
    lake.not_carried.add(lake.stream(no_text, table))


def _decoys_and_links(lake: Lake) -> None:
    decoys = lake.root / "decoys"
    for name in ("dist-info", "empty-offsets/offsets", "docs/state", "docs/sources", "logs/_delta_log_old"):
        (decoys / name).mkdir(parents=True)
    (decoys / "dist-info" / "metadata").write_text("Name: x\nVersion: 1\n")
    (decoys / "_delta_log").write_text("a file of that name")
    (decoys / "loop").symlink_to(lake.root)
    (decoys / "again").symlink_to(lake.root / "chk")
    (decoys / "nowhere").symlink_to(lake.root / "nothing")
    outside = lake.root.parent / "outside"
    outside.mkdir(exist_ok=True)
    (decoys / "out").symlink_to(outside)
    retired = lake.root / "chk" / "_retired" / "q" / "0123"
    write_checkpoint(retired, planned=1, committed=1, query_id=lake.query_id())
