"""Actions out of a Delta log checkpoint: parquet through pyarrow, or the JSON kind of a V2 checkpoint without it.

Only the asked-for columns are decoded: the transactions of a table of a million files are a few rows, its `add` column
is not.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from surestart.errors import CannotTell
from surestart.facts.delta.actions import (
    FILE,
    Action,
    action_cost,
    checked_action,
    damaged,
    log_unreadable,
    read_actions,
)
from surestart.facts.delta.listing import DeltaCheckpoint
from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import Storage
from surestart.words.next_commands import install

FILE_KINDS = ("add", "remove")
FOOTER = 4 << 20
HELD = 32 << 20
DOWNLOAD = 64 << 20


class PyarrowMissing(CannotTell):
    """The log's older part is only in parquet and pyarrow is not installed."""


def read_checkpoint_actions(
    files: Storage, checkpoint: DeltaCheckpoint, columns: Collection[str]
) -> Iterator[tuple[str, Action]]:
    """Kind and body of each action; `columns` are kinds, or kind.field to decode less. Follows V2 sidecars when files
    are asked for."""
    kinds = {column.split(".")[0] for column in columns}
    follow = any(kind in kinds for kind in FILE_KINDS)
    sidecars: list[str] = []
    # Each checkpoint has both: one without is a piece of one, whose transactions may be in the rest.
    lacking = kinds & {"protocol", "metaData"}
    for index, name in enumerate(checkpoint.names):
        extra = ["sidecar"] if follow else []
        size = checkpoint.sizes[index] if index < len(checkpoint.sizes) else -1
        for kind, body in _read_one(files, name, [*columns, *extra], size):
            if kind == "sidecar":
                sidecars.append(_sidecar_name(files, name, body))
            else:
                lacking.discard(kind)
                yield kind, body
    if lacking:
        raise damaged(f"{files.location}/{checkpoint.names[0]}", f"has no {min(lacking)}: it is not a whole checkpoint")
    wanted = [column for column in columns if column.split(".")[0] in FILE_KINDS]
    for name in sidecars:
        yield from _read_one(files, name, wanted)


def _read_one(files: Storage, name: str, columns: Collection[str], size: int = -1) -> Iterator[tuple[str, Action]]:
    if name.endswith(".json"):
        yield from read_actions(files, name, {column.split(".")[0] for column in columns}, size)
        return
    label = f"{files.location}/{name}"
    parquet = load_pyarrow_parquet(label)
    try:
        charge(files, FILE, name)
        with files.open_file(name) as opened:
            yield from _read_columns(files, name, _seekable(opened, name), parquet, columns)
    except (FileNotFoundError, CannotTell):
        raise
    except NotRead as error:
        raise log_unreadable(files.location, error) from error
    except Exception as error:
        # pyarrow raises its own errors, OSError, ValueError and KeyError for one and the same torn file.
        raise damaged(label, f"is not a checkpoint that pyarrow can read ({type(error).__name__}: {error})") from error


def _read_columns(
    files: Storage, name: str, file: BinaryIO, parquet: Any, columns: Collection[str]
) -> Iterator[tuple[str, Action]]:
    """Only the asked-for columns, a few rows at a time. A value that a million rows share is in memory once."""
    file.seek(-8, 2)
    footer = int.from_bytes(file.read(4), "little")
    if footer > FOOTER:
        raise NotRead(f"{name}: its footer alone is {footer:,} bytes")
    file.seek(0)
    about = parquet.ParquetFile(file, thrift_string_size_limit=FOOTER, thrift_container_size_limit=FOOTER)
    charge(files, about.metadata.num_rows // 20, name)
    _refuse_bombs(about.metadata, name)
    charge(files, _repeated(about) // 8, name)
    kinds = list(dict.fromkeys(column.split(".")[0] for column in columns))
    present = [kind for kind in kinds if kind in about.schema_arrow.names]
    picked = [column for column in columns if column.split(".")[0] in present]
    if not picked:
        return
    leaves = [about.schema.column(index) for index in range(len(about.schema))]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path.split(".")[0] in present]
    # Read as dictionaries: else a file of a kilobyte becomes a million copies of a text of a megabyte.
    reader = parquet.ParquetFile(
        file, metadata=about.metadata, read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20
    )
    for batch in reader.iter_batches(batch_size=4096, columns=picked, use_threads=False):
        for kind in present:
            column = batch.column(kind)
            if column.null_count == len(column):
                continue
            column = column.drop_null()
            # No row is larger than all of them together.
            step = max(1, min(1024, HELD // max(column.nbytes, 1)))
            for start in range(0, len(column), step):
                piece = column.slice(start, step)
                if piece.nbytes > HELD:
                    raise NotRead(f"{name}: one {kind} has {piece.nbytes:,} bytes")
                for body in piece.to_pylist():
                    charge(files, action_cost(_length(body)), name)
                    yield kind, checked_action(_maps(body), kind, "a row", f"{files.location}/{name}")


def _refuse_bombs(metadata: Any, name: str) -> None:
    """Pages that a few bytes unpack to, and pages of one row. Real columns shrink to a tenth, a dictionary has at most
    a megabyte, and of what is not about files a table has little: a million transactions are 40 MB."""
    for group in range(metadata.num_row_groups):
        rows = max(metadata.row_group(group).num_rows, 1)
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            unpacked, packed = chunk.total_uncompressed_size, max(chunk.total_compressed_size, 1)
            dictionary = chunk.data_page_offset - chunk.dictionary_page_offset if chunk.has_dictionary_page else 0
            about_files = chunk.path_in_schema.split(".")[0] in FILE_KINDS
            large = unpacked > HELD and (unpacked > 100 * packed or unpacked > rows << 20)
            if large or dictionary > HELD // 4 or (unpacked > 2 * HELD and not about_files):
                raise NotRead(f"{name}: {packed:,} bytes of {chunk.path_in_schema} unpack to {unpacked:,}")


def _repeated(about: Any) -> int:
    """How many elements its lists and maps have. Delta's hold texts only: a nested one is not Delta's."""
    inner = [index for index in range(len(about.schema)) if about.schema.column(index).max_repetition_level]
    if any(about.schema.column(index).max_repetition_level > 1 for index in inner):
        raise ValueError("a list of lists in it")
    groups = [about.metadata.row_group(number) for number in range(about.metadata.num_row_groups)]
    return sum(max(0, group.column(index).num_values - group.num_rows) for group in groups for index in inner)


def _length(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    return sum(map(_length, value)) if isinstance(value, list | tuple) else 8


def _seekable(file: BinaryIO, name: str) -> BinaryIO:
    """pyarrow jumps within a file; a download can only be read through."""
    if file.seekable():
        return file
    content = file.read(DOWNLOAD + 1)
    if len(content) > DOWNLOAD:
        raise NotRead(f"{name} has more than {DOWNLOAD >> 20} MB, which are not downloaded for this")
    return io.BytesIO(content)


def load_pyarrow_parquet(label: str) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise PyarrowMissing(
            f"{label} can only be read with pyarrow, which is not installed",
            meaning="The older commits of this table were folded into parquet, and what they hold is needed here.",
            next=install("pyarrow"),
            code="PyarrowMissing",
        ) from error
    return parquet


def _sidecar_name(files: Storage, name: str, body: Action) -> str:
    path = str(body.get("path", ""))
    if not path or "/" in path or "\\" in path or path.startswith("."):
        # Delta writes bare names; a path would read files outside of the table.
        raise damaged(f"{files.location}/{name}", f"names a sidecar outside of _sidecars: {path[:100]!r}")
    return f"_delta_log/_sidecars/{path}"


def _maps(body: Action) -> Action:
    """Parquet's maps come as lists of pairs."""
    for key in ("partitionValues", "configuration", "tags", "options"):
        if isinstance(body.get(key), list):
            body[key] = dict(body[key])
    return body
