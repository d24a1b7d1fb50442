"""What a stateful operator says of itself: its name and stores, and the columns of its state.

state/0/_metadata/metadata            v1 {"operatorInfo":{"operatorName":"dedupe",…},"stateStoreInfo":[{…}]}
state/0/_metadata/v2/N                the same since Spark 4.0, one for each batch that changed it
state/0/0[/<store>]/_metadata/schema  Java's writeUTF("v2"), number of column families, id, and length-prefixed JSON of
                                      key and value
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from surestart.facts.checkpoint.log_file import (
    TOO_LARGE,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    parse_object,
    read_log_bytes,
    split_lines,
)
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import FOLDER, Storage

Listing = Callable[[str], list[tuple[str, str, int]]]


class OperatorNotes(NamedTuple):
    """Empty where the operator left none, as before Spark 4.0, or where they cannot be read."""

    name: str | None = None
    partitions: int | None = None
    stores: tuple[str, ...] = ()
    schema_paths: tuple[str, ...] = ()


def read_operator_notes(storage: Storage, list_folder: Listing, folder: str) -> tuple[OperatorNotes, LogFault | None]:
    path = f"{folder}/metadata"
    try:
        if any(name == "v2" and kind == FOLDER for name, kind, _ in list_folder(folder)):
            batches = [int(name) for name, _, _ in list_folder(f"{folder}/v2") if is_batch_name(name)]
            if batches:
                path = f"{folder}/v2/{max(batches)}"
        data = read_log_bytes(storage, path)
        if isinstance(data, LogFault):
            return OperatorNotes(), data
        lines = split_lines(data, path)
        fields = parse_object(lines[1] if len(lines) > 1 else "", path)
        stores = fields["stateStoreInfo"]
        paths = [str(item) for store in stores for item in store.get("stateSchemaFilePaths", ())]
        notes = OperatorNotes(
            name=str(fields["operatorInfo"]["operatorName"]),
            partitions=max((_count(store["numPartitions"]) for store in stores), default=None),
            stores=tuple(sorted(str(store["storeName"]) for store in stores)),
            schema_paths=tuple(paths[:20]),
        )
    except FileNotFoundError:
        return OperatorNotes(), None
    except FormatError as error:
        return OperatorNotes(), LogFault(path, error.kind, error.detail)
    except (KeyError, TypeError, ValueError, AttributeError):
        return OperatorNotes(), LogFault(path, TORN, "the operator's metadata lacks its fields")
    except OSError as error:
        return OperatorNotes(), LogFault(path, UNREADABLE, f"{type(error).__name__}: {error}")
    return notes, None


def _count(number: object) -> int:
    """Less than one partition, or more than Java counts, would make any number of them look complete."""
    if type(number) is not int or not 0 < number < 2**31:
        raise ValueError(f"{str(number)[:40]} partitions")
    return number


def read_state_schema(storage: Storage, path: str) -> tuple[str, LogFault | None]:
    """The state's columns, such as "key(_1 string) value(count bigint)", or "" when no schema can be read."""
    try:
        data = storage.read_file(path, 1 << 20)
        # Looked through letter by letter.
        charge(storage, len(data) // 10, path)
    except NotRead as error:
        return "", LogFault(path, TOO_LARGE, str(error))
    except (FileNotFoundError, NotADirectoryError):
        return "", None
    except OSError as error:
        return "", LogFault(path, UNREADABLE, f"{type(error).__name__}: {error.strerror or error}")
    described = []
    for label, text in zip(("key", "value"), _json_objects(data), strict=False):
        try:
            fields = parse_object(text, path).get("fields", [])
            columns = [f"{item['name']} {_type_name(item['type'])}" for item in fields[:12]]
        except (FormatError, KeyError, TypeError):
            return "", LogFault(path, TORN, "the state schema cannot be read")
        described.append(f"{label}({', '.join(columns)})")
    return " ".join(described), None


def _json_objects(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace")
    starts = [match.start() for match in re.finditer(r'\{"type":"struct","fields":', text)]
    depth_zero = 0
    for start in starts:
        if start < depth_zero:
            continue
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if depth == 0:
                break
        depth_zero = end + 1
        yield text[start:depth_zero]


def _type_name(value: object) -> str:
    return value if isinstance(value, str) else str(value.get("type", "?")) if isinstance(value, dict) else "?"
