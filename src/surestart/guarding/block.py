"""Streams that somebody else's code starts: inside the block its calls of `start` and `toTable` are guarded.

    with surestart.guard(spark, "orders"):
        their_module.main()

Claimed and judged when the block begins; each start inside it is compared with the declaration. A query goes on being
watched after the block. pyspark's DataStreamWriter is changed while such a block is open and is as before afterwards.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.guarding.declared import Declared, find_declared
from surestart.guarding.start import open_declared, start_declared, starting, writes_to
from surestart.guarding.watched import watch
from surestart.library_types import SparkSession
from surestart.runs.guarded_run import GuardedRun
from surestart.spark.stream_writer import read_writer, session_of_writer, writer_class
from surestart.streams.stream import Stream


class _Block:
    """The streams of one block, and the gates that were opened for them and not used yet."""

    def __init__(self, accept: Sequence[str]) -> None:
        self.accept = accept
        self.opened: dict[str, GuardedRun] = {}
        self.declared: list[Declared] = []

    def take(self, declared: Declared) -> GuardedRun | None:
        return self.opened.pop(declared.stream.name, None)


_lock = threading.RLock()
_blocks: list[_Block] = []
_inside: ContextVar[tuple[_Block, ...]] = ContextVar("surestart_guard", default=())


@contextmanager
def guard(
    spark: SparkSession, *streams: Stream | str, accept: Sequence[str] = (), file: str | Path = ""
) -> Iterator[None]:
    """Inside the block these streams, and no others, may be started by whatever code; each is claimed and judged
    already. Raises Refused or CannotTell, with nothing written, when one of them may not start. file: the
    surestart.toml that declares them, if it is not found from the working folder. What was started goes on after the
    block."""
    block = _Block(accept)
    with ExitStack() as ends:
        for stream in streams:
            declared = find_declared(stream, file)
            block.declared.append(declared)
            block.opened[declared.stream.name] = open_declared(spark, declared, accept)
            ends.push(functools.partial(_close, spark, block, declared))
        with _writers_changed(writer_class(spark)), _entered(block):
            yield


def _close(spark: SparkSession, block: _Block, declared: Declared, kind: Any, reason: Any, trace: Any) -> None:
    """Streams that were not started give up their claims. A query that was not started by a Python writer is found by
    its id, and watched."""
    run = block.take(declared)
    if run is None:
        return
    query_id = read_checkpoint(declared.stream.checkpoint, entries=1).query_id
    query = next((one for one in spark.streams.active if query_id and str(one.id) == query_id), None)
    if query is None:
        run.end_with(reason)
        return
    run.started(str(query.id))
    watch(spark, query, run, declared.stream)


@contextmanager
def _entered(block: _Block) -> Iterator[None]:
    with _lock:
        _blocks.append(block)
    token = _inside.set((*_inside.get(), block))
    try:
        yield
    finally:
        _inside.reset(token)
        with _lock:
            _blocks.remove(block)


_changed: dict[type, int] = {}


@contextmanager
def _writers_changed(kind: Any) -> Iterator[None]:
    with _lock:
        _changed[kind] = _changed.get(kind, 0) + 1
        if _changed[kind] == 1:
            kind.start, kind.toTable = _guarded(kind.start, "path"), _guarded(kind.toTable, "tableName")
    try:
        yield
    finally:
        with _lock:
            _changed[kind] -= 1
            if not _changed[kind]:
                kind.start, kind.toTable = kind.start.__wrapped__, kind.toTable.__wrapped__


def _guarded(original: Callable[..., Any], target: str) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(writer: Any, *args: Any, **kwargs: Any) -> Any:
        block = None if starting.get() else _block_of(writer, signature.bind(writer, *args, **kwargs).arguments)
        if block is None:
            return original(writer, *args, **kwargs)
        given = dict(signature.bind(writer, *args, **kwargs).arguments)
        named = given.pop(target, None) or ""
        return start_declared(
            writer,
            block.declared,
            lambda: original(writer, *args, **kwargs),
            path=named if target == "path" else "",
            table=named if target == "tableName" else "",
            options=_options(given),
            accept=block.accept,
            opened=block.take,
        )

    return call


def _block_of(writer: Any, given: dict[str, Any]) -> _Block | None:
    """The block that knows the writer's checkpoint, of whichever thread; else the one that this code stands in, where
    no other stream may start."""
    spark, facts = session_of_writer(writer), read_writer(writer, _options(given))
    with _lock:
        blocks = list(_blocks)
    for block in reversed(blocks):
        if facts.checkpoint and any(writes_to(spark, facts, one.stream) for one in block.declared):
            return block
    return next(reversed(_inside.get()), None)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """What start and toTable were called with, as one mapping."""
    named = {key: value for key, value in given.items() if key in ("format", "queryName")}
    return {**named, **given.get("options", {})}
