"""What one checkpoint's part of a page is made of: values that were read elsewhere, put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surestart.facts.checkpoint.positions import Position
from surestart.report.progress_history import BatchFacts
from surestart.verdict.inspection import Inspection

if TYPE_CHECKING:
    from surestart.facts.evidence.sink_evidence import SinkEvidence
    from surestart.verdict.change import Change

NOT_ASKED = "The source was not asked, so what is still unread is not known."


@dataclass(frozen=True)
class CheckpointReport:
    """name: a stage, or the folder's name.
    sinks: what each one says, by target.
    latest: the newest position that each source has, by its place in the query.
    latest_from: how that is known, or why not.
    progress: what Spark said of this query's batches.
    runs: its runs and remedies, oldest first.
    query: its name, "" for a folder alone."""

    name: str
    inspection: Inspection
    sinks: Mapping[str, SinkEvidence] = field(default_factory=dict)
    latest: Mapping[int, Position] = field(default_factory=dict)
    latest_from: Mapping[int, str] = field(default_factory=dict)
    progress: tuple[BatchFacts, ...] = ()
    runs: tuple[Mapping[str, object], ...] = ()
    query: str = ""
    changes: tuple[Change, ...] = ()

    def facts(self) -> dict[int, BatchFacts]:
        return {facts.batch: facts for facts in self.progress}

    def latest_of(self, index: int) -> tuple[Position | None, str]:
        """(newest position of that source, how it is known); from the last progress where nobody asked the source."""
        if index in self.latest:
            return self.latest[index], self.latest_from.get(index, "")
        for facts in reversed(self.progress):
            if index < len(facts.latest) and facts.latest[index] is not None:
                return facts.latest[index], f"As Spark saw the source at batch {facts.batch}."
        return None, self.latest_from.get(index, NOT_ASKED)
