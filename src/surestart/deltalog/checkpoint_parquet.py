"""Actions out of a Delta log checkpoint: parquet through pyarrow, or the JSON kind of a V2 checkpoint without it.

Only the asked-for columns are decoded: the transactions of a table of a million files are a few rows, its `add` column
is not.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Any

from surestart.checkpoint.storage import Storage
from surestart.deltalog.actions import Action, damaged, read_actions
from surestart.deltalog.listing import Checkpoint, read_file
from surestart.errors import CannotTell

FILE_KINDS = ("add", "remove")


class PyarrowMissing(CannotTell):
    """The log's older part is only in parquet and pyarrow is not installed."""


def read_checkpoint_actions(
    files: Storage, checkpoint: Checkpoint, columns: Collection[str]
) -> Iterator[tuple[str, Action]]:
    """Kind and body of each action; `columns` are kinds, or kind.field to decode less. Follows V2 sidecars when files
    are asked for."""
    kinds = {column.split(".")[0] for column in columns}
    follow = any(kind in kinds for kind in FILE_KINDS)
    sidecars: list[str] = []
    for name in checkpoint.names:
        extra = ["sidecar"] if follow else []
        for kind, body in _read_one(files, name, [*columns, *extra]):
            if kind == "sidecar":
                sidecars.append(_sidecar_name(files, name, body))
            else:
                yield kind, body
    wanted = [column for column in columns if column.split(".")[0] in FILE_KINDS]
    for name in sidecars:
        yield from _read_one(files, name, wanted)


def _read_one(files: Storage, name: str, columns: Collection[str]) -> Iterator[tuple[str, Action]]:
    label = f"{files.location}/{name}"
    if name.endswith(".json"):
        yield from read_actions(read_file(files, name), {column.split(".")[0] for column in columns}, label)
        return
    parquet = load_pyarrow_parquet(label)
    kinds = list(dict.fromkeys(column.split(".")[0] for column in columns))
    content = read_file(files, name)
    try:
        reader = parquet.ParquetFile(io.BytesIO(content))
        present = [kind for kind in kinds if kind in reader.schema_arrow.names]
        picked = [column for column in columns if column.split(".")[0] in present]
        for batch in reader.iter_batches(columns=picked) if picked else ():
            for kind in present:
                column = batch.column(kind)
                if column.null_count < len(column):
                    for body in column.drop_null().to_pylist():
                        yield kind, _maps(body)
    except Exception as error:
        # pyarrow raises its own errors, OSError, ValueError and KeyError for one and the same torn file.
        raise damaged(label, f"is not a checkpoint that pyarrow can read ({type(error).__name__}: {error})") from error


def load_pyarrow_parquet(label: str) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise PyarrowMissing(
            f"{label} can only be read with pyarrow, which is not installed",
            meaning="The older commits of this table were folded into parquet, and what they hold is needed here.",
            next="pip install pyarrow",
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
