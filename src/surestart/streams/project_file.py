"""`surestart.toml`: the file in which a person says which streams there are. The doctor reads it without Spark.

    history = "/Volumes/main/ops/surestart"          where runs and claims are kept; default .surestart/streams beside
    pipeline = "my_package.stages:PIPELINE"          a pipeline in code, whose stages surestart runs

    [stream.orders]
    checkpoint = "s3://bucket/chk/orders_v2"
    source = { kafka = "orders", bootstrap = "k1:9092" }
    sink = { delta = "main.bronze.orders", shared = true }

A source and a sink are one table, or a list of them. In each, one key is its kind and the value its target.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import SINK_KINDS, read_sink_name, say_of
from surestart.streams.stream import Stream
from surestart.typed import in_the_code

FILE = "surestart.toml"
SOURCE_KINDS = ("kafka", "delta", "files", "auto-loader", "iceberg", "kinesis", "event-hubs", "rate", "memory", "other")
_SINK_WORDS = {"merge": "delta-merge", "append": "delta-append"}
_KEYS = {"pipeline", "history", "stream"}
_STREAM_KEYS = {"checkpoint", "source", "sink", "output_mode", "state"}


@dataclass(frozen=True)
class ProjectFile:
    """path: the file. pipeline: module:attribute of a pipeline in code, or "". history: the folder, or the catalog and
    schema with a dot, where runs and claims of the declared streams are kept."""

    path: Path
    pipeline: str = ""
    history: str = ""
    streams: tuple[Stream, ...] = ()


def find_project_file(folder: Path | None = None) -> Path | None:
    """The nearest surestart.toml in the folder or above it."""
    start = (folder or Path.cwd()).absolute()
    return next((place / FILE for place in (start, *start.parents) if (place / FILE).is_file()), None)


def read_project_file(path: Path) -> ProjectFile:
    """What the file says; raises UsageError, with the place, for what is not understood."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise _bad(path, f"is not TOML: {error}") from error
    _refuse_unknown(path, found, _KEYS, "the file")
    streams = found.get("stream", {})
    if not isinstance(streams, dict):
        raise _bad(path, "has a `stream` that is no table of streams")
    return ProjectFile(
        path=path,
        pipeline=_text(path, found, "pipeline", "the file"),
        history=_text(path, found, "history", "the file") or str(path.absolute().parent / ".surestart" / "streams"),
        streams=tuple(_read_stream(path, name, said) for name, said in streams.items()),
    )


def _read_stream(path: Path, name: str, said: Any) -> Stream:
    where = f"[stream.{name}]"
    if not isinstance(said, dict):
        raise _bad(path, f"{where} is no table")
    _refuse_unknown(path, said, _STREAM_KEYS, where)
    checkpoint = _text(path, said, "checkpoint", where)
    if not checkpoint:
        raise _bad(path, f"{where} names no checkpoint")
    state = said.get("state", [])
    if not isinstance(state, list) or not all(isinstance(one, str) for one in state):
        raise _bad(path, f"{where} state is not a list of names")
    return Stream(
        name=name,
        checkpoint=checkpoint,
        sources=tuple(_read_source(path, where, one) for one in _tables(path, where, said, "source")),
        sinks=tuple(_read_sink(path, where, one) for one in _tables(path, where, said, "sink")),
        output_mode=_text(path, said, "output_mode", where) or "append",
        state=tuple(state),
    )


def _read_source(path: Path, where: str, said: Mapping[str, Any]) -> SourceDeclaration:
    kind, target = _kind(path, where, "source", said, SOURCE_KINDS)
    options = tuple(sorted((key, _plain(value)) for key, value in said.items() if key != kind))
    by_path = kind in ("delta", "files", "auto-loader", "iceberg") and "/" in target
    return SourceDeclaration(kind, target, target if by_path else "", options)


def _read_sink(path: Path, where: str, said: Mapping[str, Any]) -> SinkDeclaration:
    kind, target = _kind(path, where, "sink", said, (*SINK_KINDS, *_SINK_WORDS))
    sink = read_sink_name(f"{_SINK_WORDS.get(kind, kind)}:{target}")
    for key, value in said.items():
        if key == kind:
            continue
        if key == "shared" and isinstance(value, bool):
            sink = replace(sink, shared=value)
        elif key == "new" and isinstance(value, bool):
            sink = replace(sink, new=value)
        elif key == "keys" and isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            sink = replace(sink, keys=tuple(value))
        elif key == "app_id" and isinstance(value, str) and value:
            sink = say_of(sink, f"app-id={value}")
        else:
            raise _bad(path, f"{where} sink: {key} = {value!r} says nothing of a sink: shared, new, keys, app_id")
    return sink


def _kind(path: Path, where: str, what: str, said: Mapping[str, Any], kinds: tuple[str, ...]) -> tuple[str, str]:
    found = [key for key in said if key in kinds]
    if len(found) != 1 or not isinstance(said[found[0]], str) or not said[found[0]]:
        raise _bad(
            path,
            f"{where} {what} = {dict(said)!r} names {len(found)} kinds; it takes one of {', '.join(kinds)}, "
            "with its target as text",
        )
    return found[0], said[found[0]]


def _tables(path: Path, where: str, said: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = said.get(key, [])
    tables = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in tables):
        raise _bad(path, f"{where} {key} = {found!r} is neither a table nor a list of tables")
    return tables


def _text(path: Path, said: Mapping[str, Any], key: str, where: str) -> str:
    value = said.get(key, "")
    if not isinstance(value, str):
        raise _bad(path, f"{where}: {key} = {value!r} is not a text")
    return value


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_unknown(path: Path, said: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(said.keys() - known)
    if unknown:
        raise _bad(path, f"{where} has the unknown {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def _bad(path: Path, what: str) -> UsageError:
    return UsageError(
        f"{path} {what}",
        meaning="A stream that is misread would be judged by another's evidence, so no stream of the file was judged.",
        next=in_the_code(f"correct {path}; docs/adopt.md has each key"),
        code="ProjectFileNotUnderstood",
    )
