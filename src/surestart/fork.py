"""Where a stage runs on a fork: what it writes is in the fork's folder, what it reads is the original's.

    fork = surestart.open_fork(environment, "/scratch/rehearsal")
    surestart.run_stage(spark, fork, stage)         the stage's new code, on state and rows of the batch

The folder is what `surestart plan rewind STAGE --to-batch N --beside DIR` has made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from surestart.environment import Environment, Table, whole_path
from surestart.errors import UsageError
from surestart.typed import surestart

NOTE = "fork.json"
TABLES, CHECKPOINTS = "tables", "checkpoints"


@dataclass(frozen=True)
class ForkEnvironment(Environment):
    """original: where the tables are that it only reads.
    forked: the tables that are in the fork's own folder."""

    original: Environment | None = field(default=None, compare=False)
    forked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """The folder is a person's scratch place: a date in its name begins nothing anew."""
        Environment(self.name, self.pipeline, "/fork/checkpoints", "/fork")

    def table(self, name: str) -> Table:
        if self.original is None or name in self.forked or name.startswith("surestart_"):
            return super().table(name)
        return self.original.table(name)


def open_fork(environment: Environment, folder: str | Path) -> ForkEnvironment:
    """The environment in which a stage's code runs on the fork. Raises UsageError where there is none."""
    place = whole_path(folder)
    if not (place / NOTE).is_file() or not (place / TABLES).is_dir():
        raise UsageError(
            f"{place} is not a fork",
            meaning="A stage that ran there would begin from nothing. Nothing was started.",
            next=surestart("plan", "rewind", "--help"),
            code="ForkNotThere",
        )
    return ForkEnvironment(
        name=environment.name,
        pipeline=environment.pipeline,
        checkpoint_root=f"{place}/{CHECKPOINTS}",
        root=str(place),
        landing=environment.landing,
        original=environment,
        forked=tuple(sorted(path.name for path in (place / TABLES).iterdir())),
    )
