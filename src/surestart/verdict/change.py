"""One difference between what the code would run now and what the checkpoint was written by; and the
stateful operators that the code declares against those that the checkpoint has, by Spark's rules.

    dedupe                                           the name alone, or one of your own
    dedupe: key(k string, g int)                     the key's columns as well, as `surestart inspect` prints them
    stateStoreSave: key(g int) value(count bigint)   and the value's

Types are compared in their order and names are not: so does Spark (StateSchemaCompatibilityChecker). A start with other
types fails before it reads a row (STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE, …_VALUE_…), or, where the check is switched
off, reads the stored bytes as something else. So it does, without a word, where columns of one type have changed their
places: the same names in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import StoreSchema
from surestart.facts.checkpoint.state_types import Struct, type_text

# Spark's own names of operators that keep state (_metadata since 4.0); any other name is one that a person gave.
OPERATORS = frozenset(
    {
        "dedupe",
        "dedupeWithinWatermark",
        "stateStoreSave",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
        "globalLimit",
        "transformWithStateExec",
    }
)
STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_EVOLUTION = "Values in Avro may evolve as Avro allows it; Spark says at the start whether this step is one of those."
_OPERATION = "Adding, removing or changing a stateful operation is not allowed."
_COLUMNS = (
    "Columns of state may be renamed, not added, taken away, reordered or given another type: the start fails "
    "(STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE or STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE)."
)
_MOVED = (
    "Spark compares the types of state's columns and not their names: the start goes on, and takes one column for "
    "the other in every row that is there. Keep the order."
)


@dataclass(frozen=True)
class DeclaredState:
    """key and value: the types, in their order; None: not declared.
    key_names, value_names: the columns' names.
    unread: what stands there that is no columns."""

    name: str
    key: tuple[str, ...] | None = None
    value: tuple[str, ...] | None = None
    unread: str = ""
    key_names: tuple[str, ...] = ()
    value_names: tuple[str, ...] = ()


def read_declared(text: str) -> DeclaredState:
    name, colon, columns = text.partition(":")
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    rest = columns.strip()
    while match := re.match(r"(key|value)\(", rest):
        end = _closing(rest, match.end())
        if end < 0 or match[1] in found:
            break
        found[match[1]] = tuple(_columns_of(rest[match.end() : end]))
        rest = rest[end + 1 :].strip()
    unread = rest or ("no columns" if colon and not found else "")
    types = {part: tuple(one for _, one in pairs) for part, pairs in found.items()}
    names = {part: tuple(one for one, _ in pairs) for part, pairs in found.items()}
    return DeclaredState(
        name.strip(), types.get("key"), types.get("value"), unread, names.get("key", ()), names.get("value", ())
    )


def _closing(text: str, at: int) -> int:
    depth = 1
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return -1


def _columns_of(columns: str) -> Iterator[tuple[str, str]]:
    """Of "a int, b struct<c:int,d:decimal(9,2)>": "a" with "int", and "b" with the struct's, without its names."""
    depth, begin = 0, 0
    for place, mark in enumerate(f"{columns},"):
        depth += (mark in "(<") - (mark in ")>")
        if mark == "," and depth == 0:
            if column := columns[begin:place].strip():
                name, _, kind = column.partition(" ")
                yield name, _nameless(kind or column)
            begin = place + 1


def _nameless(text: str) -> str:
    """A type without the names of a struct's fields, which Spark does not compare either."""
    return re.sub(r"([<,])[^<>,:()]*:", r"\1", text.replace(" ", "").lower())


def same_state(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Whether two declarations may be of the same operators: columns that only one of them has are no difference."""

    def agree(old: DeclaredState, new: DeclaredState) -> bool:
        pairs = ((old.key, new.key), (old.value, new.value))
        return old.name == new.name and all(None in pair or pair[0] == pair[1] for pair in pairs)

    old, new = list(map(read_declared, before)), list(map(read_declared, after))
    return len(old) == len(new) and all(map(agree, old, new))


def state_changes(declaration: StageDeclaration, checkpoint: Checkpoint, spark: str) -> Iterator[Change]:
    yield from _format(declaration, checkpoint, spark)
    operators = checkpoint.state.operators
    # A stage that declares no state is not a stage without state: nothing is compared. Spark itself compares the
    # operators since 4.0 (STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA).
    if not declaration.state:
        return
    said = ", ".join(declaration.state)
    if not operators and checkpoint.latest_committed is not None:
        yield Change("stateful operations", "none", said, ChangeClass.UNSAFE, _OPERATION)
    elif len(declaration.state) != len(operators):
        yield Change("stateful operations", f"{len(operators)} operators", said, ChangeClass.UNSAFE, _OPERATION)
    else:
        evolves = checkpoint.confs.get(_ENCODING, "").lower() == "avro"
        yield from _each(list(map(read_declared, declaration.state)), list(operators), evolves)


def _each(declared: list[DeclaredState], operators: list[StateOperator], evolves: bool) -> Iterator[Change]:
    """evolves: values in Avro, which transformWithState may give other columns."""
    names = [operator.name for operator in operators]
    known = all(one.name in OPERATORS for one in declared) and all(name in OPERATORS for name in names)
    wanted = [one.name for one in declared]
    if known and sorted(wanted) != sorted(name or "" for name in names):
        before = ", ".join(name or "" for name in names)
        yield Change("stateful operators", before, ", ".join(wanted), ChangeClass.UNSAFE, _OPERATION)
        return
    for one in declared:
        # By its name where Spark wrote that down, else in the order of the numbers.
        of_name = [operator for operator in operators if operator.name == one.name]
        operator = (of_name or operators)[0]
        operators.remove(operator)
        yield from _columns(one, operator, evolves)


def _columns(declared: DeclaredState, operator: StateOperator, evolves: bool) -> Iterator[Change]:
    what = f"columns of operator {operator.id}"
    if declared.unread:
        rule = 'Columns are declared as `surestart inspect` prints them: "dedupe: key(k string, g int)".'
        yield Change(what, "stored", declared.unread, ChangeClass.CANNOT_TELL, rule)
        return
    if declared.key is None and declared.value is None:
        return
    schemas = [schema for found in operator.schemas.values() for schema in found]
    if not schemas:
        rule = "The state's own columns cannot be read, so nothing tells whether these are the ones."
        yield Change(what, "not known", _text(declared.key, declared.value), ChangeClass.CANNOT_TELL, rule)
        return
    if not any(_agree(declared, schema) for schema in schemas):
        before = "; ".join(schema.text for schema in schemas)
        same_key = any(declared.key in (None, _stored(schema.key)) for schema in schemas)
        kind, rule = (ChangeClass.UNDEFINED, _EVOLUTION) if evolves and same_key else (ChangeClass.UNSAFE, _COLUMNS)
        yield Change(what, before, _text(declared.key, declared.value), kind, rule)
    elif all(_moved(declared, schema) for schema in schemas if _agree(declared, schema)):
        before = "; ".join(schema.text for schema in schemas)
        after = ", ".join((*declared.key_names, *declared.value_names))
        yield Change(what, before, after, ChangeClass.UNSAFE, _MOVED)


def _moved(declared: DeclaredState, schema: StoreSchema) -> bool:
    """The same names as the stored ones, in another order."""
    pairs = ((declared.key_names, schema.key), (declared.value_names, schema.value))
    for names, stored in pairs:
        known = tuple(field.name for field in stored.fields)
        if names and names != known and sorted(names) == sorted(known):
            return True
    return False


def _agree(declared: DeclaredState, schema: StoreSchema) -> bool:
    """A join has several stores, transformWithState several variables: one that agrees is enough."""
    pairs = ((declared.key, schema.key), (declared.value, schema.value))
    return all(types is None or types == _stored(stored) for types, stored in pairs)


def _stored(columns: Struct) -> tuple[str, ...]:
    return tuple(_nameless(type_text(field.type)) for field in columns.fields)


def _text(key: tuple[str, ...] | None, value: tuple[str, ...] | None) -> str:
    said = [f"{name}({', '.join(types)})" for name, types in (("key", key), ("value", value)) if types is not None]
    return " ".join(said)


def _format(declaration: StageDeclaration, checkpoint: Checkpoint, spark: str) -> Iterator[Change]:
    """The format of state is not pinned before 4.3: the session's setting counts."""
    wanted = dict(declaration.confs).get(STATE_FORMAT)
    if wanted is None or not checkpoint.state.operators or line_number(spark) < (4, 0):
        return
    stored = "2" if checkpoint.state.format_v2 else "1"
    if wanted == stored:
        return
    if line_number(spark) < (4, 2):
        rule = "Spark 4.0 and 4.1 read no commit of the other format: the start fails."
        yield Change(STATE_FORMAT, stored, wanted, ChangeClass.UNSAFE, rule)
    else:
        rule = "Spark 4.2 takes the commits and follows the setting from there; nobody has promised that."
        yield Change(STATE_FORMAT, stored, wanted, ChangeClass.UNDEFINED, rule)


class ChangeClass(StrEnum):
    ALLOWED = "allowed"
    UNDEFINED = "undefined"
    CANNOT_TELL = "cannot tell"
    UNSAFE = "unsafe"


@dataclass(frozen=True)
class Change:
    """One difference.

    ignored: Spark lets the start happen and does not use the new value.
    of_sources: the checkpoint's own findings name it too, where they see it.
    leaves_out: a sink gets no more of the query's rows."""

    what: str
    before: str
    after: str
    kind: ChangeClass
    rule: str
    ignored: bool = False
    of_sources: bool = False
    leaves_out: bool = False


def line_number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return (int(major), int(minor.partition(".")[0] or 0)) if major.isdigit() else (0, 0)
