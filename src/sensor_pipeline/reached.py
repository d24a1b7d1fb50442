"""How far each stage has read what it reads, by its checkpoint: what it has not read yet is pending and not lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from surestart import (
    READ_NOTHING,
    READ_UP_TO,
    ActiveFile,
    CannotTell,
    Environment,
    StageProgress,
    plain_path,
    progress_in_table,
    read_active_files,
    read_delta_log,
    read_listed_files,
)
from surestart.typed import surestart


@dataclass(frozen=True)
class TableFiles:
    """The files of one version of a table, and those of them that the stage below it has not read yet."""

    folder: Path
    label: str = ""
    files: tuple[ActiveFile, ...] = ()
    unread: frozenset[str] = frozenset()


def read_table_files(environment: Environment, name: str, below: StageProgress | None = None) -> TableFiles:
    """No files for a table that does not exist yet. below: how far the stage that reads the table has come. It has to
    be asked before this, so that this version holds everything that it has read."""
    table = environment.table(name)
    if not table.path:
        raise CannotTell(
            f"table {table.label} has no path that can be read from here",
            meaning="The independent count reads the tables' own files, which Unity Catalog does not hand out.",
            next=surestart("verify"),
            code="CannotCount",
        )
    folder = Path(table.path)
    if not (folder / "_delta_log").exists():
        return TableFiles(folder)
    log = read_delta_log(table.path)
    files = read_active_files(table.path, log.latest_version)
    unread: frozenset[str] = frozenset()
    if below is not None:
        progress = progress_in_table(below, log.table_id, log.latest_version)
        # A position that cannot be known counts as everything: better a row too many called lost than one too few.
        if progress.how in (READ_NOTHING, READ_UP_TO):
            read = read_active_files(table.path, progress.version) if progress.how == READ_UP_TO else ()
            unread = frozenset(file.path for file in files) - {file.path for file in read}
    return TableFiles(folder, table.label, files, unread)


def read_by_raw_ingest(progress: StageProgress, begun: frozenset[str]) -> Callable[[tuple[str, int, int]], bool]:
    """Whether the stage has read the record at a position. begun: sources of which its table has rows; a file is read
    whole, so of those nothing is pending."""
    if progress.committed is None and not progress.problem and not begun:
        return lambda position: False
    if progress.kafka:
        return lambda position: position[2] < progress.kafka.get(position[0], {}).get(position[1], 0)
    if progress.files is not None:
        listed = read_listed_files(progress.checkpoint, progress.files)
        return lambda position: position[0] in begun or plain_path(position[0]) in listed
    # As with tables: what is not known counts as read.
    return lambda position: True
