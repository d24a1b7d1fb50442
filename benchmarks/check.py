"""Whether a system's tables are right. A system that fails is not reported: a fast wrong answer is no result.

everyone    raw rows = records produced; gold = each key once, with its highest revision, as it was really sent
    ours too    raw: each position once; good + quarantined = raw, position by position
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.inputs import Input
from surestart.facts.delta.active_files import read_active_files

Files = list[str]


class WrongAnswer(RuntimeError):
    """A system's tables are not what the input says they must be."""


def delta_files(table: Path) -> Files:
    files = read_active_files(str(table))
    if any(file.deletion_vector for file in files):
        raise WrongAnswer(f"{table} has deletion vectors, which this check would count as rows")
    return [str(table / file.path) for file in files]


def parquet_files(folder: Path) -> Files:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]


def check_answer(data: Input, *, raw: Files | None, gold: Files) -> None:
    """raw is None for a system that keeps no raw copy."""
    faults = {}
    if raw is not None:
        faults["raw rows too many"] = _number("SELECT count(*) FROM read_parquet($files)", raw) - data.produced
    faults["gold rows too many"] = _number("SELECT count(*) FROM read_parquet($files)", gold) - data.keys
    columns = "sensor_id, epoch_us(reading_time), revision, temperature, humidity, battery"
    faults["gold keys twice"] = _number(
        "SELECT count(*) - count(DISTINCT (sensor_id, reading_time)) FROM read_parquet($files)", gold
    )
    faults["gold rows that are not the newest reading of their key"] = _number(
        f"SELECT count(*) FROM (SELECT {columns} FROM read_parquet($files) "
        f"EXCEPT ALL SELECT {columns} FROM read_parquet('{data.expected}'))",
        gold,
    )
    _raise(faults)


def check_raw(data: Input, raw: Files, positions: bool = True) -> None:
    """As many rows as were produced, each position once where the table has any: for a run of the raw stage alone."""
    faults = {"raw rows too many": _number("SELECT count(*) FROM read_parquet($files)", raw) - data.produced}
    if positions:
        twice = 'SELECT count(*) - count(DISTINCT (source, "partition", "offset")) FROM read_parquet($files)'
        faults["raw positions twice"] = _number(twice, raw)
    _raise(faults)


def check_positions(raw: Files, good: Files, quarantine: Files) -> None:
    """Every position once in raw, and once in exactly one of the other two."""
    position = '(source, "partition", "offset")'
    union = f"SELECT {position} AS p FROM read_parquet($files)"
    faults = {
        "raw positions twice": _number(f"SELECT count(*) - count(DISTINCT {position}) FROM read_parquet($files)", raw),
        "deserialized positions not in raw, or twice": _number(
            f"SELECT count(*) FROM ({union} EXCEPT ALL SELECT {position} FROM read_parquet({raw!r}))",
            good + quarantine,
        ),
        "raw positions in neither table": _number(
            f"SELECT count(*) FROM ({union} EXCEPT ALL SELECT {position} FROM read_parquet({good + quarantine!r}))",
            raw,
        ),
    }
    _raise(faults)


def _number(query: str, files: Files) -> int:
    import duckdb

    with duckdb.connect() as database:
        row = database.execute(query, {"files": files}).fetchone()
    assert row is not None
    return int(row[0])


def _raise(faults: dict[str, int]) -> None:
    found = [f"{name}: {number}" for name, number in faults.items() if number]
    if found:
        raise WrongAnswer("; ".join(found))
