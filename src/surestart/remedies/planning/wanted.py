"""What is wanted of a remedy, as a value: the same for the command line, a notebook and a program of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypedDict

from surestart.environment import Environment
from surestart.journal.journal import now
from surestart.remedies.basis.plan import environment_facts
from surestart.typed import Words

# Which remedies each option belongs to. remedy and stage belong to all.
_BELONGS = {
    "to_batch": ("rewind",),
    "to_time": ("rewind",),
    "to": ("move",),
    "from_batch": ("replay", "restart"),
    "from_time": ("replay",),
    "from_positions": ("replay",),
    "from_output": ("replay",),
    "range": ("backfill",),
    "arrived_from": ("backfill",),
    "arrived_before": ("backfill",),
    "clear_tables": ("retire",),
    "accept_loss": ("rewind", "replay", "reset"),
    "keep_lost": ("replay", "reset"),
    "no_run": ("rewind", "replay", "backfill", "reset"),
    "jobs": ("rewind", "restart", "replay", "reset", "move", "retire"),
    "beside": ("reset", "rewind"),
}
_BEGINS = ("to_batch", "to_time", "from_batch", "from_time", "from_positions", "from_output")


@dataclass(frozen=True)
class Wanted:
    """remedy: resume, rewind, restart, replay, backfill, reset, move or retire.
    stage: its name, without that of the pipeline.
    to_batch, to_time: the batch to which a rewind goes back, or when it was the newest one; at most one of them.
    to: where a move takes the checkpoint.
    from_batch, from_time, from_positions, from_output: where a replay begins; at most one of them.
    from_batch: also of a restart; without it, the batch that comes next.
    range: what a backfill fills, each as SOURCE:PARTITION:FIRST-LAST; none: the gaps that are found by counting.
    arrived_from, arrived_before: only rows that arrived in that time, for a backfill.
    clear_tables: a retirement empties the stage's tables too.
    accept_loss: so many rows are lost for ever, and that is known.
    keep_lost: rows that the source no longer has stay as they are.
    no_run: starting the stages is left to their schedule.
    jobs: which Databricks jobs the plan stops: auto, all, found or none.
    beside: a reset fills new tables while readers keep the old ones; of a rewind, the folder of a fork, and the stream
        itself stays as it is."""

    remedy: str
    stage: str
    to_batch: int | None = None
    to_time: str | None = None
    to: str | None = None
    from_batch: int | None = None
    from_time: str | None = None
    from_positions: str | None = None
    from_output: bool = False
    range: tuple[str, ...] = ()
    arrived_from: str | None = None
    arrived_before: str | None = None
    clear_tables: bool = False
    accept_loss: int | None = None
    keep_lost: bool = False
    no_run: bool = False
    jobs: str | None = None
    beside: bool | str = False

    @property
    def options(self) -> Words:
        """The options as they would be typed again, without the accepted loss: that may be another number by then."""
        words: list[str] = []
        for name, value in self._given():
            option = f"--{name.replace('_', '-')}"
            values = value if isinstance(value, tuple) else (value,)
            if name != "accept_loss":
                words += [option] if value is True else [word for one in values for word in (option, str(one))]
        return tuple(words)

    @property
    def misplaced(self) -> str:
        """The first option that would have no effect on this remedy, and which it is for; "" where there is none."""
        for name, _ in self._given():
            if self.remedy not in _BELONGS[name]:
                return f"--{name.replace('_', '-')} is for {' and '.join(_BELONGS[name])}, not for {self.remedy}"
        return ""

    @property
    def begins(self) -> int:
        """How many options say where a replay begins, or to where a rewind goes back."""
        return len([name for name, _ in self._given() if name in _BEGINS])

    def _given(self) -> list[tuple[str, object]]:
        values = [(field.name, getattr(self, field.name)) for field in fields(self) if field.name in _BELONGS]
        return [(name, value) for name, value in values if value is not None and value is not False and value != ()]


@dataclass(frozen=True)
class Request:
    """What was asked for, beside the remedy's own arguments.

    options: all of it as it was typed, but for the loss."""

    settings: Mapping[str, str]
    pipeline: str = ""
    accept_loss: int | None = None
    keep_lost: bool = False
    run: bool = True
    options: Words = ()

    def of_plan(self, environment: Environment) -> OfEveryPlan:
        return {
            "environment": environment_facts(environment),
            "created_at": now(),
            "settings": dict(self.settings),
            "pipeline": self.pipeline,
            "options": self.options,
        }


class OfEveryPlan(TypedDict):
    """What a plan says of itself, whatever it does."""

    environment: Mapping[str, str]
    created_at: int
    settings: Mapping[str, str]
    pipeline: str
    options: Words
