"""What a stateful operator says of itself: its name and stores, and the columns of its state.

state/0/_metadata/metadata            v1 {"operatorInfo":{"operatorName":"dedupe",…},"stateStoreInfo":[{…}]}
state/0/_metadata/v2/N                the same since Spark 4.0, one for each batch that changed it
state/0/0[/<store>]/_metadata/schema  key and value of a store                            state_schema
state/0/_stateSchema/<store>/…        the same of transformWithState, where v2/N says
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from surestart.facts.checkpoint.log_file import (
    TOO_LARGE,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    parse_object,
    read_log_bytes,
    split_log_lines,
)
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.checkpoint.state_schema import SCHEMA_LIMIT, StoreSchema, read_schema
from surestart.facts.checkpoint.torn import UnknownForm
from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import FOLDER, Storage

DEFAULT_STORE = "default"
# Of one operator: no operator of Spark's has more than the four of a join.
STORES = 8
PROPERTIES_LIMIT = 1 << 20
ListFolder = Callable[[str], list[tuple[str, str, int]]]


class OperatorNotes(NamedTuple):
    """Empty where the operator left none, as before Spark 4.0, or where they cannot be read.

    prefixes: how many columns of a store's key stand in front of it.
    properties: what transformWithState says of its variables, as JSON."""

    name: str | None = None
    partitions: int | None = None
    stores: tuple[str, ...] = ()
    schema_paths: tuple[str, ...] = ()
    prefixes: Mapping[str, int] = MappingProxyType({})
    properties: str = ""


def read_operator_notes(
    storage: Storage, list_folder: ListFolder, folder: str
) -> tuple[OperatorNotes, LogFault | None]:
    path = f"{folder}/metadata"
    try:
        if any(name == "v2" and kind == FOLDER for name, kind, _ in list_folder(folder)):
            batches = [int(name) for name, _, _ in list_folder(f"{folder}/v2") if is_batch_name(name)]
            if batches:
                path = f"{folder}/v2/{max(batches)}"
        data = read_log_bytes(storage, path)
        if isinstance(data, LogFault):
            return OperatorNotes(), data
        lines = split_log_lines(data, path)
        fields = parse_object(lines[1] if len(lines) > 1 else "", path)
        stores = fields["stateStoreInfo"]
        paths = [str(item) for store in stores for item in store.get("stateSchemaFilePaths", ())]
        notes = OperatorNotes(
            name=str(fields["operatorInfo"]["operatorName"]),
            partitions=max((_count(store["numPartitions"]) for store in stores), default=None),
            stores=tuple(sorted(str(store["storeName"]) for store in stores)),
            schema_paths=tuple(paths[-20:]),
            prefixes={str(store["storeName"]): int(store.get("numColsPrefixKey") or 0) for store in stores},
            properties=str(fields.get("operatorPropertiesJson") or "")[:PROPERTIES_LIMIT],
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


def read_state_schema(storage: Storage, path: str) -> tuple[tuple[StoreSchema, ...], LogFault | None]:
    """The columns of a store, one schema for each column family; none where the file is not there or cannot be read."""
    try:
        data = storage.read_file(path, SCHEMA_LIMIT + 1)
        # Looked through letter by letter.
        charge(storage, len(data) // 10, path)
        if len(data) > SCHEMA_LIMIT:
            return (), LogFault(path, TOO_LARGE, f"more than {SCHEMA_LIMIT >> 20} MB of schema")
        return read_schema(data), None
    except NotRead as error:
        return (), LogFault(path, TOO_LARGE, str(error))
    except (FileNotFoundError, NotADirectoryError):
        return (), None
    except OSError as error:
        return (), LogFault(path, UNREADABLE, f"{type(error).__name__}: {error.strerror or error}")
    except UnknownForm:
        # Of a newer Spark, and no damage: the columns are not shown.
        return (), None
    except FormatError as error:
        return (), LogFault(path, TORN, f"the state schema cannot be read: {error.detail}")


def schema_path(operator: int, partition: int, store: str, named: tuple[str, ...]) -> str:
    """Where the newest schema of the store lies. named: as the operator names it, absolute, of where it was written."""
    for path in reversed(named):
        if match := re.search(rf"(?:^|/)(state/{operator}/_stateSchema/{re.escape(store)}/[^/]+)$", path):
            return match[1]
    own = "" if store == DEFAULT_STORE else f"/{store}"
    return f"state/{operator}/{partition}{own}/_metadata/schema"
