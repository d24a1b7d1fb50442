"""The stage and the independent judge take the same lines for readings, whatever a sensor sends.

They read JSON by different libraries and share no code; each line on which they differ is a row that the count of
`make run` reports as a fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.count import judge
from sensor_pipeline.deserialize import to_readings
from surestart.environment import Environment, environment_from_settings
from surestart.spark.session import applied
from tests.conftest import AS_USERS_HAVE_IT
from tests.deltalog.handmade import add, create, write_commit
from tests.foundation.hostile_lines import BAD, GOOD, LINES, mangled
from tests.foundation.rows import account, run_all

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def land_lines(root: Path, lines: Iterable[bytes]) -> Environment:
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    landing = Path(environment.landing)
    landing.mkdir(parents=True)
    (landing / "lines.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return environment


def read(spark: Any, environment: Environment) -> list[Any]:
    """The landed lines as to_readings decides them, in their order."""
    from sensor_pipeline.raw_ingest import to_raw
    from sensor_pipeline.stages import build_stages

    raw = to_raw(build_stages({})[0].source.read_batch(spark, environment))
    with applied(spark, AS_USERS_HAVE_IT):
        rows = to_readings(raw).selectExpr("*", "unix_micros(reading_time) AS micros").drop("reading_time").collect()
    return sorted(rows, key=lambda row: row.offset)


def as_judged(row: Any) -> Any:
    """The reading of a row in the form in which judge() gives it; None for a row with a reason."""
    if row.reason is not None:
        return None
    time = EPOCH + timedelta(microseconds=row.micros)
    return row.sensor_id, time, row.revision, row.temperature, row.humidity, row.battery


def test_the_judge_refuses_exactly_the_bad_lines() -> None:
    assert [name for name, line in GOOD.items() if judge(line) is None] == []
    assert [name for name, (line, _) in BAD.items() if judge(line) is not None] == []
    assert judge(None) is None


def test_each_hostile_line_is_a_reading_or_has_its_reason(spark: Any, tmp_path: Path) -> None:
    rows = read(spark, land_lines(tmp_path, (line for line, _ in LINES.values())))
    assert [bytes(row.payload) for row in rows] == [line for line, _ in LINES.values()]

    wrong = {}
    for row, (name, (line, reason)) in zip(rows, LINES.items(), strict=True):
        expected = judge(line)
        if as_judged(row) != expected or not (row.reason or "").startswith(reason):
            wrong[name] = (row.reason, expected)
    assert wrong == {}
    # What a line says of its room arrives as it is.
    rooms = {name: row.room for row, name in zip(rows, LINES, strict=True)}
    assert rooms["an escaped NUL"] == "\0"
    assert rooms["a field's text in the room"] == '"room":5,'
    assert rooms["a surrogate pair"] == "🌡"
    assert (rooms["room null"], rooms["a room called null"]) == (None, "null")


def test_hostile_lines_pass_through_all_stages_without_a_fault(spark: Any, tmp_path: Path) -> None:
    environment = land_lines(tmp_path, (line for line, _ in LINES.values()))

    run_all(spark, environment)

    counted = account(environment)
    assert counted.faults == {}
    assert (counted.deserialized, counted.quarantined) == (len(GOOD), len(BAD))
    assert counted.gold == len({as_key(judge(line)) for line in GOOD.values()})


def as_key(reading: Any) -> tuple[str, datetime]:
    return reading[:2]


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_stage_and_judge_agree_on_mangled_lines(spark: Any, tmp_path: Path, seed: int) -> None:
    lines = list(mangled(40_000, seed))
    rows = read(spark, land_lines(tmp_path, lines))
    assert len(rows) == len(lines) > 30_000

    differ = [
        (line, row.reason, judge(line)) for row, line in zip(rows, lines, strict=True) if as_judged(row) != judge(line)
    ]

    assert differ[:10] == []
    # Both answers occur often enough to mean something.
    assert 1000 < sum(row.reason is None for row in rows) < len(rows) - 1000


TIMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1500, 6, 1, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2262, 4, 12, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


@pytest.mark.parametrize("int96", [True, False])
def test_the_count_reads_times_of_all_years(tmp_path: Path, int96: bool) -> None:
    """Spark writes INT96; nanoseconds since 1970 in 64 bits, which pyarrow makes of it, end in 1677 and in 2262."""
    import pyarrow
    import pyarrow.parquet as parquet

    from sensor_pipeline.count import _rows
    from sensor_pipeline.reached import read_table_files

    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    folder = Path(environment.table("sensor_gold").path)
    write_commit(folder, 0, *create(), add("a.parquet", rows=len(TIMES) + 1))
    micros = [(time - EPOCH) // timedelta(microseconds=1) for time in TIMES]
    beyond = micros[0] - 1
    table = pyarrow.table(
        {
            "source": ["s"] * (len(TIMES) + 1),
            "partition": [0] * (len(TIMES) + 1),
            "offset": list(range(len(TIMES) + 1)),
            "reading_time": pyarrow.array([*micros, beyond]).cast(pyarrow.timestamp("us", None if int96 else "UTC")),
        }
    )
    parquet.write_table(table, folder / "a.parquet", use_deprecated_int96_timestamps=int96)

    read_times = [time for _, _, time in _rows(read_table_files(environment, "sensor_gold"), ("reading_time",))]

    assert read_times == [*TIMES, beyond]
