"""`python -m benchmarks state`: how long `surestart state` takes to the first 20 rows of a store of 1 GB, from a shell.

The stores are written here in Spark's forms, with 1 GB in files: of rows that do not pack, so that each byte is read.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from surestart.facts.checkpoint.lz4_blocks import xxh32

SIZE = 1 << 30
ROUNDS = 5
BAR = 2.0
KEY = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
VALUE = {"type": "struct", "fields": [{"name": "seen", "type": "binary", "nullable": True, "metadata": {}}]}
VALUE_BYTES = 112


def main() -> int:
    size = int(sys.argv[1]) << 20 if len(sys.argv) > 1 else SIZE
    rows = []
    for name, write in (
        ("one partition: a snapshot and a delta of 1 MB", _snapshot),
        ("200 partitions: a snapshot each", _partitions),
        ("one partition: one delta of all of it", _delta),
        ("RocksDB, one partition", _rocksdb),
    ):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "checkpoint"
            _logs(root)
            write(root / "state/0", size)
            _look(root)
            measured = [_look(root) for _ in range(ROUNDS)]
        total, peak = statistics.median(each[0] for each in measured), max(each[1] for each in measured)
        met = "yes" if total < BAR else "NO"
        rows.append((f"first 20 rows, {name}", f"{total:.2f} s", f"{peak:.0f} MB", met))
    for row in (("surestart state", "in all", "peak", "bar met"), *rows):
        print(f"{row[0]:<62} {row[1]:>10} {row[2]:>10} {row[3]:>8}")
    return 1 if any(row[3] == "NO" for row in rows) else 0


PROGRAM = """
import sys
from surestart.cli.main import main
code = main(["state", sys.argv[1]])
sys.stdout.flush()
sys.stderr.write([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
sys.exit(code)
"""


def _look(root: Path) -> tuple[float, float]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    total = time.perf_counter() - begin
    if done.returncode or "20 rows, and there are more" not in done.stdout:
        raise RuntimeError(done.stdout[-400:] + done.stderr)
    return total, int(done.stderr.split()[-1]) / 1024


def _logs(root: Path) -> None:
    for name, text in (("offsets", 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"x":1}'), ("commits", "v1\n{}")):
        (root / name).mkdir(parents=True)
        for batch in range(2):
            (root / name / str(batch)).write_text(text)
    (root / "metadata").write_text('{"id":"4ae2b6f3-13a6-4e27-8b5c-6d0c4a4d7c10"}')


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _with_schema(store: Path) -> Path:
    (store / "_metadata").mkdir(parents=True)
    parts = [struct.pack(">i", 1) + _utf(json.dumps(kind)) for kind in (KEY, VALUE)]
    (store / "_metadata/schema").write_bytes(_utf("v2") + b"".join(parts))
    return store


def _pairs(count: int) -> Iterator[tuple[bytes, bytes]]:
    made = random.Random(7)
    for number in range(count):
        yield (
            bytes(8) + struct.pack("<q", number),
            bytes(8) + struct.pack("<II", VALUE_BYTES, 16) + made.randbytes(VALUE_BYTES),
        )


def _file(path: Path, size: int) -> None:
    """Blocks of 32 kB; 64 different ones in turn, since a checksum in plain Python takes longer than all else here."""
    record = 4 + 16 + 4 + 16 + VALUE_BYTES
    each = (32 << 10) // record
    pairs = list(_pairs(64 * each))
    blocks = []
    for at in range(0, len(pairs), each):
        data = b"".join(struct.pack(">i", 16) + key + struct.pack(">i", len(value)) + value
                        for key, value in pairs[at : at + each])  # fmt: skip
        blocks.append(_block(data))
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(blocks[written // len(blocks[0]) % len(blocks)])
        file.write(_block(struct.pack(">i", -1)) + b"LZ4Block" + struct.pack("<BIII", 0x15, 0, 0, 0))


def _block(data: bytes) -> bytes:
    return b"LZ4Block" + struct.pack("<BIII", 0x15, len(data), len(data), xxh32(data) & 0x0FFFFFFF) + data


def _snapshot(operator: Path, size: int) -> None:
    store = _with_schema(operator / "0")
    _file(store / "1.snapshot", size)
    _file(store / "2.delta", 1 << 20)


def _partitions(operator: Path, size: int) -> None:
    for partition in range(200):
        store = operator / str(partition)
        store = _with_schema(store) if partition == 0 else store
        store.mkdir(exist_ok=True)
        _file(store / "2.snapshot", size // 200)


def _delta(operator: Path, size: int) -> None:
    store = _with_schema(operator / "0")
    _file(store / "1.delta", 1 << 10)
    _file(store / "2.delta", size)


def _rocksdb(operator: Path, size: int) -> None:
    from rocksdict import Options, Rdict

    store = _with_schema(operator / "0")
    made = operator.parents[2] / "made"
    database = Rdict(str(made), Options(raw_mode=True))
    for key, value in _pairs(size // (16 + 16 + VALUE_BYTES)):
        database[b"\x00" + key] = b"\x00" + value
    database.flush()
    database.close()
    (store / "SSTs").mkdir()
    names = {path.name: path.stat().st_size for path in made.glob("*.sst")}
    files = [
        {"localFileName": name, "dfsSstFileName": f"of-{name}", "sizeBytes": length} for name, length in names.items()
    ]
    for name in names:
        (made / name).rename(store / "SSTs" / f"of-{name}")
    with zipfile.ZipFile(store / "2.zip", "w") as archive:
        for path in made.iterdir():
            if path.name.startswith(("MANIFEST", "CURRENT")) or path.suffix == ".log":
                archive.write(path, path.name)
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": -1}))


if __name__ == "__main__":
    sys.exit(main())
