"""`python -m benchmarks fleet`: `surestart inspect --all` over many checkpoints, and what it asks of a store.

On a local disk: seconds from the shell's point of view and the memory of the whole process tree, for 1,000 and 10,000
checkpoints of 100 batches each. The bar: 10 s and 300 MB for 1,000 on two cores, and ten times as long for ten times as
many; by CPU, since other processes on the machine take their share of the cores. Over a network: requests for each
checkpoint, beside the listings that finding them takes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, ClassVar

from benchmarks.inspection import _normal
from benchmarks.process import run_measured
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.storage import FolderEntry
from surestart.verdict.inspect_all import FleetQuestion, inspect_all

SECONDS, MEGABYTES, LINEAR, REQUESTS = 10.0, 300, 1.5, 60
CORES, OVER_A_NETWORK = 2, 50
PROGRAM = (
    "import sys; from surestart.cli.main import main; sys.exit(0 * main(['inspect', '--all', sys.argv[1], '--json']))"
)


class CountedStore(LocalStorage):
    """Files of this disk, asked as a store over a network is: each call is one request."""

    kind = "fsspec"  # type: ignore[assignment]
    checks_crc = False  # type: ignore[assignment]
    asked: ClassVar[Counter[str]] = Counter()

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        self.asked["listings"] += 1
        return super().list_folder(path)

    def read_file(self, path: str, limit: int) -> bytes:
        self.asked["reads"] += 1
        return super().read_file(path, limit)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:  # type: ignore[override]
        self.asked["reads"] += 1
        return super().open_file(path)


def main(sizes: list[int]) -> int:
    met = []
    print(f"{'surestart inspect --all':<34} {'seconds':>9} {'CPU':>9} {'peak':>9} {'bar met':>8}")
    with tempfile.TemporaryDirectory() as folder:
        first = 0.0
        for size in sizes:
            make(Path(folder) / "root", size)
            done = run_measured(["-c", PROGRAM, str(Path(folder) / "root")])
            first = first or done.cpu_seconds / size
            enough = done.peak_bytes < MEGABYTES * 1e6 and done.cpu_seconds / size < LINEAR * first
            met.append(enough and (size > 1_000 or done.cpu_seconds < SECONDS * CORES))
            print(
                f"{f'{size:,} checkpoints':<34} {done.seconds:>7.1f} s {done.cpu_seconds:>7.1f} s "
                f"{done.peak_bytes / 1e6:>6.0f} MB {'yes' if met[-1] else 'NO':>8}"
            )
        small = Path(folder) / "network"
        make(small, OVER_A_NETWORK)
        inspect_all(str(small), FleetQuestion(("none",)), storage=CountedStore(str(small)))
        asked, own = CountedStore.asked, {name: count / OVER_A_NETWORK for name, count in CountedStore.asked.items()}
        met.append(asked.total() / OVER_A_NETWORK < REQUESTS)
        print(
            f"{'requests for each, over a network':<34} {own['listings']:>5.1f} listings {own['reads']:>5.1f} reads "
            f"{'yes' if met[-1] else 'NO':>16}"
        )
    return 0 if all(met) else 1


def make(root: Path, count: int) -> None:
    """Files are links to the same few: what is measured is asking for them."""
    pattern = root.parent / "pattern"
    if not pattern.exists():
        _normal(pattern)
    for number in range(count):
        place = root / f"team-{number % 20}" / f"stream-{number}"
        if place.exists():
            continue
        for folder in ("offsets", "commits", "sources/0"):
            (place / folder).mkdir(parents=True)
            for file in (pattern / folder).iterdir():
                (place / folder / file.name).hardlink_to(file)
        (place / "metadata").write_text(f'{{"id":"6e1f1d2c-8f0a-4f0e-9a37-{number:012}"}}')


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or [1_000, 10_000]))
