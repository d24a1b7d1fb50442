"""Every pattern of present and missing files around the newest batch: 2,048 shapes, early in a query's life and late.

The oracle is a second, independent reading of Spark's restart rule, written from the table of its outcomes and not from
the code under test. Two questions for each shape: is the next start the predicted one, and is nothing called safe that
Spark itself never leaves behind?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.spark.spark_lines import NAMES
from surestart.verdict.restart import predict_next_start
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Verdict, verdict_of
from tests.checkpoint.checkpoint_maker import QUERY_ID, commit_text, compact, files, kafka, offsets_text
from tests.checkpoint.memory_storage import MemoryStorage

Shape = tuple[tuple[int, ...], tuple[int, ...], bool]


def shapes(first: int) -> Iterator[Shape]:
    ids = range(first, first + 5)
    subsets = [
        tuple(batch for batch, there in zip(ids, bits, strict=True) if there) for bits in product((0, 1), repeat=5)
    ]
    yield from product(subsets, subsets, (True, False))


def storage_of(shape: Shape, ahead: int) -> MemoryStorage:
    offsets, commits, metadata = shape
    held = {f"offsets/{batch}": offsets_text(kafka(batch), timestamp_ms=1).encode() for batch in offsets}
    held |= {f"commits/{batch}": commit_text().encode() for batch in commits}
    if metadata:
        held["metadata"] = compact({"id": QUERY_ID}).encode()
    held["sources/0/0"] = b"\x00v1\n" + kafka(ahead).encode()
    return MemoryStorage(held, ("offsets", "commits"))


def expected_start(shape: Shape, spark: str) -> tuple[str, int | None]:
    """(outcome, first batch) by the table of the internals page, section 2.1."""
    offsets, commits, metadata = shape
    newer = spark in ("4.1", "4.2")
    if not metadata and (offsets or commits) and spark == "4.2":
        return "fails", None
    if not offsets:
        if commits and newer:
            return "fails", None
        return ("loops", 0) if commits else ("first start", 0)
    latest = max(offsets)
    if latest > 0 and latest - 1 not in offsets:
        return ("cannot tell" if left_by_an_asynchronous_query(shape) else "fails"), None
    if not commits or max(commits) < latest:
        return "replays", latest
    return ("starts", latest + 1) if max(commits) == latest else ("loops", latest)


def left_by_an_asynchronous_query(shape: Shape) -> bool:
    """It writes an offset now and then, and the commit of each that it has written; the newest may be in flight."""
    offsets, commits, _ = shape
    alike = {one for one in {*offsets} ^ {*commits} if commits and one >= max(offsets[0], commits[0])}
    return bool(commits) and len(offsets) > 1 and alike <= {max(offsets)}


def left_by_spark(shape: Shape) -> bool:
    """Whether Spark itself, killed at any moment, leaves such files (older ones may be purged)."""
    offsets, commits, metadata = shape
    if not metadata or not offsets:
        return False
    latest = max(offsets)
    whole = offsets == tuple(range(offsets[0], latest + 1)) and (latest == 0 or len(offsets) > 1)
    if not commits:
        return whole and latest == 0
    return whole and commits == tuple(range(commits[0], commits[-1] + 1)) and commits[-1] in (latest, latest - 1)


@pytest.mark.parametrize("first", [0, 500], ids=["a young query", "a purged one"])
def test_every_pattern_of_files_is_predicted_and_none_is_wrongly_safe(first: int) -> None:
    verdicts: Counter[Verdict] = Counter()
    for shape in shapes(first):
        checkpoint = read_checkpoint("/memory", storage_of(shape, first))
        for spark in NAMES:
            start = predict_next_start(checkpoint, spark)
            assert (start.outcome.value, start.batch) == expected_start(shape, spark), (shape, spark)
            verdict = verdict_of(diagnose_checkpoint(checkpoint, spark=spark))
            if start.outcome.value in ("fails", "loops"):
                assert verdict is Verdict.UNSAFE, (shape, spark)
            assert (verdict is Verdict.SAFE) == left_by_spark(shape), (shape, spark, verdict)
            verdicts[verdict] += 1
    assert sum(verdicts.values()) == 2048 * len(NAMES)
    assert verdicts[Verdict.SAFE] > 0


def test_a_missing_identity_is_never_safe_and_said_by_every_prediction_that_runs() -> None:
    for shape in shapes(0):
        if shape[2] or not shape[0]:
            continue
        checkpoint = read_checkpoint("/memory", storage_of(shape, 0))
        start = predict_next_start(checkpoint, "4.0")
        assert start.new_identity or start.batch is None
        assert "METADATA_MISSING" in {finding.code for finding in diagnose_checkpoint(checkpoint)}


def test_the_file_sources_list_shows_what_the_logs_hide() -> None:
    """Both logs cut back alike look whole; the list of files seen goes on."""
    for kept in range(1, 4):
        held = {f"offsets/{batch}": offsets_text(files(batch), timestamp_ms=1).encode() for batch in range(kept)}
        held |= {f"commits/{batch}": commit_text().encode() for batch in range(kept)}
        held["metadata"] = compact({"id": QUERY_ID}).encode()
        entry = '{{"path":"file:///a/{0}","timestamp":1,"batchId":{0}}}'
        held |= {f"sources/0/{batch}": f"v1\n{entry.format(batch)}".encode() for batch in range(5)}
        codes = {finding.code for finding in diagnose_checkpoint(read_checkpoint("/memory", MemoryStorage(held)))}
        assert "REWOUND" in codes
