"""An Iceberg table's own metadata file: which streaming queries its snapshots name.

    metadata/00012-<uuid>.metadata.json  or  metadata/v12.metadata.json
    {"table-uuid": …, "snapshots": [{"snapshot-id": 7, "timestamp-ms": …,
        "summary": {"spark.sql.streaming.queryId": …, "spark.sql.streaming.epochId": "41"}}]}

A source's position names the snapshot that it reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from surestart.facts.delta.actions import integer
from surestart.facts.storage.storage import FILE, Storage
from surestart.streams.adopt.found import FoundTable, Writer

# A thousand snapshots of a wide table are some MB.
LIMIT = 64 << 20
_NAME = re.compile(r"(?:v(\d{1,9})|(\d{1,9})-[0-9a-fA-F-]{8,64})\.metadata\.json")
_QUERY, _EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


def read_iceberg(location: str, storage: Storage) -> FoundTable:
    """Raises OSError; a file that is not Iceberg's is a problem of the table."""
    numbered = {_number(entry.name): entry.name for entry in storage.list_folder("metadata") if entry.kind == FILE}
    numbered.pop(-1, None)
    if not numbered:
        return FoundTable(location, "iceberg", problem="its metadata folder has no numbered metadata file")
    name = numbered[max(numbered)]
    data = storage.read_file(f"metadata/{name}", LIMIT + 1)
    try:
        if len(data) > LIMIT:
            raise ValueError(f"more than {LIMIT >> 20} MB")
        body = json.loads(data)
        snapshots = [one for one in body.get("snapshots") or [] if isinstance(one, dict)]
        uuid = str(body.get("table-uuid", ""))
    except (ValueError, AttributeError, RecursionError) as error:
        return FoundTable(location, "iceberg", problem=f"metadata/{name} is not Iceberg's: {type(error).__name__}")
    return FoundTable(
        location=location,
        kind="iceberg",
        id=uuid,
        ids=frozenset({uuid} - {""}),
        snapshots=frozenset(number for one in snapshots if (number := integer(one.get("snapshot-id"))) is not None),
        writers={writer.app_id: writer for writer in _writers(snapshots)},
        unsigned=tuple(
            index for index, one in enumerate(snapshots) if not _summary(one).get(_QUERY) and _adds(_summary(one))
        ),
    )


def _writers(snapshots: list[dict[str, Any]]) -> Iterator[Writer]:
    named: dict[str, list[tuple[int, int, int | None]]] = {}
    for index, one in enumerate(snapshots):
        summary = _summary(one)
        query, epoch = summary.get(_QUERY), integer(summary.get(_EPOCH))
        if isinstance(query, str) and query and epoch is not None:
            named.setdefault(query, []).append((index, epoch, integer(one.get("timestamp-ms"))))
    for query, found in named.items():
        yield Writer(
            app_id=query,
            query_id=query.lower(),
            last_batch=max(epoch for _, epoch, _ in found),
            last_time=found[-1][2],
            first=found[0][0],
            last=found[-1][0],
        )


def _summary(snapshot: dict[str, Any]) -> dict[str, Any]:
    found = snapshot.get("summary")
    return found if isinstance(found, dict) else {}


def _adds(summary: dict[str, Any]) -> bool:
    return summary.get("operation") in ("append", "overwrite")


def _number(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found[1] or found[2]) if found else -1
