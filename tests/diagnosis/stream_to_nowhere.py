"""Streams whose rows nobody keeps: what counts is whether the query starts."""

from __future__ import annotations

from typing import Any

from tests.diagnosis.stream_damages import DELETED, HEALTHY, IN_FLIGHT, REWOUND
from tests.diagnosis.stream_kinds import now, read
from tests.diagnosis.stream_lab import END, Folder, Kind, Rows, numbers


def nowhere(format: str) -> Kind:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        writer = now(read(spark, folder, files).writeStream.format(format), folder)
        name = folder.root.name.replace("-", "_")
        return (writer.queryName(name) if format == "memory" else writer).start()

    def named(folder: Folder) -> tuple[str, ...]:
        return (f"{format}:rows",)

    def rows(folder: Folder) -> Rows:
        return numbers(range(END + 1))

    return Kind(format, start, named, named, rows, numbers)


CONSOLE, NOOP, MEMORY = (nowhere(format) for format in ("console", "noop", "memory"))
NOWHERE_CASES = [(kind, damage) for kind in (CONSOLE, NOOP) for damage in (HEALTHY, IN_FLIGHT, DELETED, REWOUND)]
