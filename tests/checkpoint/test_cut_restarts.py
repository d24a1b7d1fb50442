"""Streams cut at a batch and started again for real: exact rows, whatever keeps the state, wherever the cut lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.facts.delta import read_table_rows
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from tests.checkpoint.rewind_lab import (
    COUNTS,
    DEDUP,
    KINDS,
    LAST,
    PLAIN,
    PROVIDERS,
    Kind,
    Lab,
    rewind,
    rows_of,
)

# The first batch, one inside, one of a compacted list of files, the one before the last.
BATCHES = (0, 3, 5, LAST - 1)


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, pairs(EVERYWHERE)):
        yield


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("rewound") / "lab")


def rewound_is_exact(lab: Lab, kind: Kind, provider: str, batch: int) -> None:
    with lab.with_settings(provider):
        place = lab.copy(kind, provider, str(batch))
        rewind(lab.spark, place, batch)
        lab.run(kind, place)
        assert rows_of(kind, place) == kind.expected


@pytest.mark.long(instead="checkpoint/test_cut.py::test_what_is_written_is_what_was_shown")
def test_a_stream_with_state_goes_on_from_a_batch_in_the_middle(lab: Lab, classic_only: None) -> None:
    rewound_is_exact(lab, DEDUP, "changelog", 5)


CASES = [(kind, provider) for kind in KINDS for provider in PROVIDERS if kind is not PLAIN or provider == "hdfs"]


@pytest.mark.chaos
@pytest.mark.parametrize(("kind", "provider"), CASES, ids=[f"{kind.name} {provider}" for kind, provider in CASES])
def test_every_kind_of_state_goes_on_from_every_place(lab: Lab, kind: Kind, provider: str, classic_only: None) -> None:
    for batch in BATCHES:
        rewound_is_exact(lab, kind, provider, batch)


@pytest.mark.chaos
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_rewound_stream_is_rewound_again(lab: Lab, provider: str, classic_only: None) -> None:
    with lab.with_settings(provider):
        place = lab.copy(COUNTS, provider, "again")
        rewind(lab.spark, place, 4)
        lab.run(COUNTS, place)
        rewind(lab.spark, place, 5)
        lab.run(COUNTS, place)
        assert rows_of(COUNTS, place) == COUNTS.expected


@pytest.mark.chaos
def test_a_stream_that_reads_a_table_goes_on_from_there(lab: Lab, tmp_path: Path, classic_only: None) -> None:
    with lab.with_settings("hdfs"):
        source = lab.base(PLAIN, "hdfs")
        assert len(list(read_table_rows(str(source.table)))) == PLAIN.expected.total()
        from_table = Lab(
            lab.spark,
            tmp_path / "table",
            lambda spark: (
                spark.readStream.format("delta")
                .option("maxFilesPerTrigger", 1)
                .load(str(source.table))
                .selectExpr("id", "0L AS s")
            ),
        )
        for batch in (0, 4):
            rewound_is_exact(from_table, DEDUP, "hdfs", batch)
