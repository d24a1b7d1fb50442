"""How a stage reads its input table at its next start: what the runner does, said beforehand to the doctor and the
gate, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.environment import Environment
from surestart.facts.delta.unread_commits import PassedCommits, TableReading
from surestart.journal.journal import Journal
from surestart.journal.stage_start import find_start, read_begin_stand
from surestart.journal.taken_back import has_read, read_taken_back
from surestart.sources.delta import DeltaSource
from surestart.stage import Stage


def next_reading(environment: Environment, stage: Stage, journals: Sequence[Journal]) -> TableReading | None:
    """None when it reads no table. As `surestart.journal.stage_start` tells Spark."""
    source = stage.source
    if not isinstance(source, DeltaSource):
        return None
    start, options = find_start(journals, stage.name), dict(source.options)
    if start is not None and start.version is not None:
        options["startingVersion"] = str(start.version)
    known = read_taken_back(journals, environment.table(source.table).name)
    stand = read_begin_stand(environment.checkpoint(stage.name), start) if known else None
    passed = [
        PassedCommits(
            one.before, one.version, one.digest, one.step, has_read=stand is not None and has_read(stand, one)
        )
        for one in known
    ]
    return TableReading(tuple(options.items()), tuple(passed))
