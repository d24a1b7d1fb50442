"""What a guarded start costs: `python -m benchmarks.guard [ROUNDS] [BATCHES]`.

    a start       writer.start() and surestart.start(writer, …) in turn, until the query runs    bar: 0.5 s more
    a batch       the same input cut into so many batches, plain and guarded in turn             bar: within the noise

Noise: how far the plain runs lie from each other.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import surestart

LIMIT_SECONDS = 0.5


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    with tempfile.TemporaryDirectory() as folder:
        spark = surestart.local_session("bench guard", confs={"spark.sql.warehouse.dir": f"{folder}/warehouse"})
        starts = {kind: _Stream(spark, Path(folder), f"start-{kind}", 1) for kind in ("plain", "guarded")}
        seconds: dict[str, list[float]] = {kind: [] for kind in starts}
        for number in range(rounds + 1):
            for kind, stream in starts.items():
                stream.land(1)
                taken, query = _timed(getattr(stream, kind))
                query.awaitTermination()
                if number:
                    seconds[kind].append(taken)
        plain, guarded = (statistics.median(seconds[kind]) for kind in ("plain", "guarded"))
        met = guarded - plain <= LIMIT_SECONDS
        print(
            f"a start, plain  median {plain * 1000:.0f} ms; guarded  median {guarded * 1000:.0f} ms, worst "
            f"{max(seconds['guarded']) * 1000:.0f} ms; more: {(guarded - plain) * 1000:.0f} ms  {_word(met)}"
        )
        each: dict[str, list[float]] = {"plain": [], "guarded": []}
        for number in range(max(3, rounds // 3)):
            for kind, times in each.items():
                stream = _Stream(spark, Path(folder), f"batches-{kind}-{number}", 1)
                stream.land(batches)
                query = getattr(stream, kind)()
                began = time.perf_counter()
                query.awaitTermination()
                times.append((time.perf_counter() - began) / batches)
        noise = (max(each["plain"]) - min(each["plain"])) / statistics.median(each["plain"])
        ratio = statistics.median(each["guarded"]) / statistics.median(each["plain"])
        flat = ratio <= 1 + max(noise, 0.03)
        print(
            f"a batch, plain  median {statistics.median(each['plain']) * 1000:.0f} ms (noise {noise:.0%}); guarded  "
            f"median {statistics.median(each['guarded']) * 1000:.0f} ms; ratio {ratio:.3f}  {_word(flat)}"
        )
        spark.stop()
    return 0 if met and flat else 1


class _Stream:
    """Text files into a Delta table, one batch for each file."""

    def __init__(self, spark: Any, folder: Path, name: str, files: int) -> None:
        self.spark, self.name, self.root = spark, name, folder / name
        self.files = files
        self._landed = 0
        (self.root / "in").mkdir(parents=True)

    def land(self, count: int) -> None:
        for number in range(self._landed, self._landed + count):
            (self.root / "in" / f"{number}.txt").write_text("".join(f"{one}\n" for one in range(10)))
        self._landed += count

    def plain(self) -> Any:
        return self._writer().start(f"{self.root}/out")

    def guarded(self) -> Any:
        return surestart.start(
            self._writer(), surestart.Stream(self.name, f"{self.root}/checkpoint"), f"{self.root}/out"
        )

    def _writer(self) -> Any:
        rows = self.spark.readStream.format("text").option("maxFilesPerTrigger", self.files).load(f"{self.root}/in")
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"{self.root}/checkpoint")
        return writer.trigger(availableNow=True)


def _timed(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = act()
    return time.perf_counter() - began, done


def _word(met: bool) -> str:
    return "met" if met else "NOT MET"


if __name__ == "__main__":
    sys.exit(main())
