"""One stream as a person would write it by hand: what the evidence shows, and a question for what it does not show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.find_checkpoints import DELTA, FILE_SINK, ICEBERG
from surestart.facts.checkpoint.positions import AUTO_LOADER
from surestart.streams.adopt.found import Writer
from surestart.streams.adopt.join import Joined, JoinedSink, JoinedSource
from surestart.streams.change_file import toml_text, unwritable, write_over
from surestart.streams.project_file import SOURCE_KINDS, ProjectFile, parse_project_text, read_project_file
from surestart.typed import in_the_code

HEADER = """\
# The streams that surestart judges and guards. `surestart adopt` adds to this file and changes nothing in it.
# A line with a question mark is what no file shows: write it there, and take the # away. docs/adopt.md has each key.
"""
_WITH_SUBJECT = ("kafka", "delta", "files", "iceberg", "rate", "kinesis")
_OPERATIONS = {frozenset({"MERGE"}): "merge", frozenset({"WRITE"}): "append"}


def comment(value: str) -> str:
    """Text for behind a #: one line, without characters that a terminal would act on."""
    return "".join(one if one.isprintable() else f"\\x{ord(one) & 0xFF:02x}" for one in value)


def stream_text(name: str, joined: Joined) -> str:
    """The stream's table in the file. Raises NotCarriedByToml for a path that it cannot hold."""
    lines = [f"[stream.{name}]", f"checkpoint = {toml_text(joined.checkpoint.location)}"]
    lines += [*_sources(joined), *_sinks(joined)]
    if joined.checkpoint.output_mode not in ("", "append"):
        lines.append(f"output_mode = {toml_text(joined.checkpoint.output_mode)}")
    if joined.checkpoint.state and all(joined.checkpoint.state):
        lines.append(f"state = [{', '.join(map(toml_text, joined.checkpoint.state))}]")
    elif joined.checkpoint.state:
        lines.append("# state = ?  it has stateful operators, and Spark before 4.0 wrote no names of them")
    return "\n".join(lines) + "\n"


def count_questions(joined: Joined) -> int:
    """How many lines of the stream's table ask for what no file shows."""
    sources = sum(not _source(one) for one in joined.sources) if joined.sources else 1
    sinks = len(joined.asks) + joined.open_sinks if joined.sinks else 1
    return sources + sinks + (not all(joined.checkpoint.state))


def _sources(joined: Joined) -> Iterator[str]:
    told = [_source(one) for one in joined.sources]
    asks = [comment(f"{one.source.kind}: {one.asks}") for one in joined.sources if one.asks]
    if not told:
        unread = comment(joined.checkpoint.unread)
        yield f"# source = ?  {f'not read: {unread}' if unread else 'no batch was planned yet'}"
    elif all(told):
        yield from _key("source", [one for one in told if one], "")
        yield from (f"#   {ask}" for ask in asks)
    else:
        shown = [one or comment(_question(joined.sources[index])) for index, one in enumerate(told)]
        yield f"# source = {shown[0] if len(shown) == 1 else '[' + ', '.join(shown) + ']'}"
        yield from (f"#   {ask}" for ask in asks)
    if any(one.source.kind == "kafka" for one in joined.sources):
        yield '#   kafka: bootstrap = "host:port" beside the topic lets the brokers be asked what they still have'


def _source(one: JoinedSource) -> str:
    """As an inline table; "" where the checkpoint does not say enough."""
    source = one.source
    subject = one.location if source.kind in (DELTA, ICEBERG) else source.subject
    if source.kind not in _WITH_SUBJECT or not subject:
        return ""
    return f"{{ {source.kind} = {toml_text(subject)} }}"


def _question(one: JoinedSource) -> str:
    kind = one.source.kind
    if kind == AUTO_LOADER:
        return "{ auto-loader = ? }"
    shown = f" ({one.source.shown})" if one.source.shown else ""
    return f"{{ {kind} = ? }}" if kind in SOURCE_KINDS else f"?{shown}"


def _sinks(joined: Joined) -> Iterator[str]:
    if not joined.sinks:
        yield f"# sink = ?  {comment(joined.asks[0]) if joined.asks else 'no table that was read knows this query'}"
        yield from (f"#   {comment(ask)}" for ask in joined.asks[1:])
        return
    yield from _key("sink", [_sink(one) for one in joined.sinks], _recognised(joined))
    yield from (f"#   {comment(f'{one.table.location}: {one.asks}')}" for one in joined.sinks if one.asks)
    yield from (f"#   another sink = ?  {comment(ask)}" for ask in joined.asks)
    if joined.open_sinks:
        yield 'other_sinks = "unknown"  # a function wrote it: take this line away if it writes nowhere else'


def _sink(one: JoinedSink) -> str:
    shared = ", shared = true" if one.shared else ""
    return f"{{ {_kind(one)} = {toml_text(one.table.location)}{shared} }}"


def _kind(one: JoinedSink) -> str:
    if one.table.kind == ICEBERG:
        return ICEBERG
    if one.table.kind == FILE_SINK:
        return "parquet"
    operations = frozenset[str]().union(*(writer.operations for writer in one.writers))
    return _OPERATIONS.get(operations, DELTA)


def _recognised(joined: Joined) -> str:
    """How the first sink recognises a batch that it has."""
    if len(joined.sinks) != 1:
        return ""
    writers = joined.sinks[0].writers
    newest = max(writers, key=lambda one: one.last_batch)
    return comment(f"knows each batch by {_identity(writers, joined)}, up to batch {newest.last_batch}")


def _identity(writers: tuple[Writer, ...], joined: Joined) -> str:
    if all(one.app_id == joined.checkpoint.query_id for one in writers):
        return "the query id"
    return ", ".join(one.app_id.replace(joined.checkpoint.query_id, "the query id") for one in writers)


def _key(name: str, tables: list[str], remark: str) -> Iterator[str]:
    behind = f"  # {remark}" if remark else ""
    if len(tables) == 1:
        yield f"{name} = {tables[0]}{behind}"
        return
    yield f"{name} = ["
    yield from (f"    {one}," for one in tables)
    yield "]"


def read_if_there(path: Path) -> ProjectFile | None:
    """What the file declares by now; None for one that is not there. Raises for one that is not understood."""
    try:
        path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unwritable(path, error) from error
    return read_project_file(path)


def add_to_file(path: Path, text: str, names: tuple[str, ...]) -> None:
    """The file declares these streams as well; what it held before is unchanged. Raises with nothing written."""
    target = Path(os.path.realpath(path))
    try:
        before = target.read_bytes() if target.exists() else b""
    except OSError as error:
        raise unwritable(path, error) from error
    write_over(path, before, _added(path, before, text, names))


def _added(path: Path, before: bytes, text: str, names: tuple[str, ...]) -> bytes:
    head = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    more = text if before else f"{HEADER}\n{text}"
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    after = before + (head + more.encode("utf-8")).replace(b"\n", newline)
    old = parse_project_text(path, before.decode("utf-8")) if before else None
    declared = () if old is None else old.streams
    try:
        new = parse_project_text(path, after.decode("utf-8"))
    except UsageError as error:
        raise Refused(
            f"{path} cannot be added to: {error.what}",
            meaning="Its streams are written in a form that cannot be added to, such as stream = { … } on one line. "
            "Nothing was changed.",
            next=in_the_code("write each stream as a table of its own: [stream.orders]"),
            code="ProjectFileClosed",
        ) from error
    assert new.streams[: len(declared)] == declared, "what was there has changed"
    assert tuple(stream.name for stream in new.streams[len(declared) :]) == names
    return after
