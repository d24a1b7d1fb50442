"""What every step of a remedy is given: the plan, its journal, and where it acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surestart.environment import Environment
from surestart.journal.journal import Journal
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StopOptions:
    """How the stages are brought to stand still.

    client: a WorkspaceClient; None: the one that is configured.
    accept: OWNER_UNKNOWN where somebody knows that the silent driver has ended."""

    client: Any = None
    poll_seconds: float = 5.0
    limit_seconds: float = 900.0
    accept: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepContext:
    """What every step of a remedy is given.

    journal: as it was read after the newest entry.
    say: one line for the person who waits."""

    spark: SparkSession
    environment: Environment
    chain: Chain
    plan: Plan
    journal: Journal
    say: Callable[[str], object]
    stopping: StopOptions = StopOptions()

    @property
    def digest(self) -> str:
        return self.plan.digest

    def facts(self, step: str) -> Mapping[str, Any]:
        return self.journal.facts(step)
