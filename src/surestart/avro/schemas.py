"""Which schema a record was written with: by the id in its header, from a registry or from a folder of .avsc files.

    RegistryResolver("https://registry:8081")     GET /schemas/ids/7
    FolderResolver("/Volumes/main/sensor/avro")   7.avsc
    FixedSchema(schema)                           no header: every record has this one

A resolver is a frozen value that shows no secret: it travels into foreachBatch and is asked there, once per schema and
process, because the schema of an id never changes. An id that nobody knows is asked for again in the next batch: it
may have been registered since.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from surestart.errors import CannotTell, UsageError
from surestart.typed import typed


@dataclass(frozen=True)
class WriterSchema:
    """problem: why no record of this schema can be decoded, in words that go into the quarantine; "" if it can."""

    id: int
    text: str
    problem: str = ""

    @property
    def parsed(self) -> Any:
        return json.loads(self.text)


class SchemaResolver(Protocol):
    """Must be frozen and hashable. Raises CannotTell when it cannot be asked: that is not a verdict on any record."""

    def read_schema(self, schema_id: int) -> WriterSchema: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class FixedSchema:
    """One writer schema for all records, as JSON text."""

    text: str

    @property
    def schema(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError as error:
            raise UsageError(
                f"the fixed Avro schema is not JSON: {error}",
                meaning="No record can be decoded without it. Nothing was read.",
                next=typed("python", "-m", "json.tool", "your_schema.avsc"),
                code="WriterSchema",
            ) from error


def read_fixed_schema(path: str) -> FixedSchema:
    """The writer schema in this file. Raises UsageError where it cannot be read, or is no Avro schema."""

    try:
        schema = FixedSchema(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the Avro schema {path!r} cannot be read: {error.strerror or type(error).__name__}",
            meaning="No record can be decoded without it. Nothing was read.",
            next=typed("ls", "-l", path),
            code="WriterSchema",
        ) from error
    _ = schema.schema
    return schema


@dataclass(frozen=True)
class FolderResolver:
    """Schemas as files <id>.avsc in a folder that the driver can open."""

    folder: str

    def read_schema(self, schema_id: int) -> WriterSchema:
        folder = Path(self.folder)
        try:
            text = (folder / f"{schema_id}.avsc").read_text(encoding="utf-8")
        except FileNotFoundError:
            if folder.is_dir():
                return unknown(schema_id)
            raise _folder_out_of_reach(self.folder, "no such folder") from None
        except OSError as error:
            raise _folder_out_of_reach(self.folder, error.strerror or type(error).__name__) from error
        return checked_schema(schema_id, text)


def resolve(resolver: SchemaResolver, schema_id: int) -> WriterSchema:
    """The schema of an id, asked for once; raises CannotTell when nobody could be asked."""
    try:
        return _known(resolver, schema_id)
    except _Unknown as verdict:
        return verdict.schema


def unknown(schema_id: int) -> WriterSchema:
    return WriterSchema(schema_id, "", f"schema id {schema_id} is unknown")


def checked_schema(schema_id: int, text: str, kind: str = "AVRO", references: bool = False) -> WriterSchema:
    """The schema, or what keeps its records from being decoded."""
    if kind.upper() != "AVRO":
        return WriterSchema(schema_id, "", f"schema {schema_id} is {kind[:20]}, not Avro")
    if references:
        return WriterSchema(schema_id, "", f"schema {schema_id} refers to other schemas, which is not supported")
    try:
        json.loads(text)
    except ValueError:
        return WriterSchema(schema_id, "", f"schema {schema_id} is not JSON")
    return WriterSchema(schema_id, text)


class _Unknown(Exception):
    def __init__(self, schema: WriterSchema) -> None:
        super().__init__(schema.problem)
        self.schema = schema


@lru_cache(maxsize=4096)
def _known(resolver: SchemaResolver, schema_id: int) -> WriterSchema:
    schema = resolver.read_schema(schema_id)
    if schema.problem:
        # Raised, because what raises is not kept: the answer may be another one in the next batch.
        raise _Unknown(schema)
    return schema


def _folder_out_of_reach(folder: str, reason: str) -> CannotTell:
    return CannotTell(
        f"the folder of Avro schemas {folder!r} cannot be read: {reason}",
        meaning="Which schema the records were written with is not known. The batch was not written and will be tried "
        "again; no record was quarantined for it.",
        next=typed("ls", folder),
        do_not="point the stage at an empty folder to get it going: every record would go to quarantine.",
        code="SchemasOutOfReach",
    )
