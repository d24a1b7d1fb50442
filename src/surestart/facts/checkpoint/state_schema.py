"""The schema of a store, as Spark stores it beside the rows.

state/0/0[/<store>]/_metadata/schema     Java's writeUTF("v1") key JSON, value JSON, each by writeUTF
                                         writeUTF("v2") key, value, each a number of chunks (4 bytes) and the chunks
state/0/_stateSchema/<store>/<batch>_…   writeUTF("v3") number of column families, and of each: its name, the key's
                                         schema id (2 bytes), the key, the value's id, the value, how keys are laid out,
                                         and the schema of the user's own key
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from surestart.facts.checkpoint.log_file import FormatError, parse_object
from surestart.facts.checkpoint.state_types import Atom, Struct, columns_text, read_type
from surestart.facts.checkpoint.torn import Torn, UnknownForm

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
    key_id: int = 0
    value_id: int = 0
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
    name, key_id, key = java.utf(), java.number(">h"), _columns(java.chunks())
    value_id, value, layout = java.number(">h"), _columns(java.chunks()), _layout(java.chunks())
    java.chunks()
    return StoreSchema(key, value, name, key_id, value_id, layout)


def _columns(text: str) -> Struct:
    found = read_type(parse_object(text, "the state schema"))
    if not isinstance(found, Struct):
        raise Torn("the state schema is no struct")
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
