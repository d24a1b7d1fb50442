"""An Iceberg table as adoption finds it: which streaming queries its snapshots name.

A source's position names the snapshot that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from surestart.facts.checkpoint.log_file import FormatError
from surestart.facts.evidence.iceberg_sink import Snapshot, read_iceberg_metadata
from surestart.facts.storage.storage import Storage
from surestart.streams.adopt.found import FoundTable, Writer


def read_iceberg(location: str, storage: Storage) -> FoundTable:
    """Raises OSError; a file that is not Iceberg's is a problem of the table."""
    try:
        metadata = read_iceberg_metadata(storage)
    except FormatError as error:
        return FoundTable(location, "iceberg", problem=error.detail)
    if metadata is None:
        return FoundTable(location, "iceberg", problem="its metadata folder has no numbered metadata file")
    snapshots = tuple(metadata.snapshots.values())
    return FoundTable(
        location=location,
        kind="iceberg",
        id=metadata.table_id,
        ids=frozenset({metadata.table_id} - {""}),
        snapshots=frozenset(metadata.snapshots),
        writers={writer.app_id: writer for writer in _writers(snapshots)},
        unsigned=tuple(
            index
            for index, one in enumerate(snapshots)
            if not one.query and one.summary.get("operation") in ("append", "overwrite")
        ),
    )


def _writers(snapshots: Sequence[Snapshot]) -> Iterator[Writer]:
    named: dict[str, list[tuple[int, int, int | None]]] = {}
    for index, one in enumerate(snapshots):
        if one.query and one.epoch is not None:
            named.setdefault(one.query, []).append((index, one.epoch, one.timestamp))
    for query, found in named.items():
        yield Writer(
            app_id=query,
            query_id=query.lower(),
            last_batch=max(epoch for _, epoch, _ in found),
            last_time=found[-1][2],
            first=found[0][0],
            last=found[-1][0],
        )
