"""What a writer of Spark's own sinks writes, against what was declared of it."""

from __future__ import annotations

import pytest

import surestart
from surestart.facts.evidence.sink_names import read_sink_name
from surestart.guarding.start import with_sink_of_writer


@pytest.mark.parametrize(
    ("writes", "declared"),
    [
        # Its rows are kept by nobody, so any name will do.
        ("console:console", {"console": "screen"}),
        ("noop:noop", {"noop": "x"}),
        # `adopt` sees of a file sink that it is one, and not which.
        ("csv:/out", {"parquet": "/out"}),
        ("delta-builtin:/table", {"delta": "file:/table/"}),
        ("delta-builtin:main.bronze.orders", {"append": "bronze.orders"}),
        ("delta-builtin:/table", {"delta": "main.bronze.orders"}),
        ("kafka:out", {"kafka": "out"}),
        ("kafka:out", {"other": "out of sight"}),
    ],
)
def test_what_may_be_the_same_sink_is_one(writes: str, declared: dict[str, str]) -> None:
    stream = surestart.declare_stream("orders", "/checkpoint", sink=declared)
    assert with_sink_of_writer(stream, read_sink_name(writes)) is stream


@pytest.mark.parametrize(
    ("writes", "declared"),
    [
        # A look at the screen with the stream's own checkpoint: the table would never get those batches.
        ("console:console", {"delta": "/table"}),
        ("memory:orders", {"delta": "main.bronze.orders"}),
        ("noop:noop", {"kafka": "noop"}),
        ("parquet:/table", {"delta": "/table"}),
        ("kafka:orders", {"parquet": "/out/orders"}),
        ("delta-builtin:/table", {"delta": "/tables"}),
        ("kafka:orders", {"kafka": "payments"}),
    ],
)
def test_two_sinks_are_refused(writes: str, declared: dict[str, str]) -> None:
    stream = surestart.declare_stream("orders", "/checkpoint", sink=declared)
    with pytest.raises(surestart.Refused, match="SinkNotDeclared"):
        with_sink_of_writer(stream, read_sink_name(writes))
