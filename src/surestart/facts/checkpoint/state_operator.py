"""What a stateful operator says of itself: its name and stores, and the columns of its state.

state/0/_metadata/metadata            v1 {"operatorInfo":{"operatorName":"dedupe",…},"stateStoreInfo":[{…}]}
state/0/_metadata/v2/N                the same since Spark 4.0, one for each batch that changed it
state/0/0[/<store>]/_metadata/schema  key and value of a store
state/0/_stateSchema/<store>/…        the same of transformWithState, where v2/N says

The schema of a store, as Spark stores it beside the rows.

state/0/0[/<store>]/_metadata/schema     Java's writeUTF("v1") key JSON, value JSON, each by writeUTF
                                         writeUTF("v2") key, value, each a number of chunks (4 bytes) and the chunks
state/0/_stateSchema/<store>/<batch>_…   writeUTF("v3") number of column families, and of each: its name, the key's
                                         schema id (2 bytes), the key, the value's id, the value, how keys are laid out,
                                         and the schema of the user's own key"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from surestart.facts.checkpoint.log_file import (
    TOO_LARGE,
    TORN,
    UNREADABLE,
    FormatError,
    LogFault,
    Torn,
    UnknownForm,
    parse_object,
    read_log_bytes,
    split_log_lines,
)
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.checkpoint.state_types import Atom, Struct, columns_text, read_type
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
    except UnknownForm as error:
        # Of a newer Spark, and no damage; whether the next start reads it is not known.
        return (), LogFault(path, UNREADABLE, error.detail)
    except FormatError as error:
        return (), LogFault(path, TORN, f"the state schema cannot be read: {error.detail}")


def schema_path(operator: int, partition: int, store: str, named: tuple[str, ...]) -> str:
    """Where the newest schema of the store lies. named: as the operator names it, absolute, of where it was written."""
    for path in reversed(named):
        if match := re.search(rf"(?:^|/)(state/{operator}/_stateSchema/{re.escape(store)}/[^/]+)$", path):
            return match[1]
    own = "" if store == DEFAULT_STORE else f"/{store}"
    return f"state/{operator}/{partition}{own}/_metadata/schema"


SCHEMA_LIMIT = 8 << 20
FAMILIES = 1_000
NO_PREFIX = "NoPrefixKeyStateEncoderSpec"
PREFIX, RANGE = "PrefixKeyScanStateEncoderSpec", "RangeKeyScanStateEncoderSpec"
TIME_FIRST, TIME_LAST = "TimestampAsPrefixKeyStateEncoderSpec", "TimestampAsPostfixKeyStateEncoderSpec"


@dataclass(frozen=True)
class KeyLayout:
    """How RocksDB's keys are put together.

    prefix: columns in front.
    ordered: columns that sort, by their number."""

    kind: str = ""
    prefix: int = 0
    ordered: tuple[int, ...] = ()


@dataclass(frozen=True)
class StoreSchema:
    """Key and value of one store, or of one column family of it."""

    key: Struct
    value: Struct
    family: str = "default"
    layout: KeyLayout = field(default_factory=KeyLayout)

    @property
    def text(self) -> str:
        return f"key({columns_text(self.key)}) value({columns_text(self.value)})"


def store_schema_text(found: tuple[StoreSchema, ...]) -> str:
    """Of a store; its column families by their names, where it has several."""
    if len(found) == 1 and found[0].family == "default":
        return found[0].text
    return "; ".join(f"{schema.family}: {schema.text}" for schema in found)


def keeps_one_partition(found: tuple[StoreSchema, ...]) -> bool:
    """Whether the store has no key to spread its rows by, as for a global aggregation or a limit. Spark gives it one
    partition, but writes down the number that is set for the query (seen for a global count on 4.0, 4.1 and 4.2:
    numPartitions is 2, and there is one folder)."""
    keys = [field.type for schema in found for field in schema.key.fields]
    return len(found) == 1 and (not keys or (len(keys) == 1 and isinstance(keys[0], Atom) and keys[0].kind == "void"))


class _Java:
    """What Java's DataOutputStream wrote."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if size < 0 or len(found) < size:
            raise Torn(f"the state schema ends at byte {len(self.data)}, within {size} bytes that begin at {self.at}")
        self.at += size
        return found

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def utf(self) -> str:
        # Java writes NUL and characters beyond the first 65,536 in a way of its own; no schema has had them.
        return self.take(self.number(">H")).decode("utf-8", "surrogateescape")

    def chunks(self) -> str:
        count = self.number(">i")
        if not 0 <= count <= SCHEMA_LIMIT // 2:
            raise Torn(f"the state schema has {count} chunks")
        return "".join(self.utf() for _ in range(count))


def read_schema(data: bytes) -> tuple[StoreSchema, ...]:
    """One schema, or one for each column family. Torn, or UnknownForm for a version that is not known here."""
    java = _Java(data)
    version = java.utf()
    if version == "v1":
        return (StoreSchema(_columns(java.utf()), _columns(java.utf())),)
    if version == "v2":
        return (StoreSchema(_columns(java.chunks()), _columns(java.chunks())),)
    if version != "v3":
        if version[:1] == "v" and version[1:].isdigit():
            raise UnknownForm(f"the state schema is of version {version[:10]}")
        raise Torn("the state schema does not begin with its version")
    count = java.number(">i")
    if not 0 <= count <= FAMILIES:
        raise Torn(f"the state schema has {count} column families")
    return tuple(_family(java) for _ in range(count))


def _family(java: _Java) -> StoreSchema:
    # Key and value have a number each, which names the version of their columns.
    name, _, key = java.utf(), java.number(">h"), _columns(java.chunks())
    _, value, layout = java.number(">h"), _columns(java.chunks()), _layout(java.chunks())
    java.chunks()
    return StoreSchema(key, value, name, layout)


def _columns(text: str) -> Struct:
    found = read_type(parse_object(text, "the state schema"))
    if not isinstance(found, Struct):
        raise Torn("the state schema is not a struct")
    return found


def _layout(text: str) -> KeyLayout:
    try:
        fields = parse_object(text, "the layout of keys in the state schema")
        ordered = tuple(int(number) for number in fields.get("orderingOrdinals") or ())
        return KeyLayout(str(fields["keyStateEncoderType"]), int(fields.get("numColsPrefixKey") or 0), ordered)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise Torn(f"the layout of keys in the state schema lacks its parts ({error})") from error
