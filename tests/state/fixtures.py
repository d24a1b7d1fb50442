"""Small checkpoints that Spark 4.0 wrote, in one archive beside this file, and what its own reader says of them.

python -m tests.state.fixtures OUT     packs what `python -m tests.state.make_checkpoints OUT` has made
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "checkpoints-4.0.tar.xz"
PACKED = [
    *[f"{stream}-hdfs" for stream in ("dedup", "within", "aggregate", "totals", "session", "join", "groups")],
    *["dedup-zstd", "dedup-snappy", "groups-lzf"],
    *[f"{stream}-rocks" for stream in ("within", "session", "transform")],
    *[f"{stream}-rockslog" for stream in ("dedup", "aggregate", "join", "groups", "transform")],
    *[f"{stream}-rocksv2" for stream in ("within", "transform")],
]


def pack(out: Path) -> None:
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name in PACKED:
            for path in sorted((out / name).rglob("*")):
                if path.is_file() and not path.name.endswith(".crc") and "sources" not in path.parts:
                    info = tarfile.TarInfo(str(path.relative_to(out)))
                    data = path.read_bytes()
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


def unpack(into: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(into, filter="data")


def reads_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Spark 4.0 cannot read format 2 itself: the same stream in format 1 left the same rows."""
    of_format_1 = folder.with_name(folder.name.replace("rocksv2", "rocks"))
    for read in json.loads((of_format_1 / "expected.json").read_text(encoding="utf-8"))["reads"]:
        # A time to live counts from when the stream ran.
        if folder == of_format_1 or read["variable"] != "brief":
            yield read


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
