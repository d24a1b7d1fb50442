"""Where a night is played: a copy of a running sensor pipeline at a fixed place, and how it is broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensor_pipeline.count import count_rows, read_landed
from surestart.environment import Environment, environment_from_settings
from tests.foundation.rows import account, land, run_all
from tests.nights.typist import Typed, type_in

TABLES = {"raw-ingest": "sensor_raw", "deserialize": "sensor_readings_deserialized", "merge-gold": "sensor_gold"}


@dataclass(frozen=True)
class Scene:
    """place: where commands are typed; the pipeline is in its `.surestart/local`, as for everybody."""

    spark: Any
    place: Path

    @property
    def root(self) -> Path:
        return self.place / ".surestart" / "local"

    @property
    def environment(self) -> Environment:
        return environment_from_settings("local", "sensor", {"root": str(self.root)}, environ={})

    def checkpoint(self, stage: str) -> Path:
        return self.root / "checkpoints" / f"sensor-{stage}"

    def table(self, stage: str) -> str:
        return f"delta.`{self.root / 'tables' / TABLES[stage]}`"

    def sql(self, statement: str) -> list[Any]:
        return list(self.spark.sql(statement).collect())

    def newest_version(self, stage: str) -> int:
        return int(self.sql(f"DESCRIBE HISTORY {self.table(stage)} LIMIT 1")[0]["version"])

    def landed(self) -> list[Path]:
        return sorted((self.root / "landing").glob("part-*"))

    def land(self, readings: int = 100) -> None:
        land(self.environment, readings, per_file=50)

    def run_all(self) -> None:
        """The next scheduled run, in the tests' own session."""
        run_all(self.spark, self.environment)

    def type(self, command: str, **more: str) -> Typed:
        return type_in(self.place, command, more)

    def assert_exact(self) -> None:
        """By the independent count, over the source that there is: a file that is gone cannot come again. What no stage
        has read yet is no fault: the screen spoke of the stage that had failed."""
        found = count_rows(self.environment, read_landed(self.environment.landing))
        assert found.is_exact, found

    def assert_all_read(self) -> None:
        found = account(self.environment)
        assert found.is_exact, found

    @contextmanager
    def on_a_disk_of(self, megabytes: int) -> Iterator[None]:
        """The environment is on a file system of its own."""
        aside = self.place / "aside"
        self.root.rename(aside)
        self.root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(self.root)], check=True)
        try:
            shutil.copytree(aside, self.root, dirs_exist_ok=True)
            yield
            shutil.rmtree(aside)
            shutil.copytree(self.root, aside)
        finally:
            subprocess.run(["umount", "-l", str(self.root)], check=True)
            self.root.rmdir()
            aside.rename(self.root)

    def fill_the_disk(self, left: int) -> Path:
        """So many bytes are left."""
        free = os.statvfs(self.root)
        ballast = self.root / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - left)
        return ballast

    @contextmanager
    def read_only_once(self, there: Callable[[], bool]) -> Iterator[None]:
        """As soon as that holds, nothing under the root can be opened for writing any more; afterwards it can again."""
        over, done = threading.Event(), threading.Event()

        def mount() -> None:
            while not over.is_set():
                if there():
                    subprocess.run(["mount", "--bind", str(self.root), str(self.root)], check=True)
                    subprocess.run(["mount", "-o", "remount,bind,ro", str(self.root)], check=True)
                    done.set()
                    return

        watcher = threading.Thread(target=mount)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            if done.is_set():
                subprocess.run(["umount", "-l", str(self.root)], check=True)
        assert done.is_set(), "the run was over before it could become read-only"
