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

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import is_absolute
from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import SINK_KINDS, read_sink_name, say_of
from surestart.history.checkpoint_place import checkpoint_place
from surestart.sources.kafka import NO_BOOTSTRAP, is_bootstrap
from surestart.streams.stream import Stream
from surestart.typed import in_the_code
from surestart.words.inert import redact

FILE = "surestart.toml"
SOURCE_KINDS = ("kafka", "delta", "files", "auto-loader", "iceberg", "kinesis", "event-hubs", "rate", "memory", "other")
SINK_WORDS = {"merge": "delta-merge", "append": "delta-append"}
FILE_KEYS = ("pipeline", "history", "stream")
OTHER_SINKS = ("none", "unknown")
STREAM_KEYS = ("checkpoint", "source", "sink", "other_sinks", "output_mode", "state")
OUTPUT_MODES = ("append", "update", "complete")
_LONGEST = 16 << 20
# Said of a sink beside its kind.
SINK_KEYS = {
    "shared": "true",
    "new": "true",
    "keys": '["id"]',
    "app_id": '"NAME"',
    "ledger": '"TABLE"',
    "bootstrap": '"host:port"',
}
_SOURCES_BY_PATH = ("delta", "files", "auto-loader", "iceberg")
_NO_PATHS = ("kafka", "jdbc", "postgres", "foreach", "console", "memory", "noop", "other", "rate", "kinesis")


@dataclass(frozen=True)
class ProjectFile:
    """path: the file.
    pipeline: module:attribute of a pipeline in code, or "".
    history: the folder, or the catalog and schema with a dot, where runs and claims of the declared streams are kept.
    """

    path: Path
    pipeline: str = ""
    history: str = ""
    streams: tuple[Stream, ...] = ()


def find_project_file(folder: Path | None = None) -> Path | None:
    """The nearest surestart.toml in the folder or above it."""
    start = (folder or Path.cwd()).absolute()
    # Unlike Path.is_file, not raising where a folder above may not be entered.
    return next((place / FILE for place in (start, *start.parents) if os.path.isfile(place / FILE)), None)  # noqa: PTH113


def read_project_file(path: Path) -> ProjectFile:
    """What the file says; raises UsageError, with the place, for what is not understood."""
    try:
        if path.exists() and not path.is_file():
            raise _Reader(path).bad("is no file that can be read to its end")
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise _Reader(path).bad(f"has more than {_LONGEST:,} characters: no file of streams")
    except OSError as error:
        raise _Reader(path).bad(f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise _Reader(path).bad(f"is not TOML: {error}") from error
    return parse_project_text(path, text)


def parse_project_text(path: Path, text: str) -> ProjectFile:
    """What this text says: it is in the file, or is about to be written there."""
    reader = _Reader(path, text)
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.bad(f"is not TOML: {error}") from error
    return reader.read(found)


def declare_stream(
    name: str,
    checkpoint: str,
    *,
    source: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    sink: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    output_mode: str = "append",
    state: Sequence[str] = (),
) -> Stream:
    """A stream in the words of `surestart.toml`: source={"kafka": "orders"}, sink={"delta": "/t", "shared": True}.

    source, sink: one, or a list of them. Without sources the checkpoint tells them; without sinks nobody does."""
    said: dict[str, Any] = {"checkpoint": checkpoint, "output_mode": output_mode, "state": list(state)}
    for key, value in (("source", source), ("sink", sink)):
        said[key] = dict(value) if isinstance(value, Mapping) else [dict(one) for one in value]
    return _Reader(Path("declare_stream"), stream=name).read_stream(said)


@dataclass(frozen=True)
class _Reader:
    """The file while it is read.

    stream: the one that is being read, for the place that an error names."""

    path: Path
    text: str = ""
    stream: str = ""

    def read(self, found: Mapping[str, Any]) -> ProjectFile:
        self.refuse_unknown(found, FILE_KEYS)
        streams = found.get("stream", {})
        if not isinstance(streams, dict):
            raise self.bad("has a `stream` that is not a table of streams", "stream")
        read = tuple(replace(self, stream=name).read_stream(said) for name, said in streams.items())
        self.refuse_doubles(read)
        return ProjectFile(self.path, self.plain_text(found, "pipeline"), self.read_history(found), read)

    def read_history(self, found: Mapping[str, Any]) -> str:
        said = self.plain_text(found, "history")
        if "\0" in said:
            raise self.bad(f"history = {said!r} holds a NUL, which no path can", "history")
        if not said:
            return str(self.path.absolute().parent / ".surestart" / "streams")
        if not is_absolute(said) and (said.startswith("~") or "/" in said or said.count(".") != 1):
            raise self.bad(f"history = {said!r} is neither a whole path nor CATALOG.SCHEMA", "history")
        return said

    def read_stream(self, said: Any) -> Stream:
        if not isinstance(said, dict):
            raise self.bad(f"stream.{self.stream} is not a table")
        self.refuse_unknown(said, STREAM_KEYS)
        checkpoint = self.place(self.plain_text(said, "checkpoint"), "checkpoint")
        if not checkpoint:
            raise self.bad("names no checkpoint")
        if not is_absolute(checkpoint):
            raise self.bad(f"checkpoint = {checkpoint!r} is not a whole path", "checkpoint")
        state = said.get("state", [])
        if not isinstance(state, list) or not all(isinstance(one, str) for one in state):
            raise self.bad("state is not a list of names", "state")
        mode = self.plain_text(said, "output_mode") or "append"
        if mode not in OUTPUT_MODES:
            raise self.bad(f"output_mode = {mode!r} is none of {', '.join(OUTPUT_MODES)}", "output_mode")
        others = self.plain_text(said, "other_sinks") or OTHER_SINKS[0]
        if others not in OTHER_SINKS:
            raise self.bad(f"other_sinks = {others!r} is none of {', '.join(OTHER_SINKS)}", "other_sinks")
        return Stream(
            name=self.stream,
            checkpoint=checkpoint,
            sources=tuple(self.read_source(one) for one in self.tables(said, "source")),
            sinks=tuple(self.read_sink(one) for one in self.tables(said, "sink")),
            output_mode=mode,
            state=tuple(state),
            open_sinks=others != OTHER_SINKS[0],
        )

    def read_source(self, said: Mapping[str, Any]) -> SourceDeclaration:
        kind, target = self.kind("source", said, SOURCE_KINDS)
        for key, value in said.items():
            if not isinstance(value, str | bool | int | float):
                raise self.bad(f"source: what {key} has is neither a text nor a number", "source")
        options = tuple(sorted((key, _plain(value)) for key, value in said.items() if key != kind))
        bootstrap = dict(options).get("bootstrap", "")
        if kind == "kafka" and bootstrap and not is_bootstrap(bootstrap):
            raise self.bad(f"source: {NO_BOOTSTRAP}", "source")
        by_path = kind in _SOURCES_BY_PATH and "/" in target
        return SourceDeclaration(kind, target, target if by_path else "", options)

    def read_sink(self, said: Mapping[str, Any]) -> SinkDeclaration:
        kind, target = self.kind("sink", said, (*SINK_KINDS, *SINK_WORDS))
        sink = read_sink_name(f"{SINK_WORDS.get(kind, kind)}:{target}")
        if is_absolute(target) and kind not in _NO_PATHS:
            # A path may have back-ticks in it; that does not make it a table's name.
            sink = replace(sink, target=target, path=target)
        for key, value in said.items():
            if key == kind:
                continue
            if key == "shared" and isinstance(value, bool):
                sink = replace(sink, shared=value)
            elif key == "new" and isinstance(value, bool):
                sink = replace(sink, new=value)
            elif key == "keys" and isinstance(value, list) and value and all(map(_is_named, value)):
                sink = replace(sink, keys=tuple(value))
            elif key == "app_id" and isinstance(value, str) and value:
                sink = say_of(sink, f"app-id={value}")
            elif key == "ledger" and isinstance(value, str) and value:
                sink = say_of(sink, f"ledger={value}")
            elif key == "bootstrap" and kind == "kafka" and isinstance(value, str):
                sink = replace(sink, bootstrap=read_sink_name(f"kafka://{value}/{target}").bootstrap)
            else:
                known = ", ".join(f"{name} = {form}" for name, form in SINK_KEYS.items())
                raise self.bad(f"sink: {key} = {value!r} says nothing of a sink; it is said so: {known}", "sink")
        return sink

    def kind(self, what: str, said: Mapping[str, Any], kinds: tuple[str, ...]) -> tuple[str, str]:
        found = [key for key in said if key in kinds]
        if len(found) != 1 or not isinstance(said[found[0]], str) or not said[found[0]]:
            raise self.bad(
                f"{what} with {', '.join(said) or 'no key'} names {len(found)} kinds; it takes one of "
                f"{', '.join(kinds)}, with its target as text",
                what,
            )
        target = said[found[0]]
        if redact(target) != target and (found[0] in _NO_PATHS or "@" in target):
            # A path may well have token=… in it.
            raise self.bad(
                f"{what}: its {found[0]} has a password in it, and whatever stands here is shown; leave it out", what
            )
        return found[0], target if found[0] in _NO_PATHS else self.place(target, what)

    def place(self, said: str, key: str) -> str:
        """Raises for a path that means another folder to another reader. A table's name has no slash, or is in back-
        ticks."""
        if "\0" in said:
            raise self.bad(f"{key}: {said!r} holds a NUL, which no path and no name can", key)
        if said.startswith("~"):
            whole = os.path.expanduser(said)  # noqa: PTH111 - as it is, where nobody of that name is known
            known = "" if whole.startswith("~") else f"; here it is {whole}"
            raise self.bad(f"{key}: {said!r} is another folder for every user{known}", key)
        if not is_absolute(said) and "`" not in said and ("/" in said or said.startswith(".")):
            raise self.bad(f"{key}: {said!r} is a relative path, and another folder wherever it is read from", key)
        return said

    def tables(self, said: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        found = said.get(key, [])
        tables = found if isinstance(found, list) else [found]
        if not all(isinstance(one, dict) for one in tables):
            raise self.bad(f"{key} = {found!r} is neither a table nor a list of tables", key)
        return tables

    def plain_text(self, said: Mapping[str, Any], key: str) -> str:
        value = said.get(key, "")
        if not isinstance(value, str):
            raise self.bad(f"{key} = {value!r} is not a text", key)
        return value

    def refuse_unknown(self, said: Mapping[str, Any], known: tuple[str, ...]) -> None:
        unknown = sorted(said.keys() - set(known))
        if unknown:
            raise self.bad(f"has the unknown {', '.join(unknown)}; known: {', '.join(known)}", unknown[0])

    def refuse_doubles(self, streams: tuple[Stream, ...]) -> None:
        """Refuses two names for one checkpoint, however it is spelled, and names that would share one claim's file."""
        places: dict[str, str] = {}
        names: dict[str, str] = {}
        for stream in streams:
            place = checkpoint_place(stream.checkpoint)
            for other, what in ((places.get(place), "the same checkpoint as"), (names.get(stream.name.lower()), "")):
                if other is not None:
                    what = f"has {what} {other}" if what else f"differs from {other} by case alone"
                    raise replace(self, stream=stream.name).bad(what, "checkpoint")
            places[place] = names[stream.name.lower()] = stream.name

    def bad(self, what: str, key: str = "") -> UsageError:
        where = f" [stream.{self.stream}]" if self.stream else ""
        line = line_of(self.text, self.stream, key)
        return UsageError(
            f"{self.path}{f', line {line},' if line else ''}{where} {redact(what)}",
            meaning="A stream that is misread would be judged by another's "
            "evidence, so no stream of the file was judged.",
            next=in_the_code(f"correct {self.path}; docs/adopt.md has each key"),
            code="ProjectFileNotUnderstood",
        )


def line_of(text: str, stream: str, key: str) -> int:
    """The line of that key, else of its stream, as far as plain spelling tells; 0 where it does not."""
    lines = text.splitlines()
    begin = 0
    if stream:
        header = re.compile(rf"\s*\[\s*stream\s*\.\s*(['\"]?){re.escape(stream)}\1\s*\]")
        begin = next((number for number, line in enumerate(lines, 1) if header.match(line)), 0)
        if not begin:
            return 0
    behind = enumerate(lines[begin:], begin + 1)
    end = next((number for number, line in behind if line.startswith("[")), len(lines) + 1)
    wanted = re.compile(rf"\s*(['\"]?){re.escape(key)}\1\s*=") if key else None
    inner = (number for number in range(begin + 1, end) if wanted and wanted.match(lines[number - 1]))
    return next(inner, begin)


def _is_named(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
