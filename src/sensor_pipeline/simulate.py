"""Makes sensor data with known faults: the same records for the same seed, however many files they are written in.

    record n ── a hash of (seed, n) decides its kind ──> payload bytes
                plain          92 of 100    a new reading of sensor n % devices
                duplicate       2           the bytes of an earlier record again
                correction      2           an earlier reading again, with a higher revision and other values
                early           1           a correction that arrives before the reading it corrects
                late            1           a reading taken hours before its neighbours
                malformed       1           no JSON, cut off, not UTF-8, or nothing at all
                violation       0.5         a field missing or of the wrong type
                implausible     0.5         a value that no sensor can measure

    <landing>/part-<first record>.jsonl    appears complete under its name; readers ignore a draft, '.part-…'
    <root>/truth.json                      seed, records made, how many of each kind

Run it: python -m sensor_pipeline.simulate --readings 10000 [--endless] [--root DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from surestart import UsageError
from surestart.typed import typed

_SHARES = (  # out of 200
    ("duplicate", 4),
    ("correction", 4),
    ("early", 2),
    ("late", 2),
    ("malformed", 2),
    ("violation", 1),
    ("implausible", 1),
)
_KINDS = tuple(kind for kind, share in _SHARES for _ in range(share))
_MASK = (1 << 64) - 1
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Simulation:
    seed: int = 42
    devices: int = 200
    interval_seconds: int = 60


@dataclass(frozen=True)
class Record:
    number: int
    kind: str
    key: bytes
    payload: bytes


def iter_records(simulation: Simulation, first: int, count: int) -> Iterator[Record]:
    """Records first … first + count - 1; each depends on its number and the seed alone."""
    for number in range(first, first + count):
        yield make_record(simulation, number)


def make_record(simulation: Simulation, number: int) -> Record:
    dice = _hash(simulation.seed, number)
    pick = dice % 200
    kind = _KINDS[pick] if pick < len(_KINDS) else "plain"
    other = number - 1 - (dice >> 8) % 5000
    if kind == "early":
        other = number + 1 + (dice >> 8) % 500
    if kind in ("duplicate", "correction", "early") and (other < 0 or _kind(simulation, other) != "plain"):
        kind = "plain"
    if kind == "duplicate":
        return Record(number, kind, _key(simulation, other), make_record(simulation, other).payload)
    if kind in ("correction", "early"):
        payload = _reading(simulation, other, dice, revision=1 + (dice >> 40) % 3)
        return Record(number, kind, _key(simulation, other), payload)
    if kind == "late":
        # Half a minute apart from all plain readings, so that it is a reading of its own.
        hours = 1 + (dice >> 8) % 6
        return Record(
            number, kind, _key(simulation, number), _reading(simulation, number, dice, back=hours * 3600 + 30)
        )
    payload = _reading(simulation, number, dice)
    if kind != "plain":
        payload = _spoil(kind, payload, dice >> 16)
    return Record(number, kind, _key(simulation, number), payload)


def _kind(simulation: Simulation, number: int) -> str:
    pick = _hash(simulation.seed, number) % 200
    return _KINDS[pick] if pick < len(_KINDS) else "plain"


def _key(simulation: Simulation, number: int) -> bytes:
    return b"sensor-%05d" % (number % simulation.devices)


def _reading(simulation: Simulation, number: int, dice: int, revision: int = 0, back: int = 0) -> bytes:
    device = number % simulation.devices
    seconds = number // simulation.devices * simulation.interval_seconds - back
    moment = START + timedelta(seconds=seconds)
    return (
        f'{{"sensor_id":"sensor-{device:05d}","room":"room-{device % 40:02d}","firmware":"2.{device % 3}.{device % 7}",'
        f'"reading_time":"{moment:%Y-%m-%dT%H:%M:%SZ}","revision":{revision},'
        f'"temperature":{(dice >> 20) % 3500 / 100},"humidity":{(dice >> 32) % 1000 / 10},'
        f'"battery":{(dice >> 44) % 1000 / 10}}}'
    ).encode()


def _spoil(kind: str, payload: bytes, dice: int) -> bytes:
    if kind == "malformed":
        return (payload[: len(payload) // 2], b"\xff\xfe" + payload, b"", b"# sensor restarted", payload[:-1])[dice % 5]
    if kind == "violation":
        return (
            payload.replace(b'"sensor_id"', b'"sensor"'),
            payload.replace(b'"temperature":', b'"temperature":"warm","was":'),
            re.sub(rb'"reading_time":"\d\d', b'"reading_time":"', payload),
            payload.replace(b'"revision":0', b'"revision":null'),
        )[dice % 4]
    return (
        payload.replace(b'"temperature":', b'"temperature":900'),
        payload.replace(b'"humidity":', b'"humidity":-1'),
        payload.replace(b'"battery":', b'"battery":101'),
    )[dice % 3]


def _hash(seed: int, number: int) -> int:
    """SplitMix64: as good as random for planting faults, and the same on every machine and Python."""
    value = (number * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


@dataclass(frozen=True)
class Truth:
    """What has been made so far."""

    seed: int
    devices: int
    records: int
    kinds: tuple[tuple[str, int], ...] = ()


def read_truth(path: Path) -> Truth | None:
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    return Truth(found["seed"], found["devices"], found["records"], tuple(sorted(found["kinds"].items())))


def write_files(
    landing: Path, truth_path: Path, readings: int, simulation: Simulation | None = None, per_file: int = 5000
) -> Truth:
    """`readings` more records have landed, in files of at most per_file, and the truth file counts them.

    A file that landed just before a former call was killed is counted first and never written again: a reader may have
    it already.
    """
    wanted = simulation or Simulation()
    before = read_truth(truth_path) or Truth(wanted.seed, wanted.devices, 0)
    if (before.seed, before.devices) != (wanted.seed, wanted.devices):
        raise UsageError(
            f"{truth_path} was made with seed {before.seed} and {before.devices} devices, "
            f"not {wanted.seed} and {wanted.devices}",
            meaning="Mixing two simulations would make the truth file wrong.",
            next=typed("python", "-m", "sensor_pipeline.simulate", "--seed", before.seed, "--devices", before.devices),
        )
    landing.mkdir(parents=True, exist_ok=True)
    truth = before
    while (path := _file_of(landing, truth)).exists():
        truth = _count_landed(path, truth, wanted)
        save_truth(truth_path, truth)
    end = truth.records + readings
    while truth.records < end:
        records = list(iter_records(wanted, truth.records, min(per_file, end - truth.records)))
        land_file(_file_of(landing, truth), _lines(records))
        truth = _counting(truth, records)
        save_truth(truth_path, truth)
    return truth


def _file_of(landing: Path, truth: Truth) -> Path:
    return landing / f"part-{truth.records:012d}.jsonl"


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(record.payload + b"\n" for record in records)


def _counting(truth: Truth, records: Sequence[Record]) -> Truth:
    kinds = Counter(dict(truth.kinds))
    kinds.update(record.kind for record in records)
    return Truth(truth.seed, truth.devices, truth.records + len(records), tuple(sorted(kinds.items())))


def _count_landed(path: Path, truth: Truth, simulation: Simulation) -> Truth:
    content = path.read_bytes()
    lines = content.count(b"\n")
    records = list(iter_records(simulation, truth.records, lines))
    if not records or _lines(records) != content:
        raise UsageError(
            f"{path} is there already, and its {lines} lines are not "
            f"the records {truth.records} and on of seed {truth.seed}",
            meaning="A file that has landed is never written again: a reader would have other rows than the file. "
            "Nothing was made.",
            next=typed("python", "-m", "sensor_pipeline.simulate", "--root", "/another/folder"),
        )
    return _counting(truth, records)


def land_file(path: Path, content: bytes) -> None:
    """The file appears complete under its name, or the name is taken and nothing happens to it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        raise UsageError(
            f"{path} has just been landed by somebody else",
            meaning="Two simulators write into one folder. The other one's file was left as it is.",
            next=typed("python", "-m", "sensor_pipeline.simulate", "--root", "/another/folder"),
        ) from None
    finally:
        draft.unlink()


def save_truth(path: Path, truth: Truth) -> None:
    told = {"seed": truth.seed, "devices": truth.devices, "records": truth.records, "kinds": dict(truth.kinds)}
    _write_atomically(path, json.dumps(told, indent=1).encode())


def _write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sensor_pipeline.simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=10_000, help="how many records to make (default 10000)")
    parser.add_argument("--endless", action="store_true", help="go on, a file each --pause seconds, until Ctrl-C")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between files when endless (default 1)")
    parser.add_argument("--per-file", type=int, default=5000, help="records in one file (default 5000)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--root", default=".surestart/local", help="the environment's root (default .surestart/local)")
    args = parser.parse_args(argv)
    if args.readings < 1 or args.per_file < 1 or args.devices < 1 or args.pause < 0:
        parser.error("--readings, --per-file and --devices start at 1, --pause at 0")
    root, simulation = Path(args.root), Simulation(args.seed, args.devices)
    try:
        while True:
            size = args.per_file if args.endless else args.readings
            truth = write_files(root / "landing", root / "truth.json", size, simulation, args.per_file)
            sys.stderr.write(f"{size} records made in {root / 'landing'}, {truth.records} in all\n")
            if not args.endless:
                return 0
            time.sleep(args.pause)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
