"""What the exploration notebook looks at: one page, and behind it the values that it was made of. Writes nothing.

    path given    that one checkpoint, wherever it lies, with the table that `sink` names
    else          the stages of the environment, as `surestart doctor` judges them

Plain file reads tell everything on a local machine. On Databricks a table's files may not be opened by name, so there
the notebook's own session is asked (DESCRIBE HISTORY).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.environment import environment_from_settings
from surestart.errors import UsageError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.library_types import SparkSession
from surestart.typed import in_the_notebook, surestart
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from surestart.words.amounts import time_text
from surestart.words.inert import inert

if TYPE_CHECKING:
    from surestart.stage import Pipeline, Stage

ALL = "all"
Rows = tuple[Sequence[str], list[Sequence[object]]]


@dataclass(frozen=True)
class Exploration:
    """page: self-contained HTML.
    inspections: by stage, or by the folder's name where a path was given."""

    page: str
    inspections: Mapping[str, Inspection]

    @property
    def checkpoints(self) -> Mapping[str, Checkpoint]:
        return {name: inspection.checkpoint for name, inspection in self.inspections.items()}


def explore(pipeline: Pipeline, settings: Mapping[str, str], spark: SparkSession | None = None) -> Exploration:
    """Reads what `settings` name: path and sink, or environment and stage. spark: asked where files cannot be read."""
    if settings.get("path"):
        return _explore_path(settings["path"], settings.get("sink", ""), spark)
    return _explore_stages(pipeline, settings, spark)


def batch_rows(checkpoint: Checkpoint) -> Rows:
    """Every batch whose plan was read, newest first."""
    rows: list[Sequence[object]] = []
    committed = set(checkpoint.commits_folder.ids)
    for batch, entry in sorted(checkpoint.offsets.items(), reverse=True):
        state = "committed" if batch in committed else "in flight" if batch == checkpoint.in_flight else "no commit"
        if not isinstance(entry, OffsetLogEntry):
            rows.append((batch, state, f"damaged: {_shown(entry.detail)}", ""))
            continue
        when = time_text(entry.timestamp_ms) if entry.timestamp_ms else ""
        rows.append((batch, state, when, _shown("; ".join(source.position.describe() for source in entry.sources))))
    return ("batch", "state", "planned at", "reads up to"), rows


def read_shown_rows(checkpoint: Checkpoint, batch: int | None = None) -> Rows:
    """What one batch reads, source by source; the newest planned batch without a number."""
    batch = checkpoint.latest_planned if batch is None else batch
    columns = ("batch", "source", "from", "up to")
    entry = None if batch is None else checkpoint.offsets.get(batch)
    if batch is None or entry is None:
        kept = checkpoint.offsets_folder.ids
        raise UsageError(
            f"batch {batch} was not read" if batch is not None else "no batch is planned",
            meaning=f"The plans of {len(kept)} batches are kept"
            + (f", {kept[0]} to {kept[-1]}; {len(checkpoint.offsets)} of them were read." if kept else "."),
            next=surestart("inspect", checkpoint.location, "--json", note="what is kept"),
        )
    if not isinstance(entry, OffsetLogEntry):
        return columns, [(batch, "", f"damaged: {_shown(entry.detail)}", "")]
    before = checkpoint.offsets.get(batch - 1)
    starts = {one.id: one.position for one in before.sources} if isinstance(before, OffsetLogEntry) else {}
    first = "the beginning" if batch == 0 else "not known: the batch before is not kept"
    return columns, [
        (
            batch,
            _shown(one.id),
            _shown(starts[one.id].describe()) if one.id in starts else first,
            _shown(one.position.describe()),
        )
        for one in entry.sources
    ]


def _shown(text: str) -> str:
    return inert(text, 400)


def _explore_path(path: str, sink: str, spark: SparkSession | None) -> Exploration:
    from surestart.report.html.page import render

    inspection = inspect_checkpoint(path, sinks=(sink,) if sink else (), session=spark)
    name = inspection.checkpoint.location.rstrip("/").rpartition("/")[2] or path
    return Exploration(render(inspection, name=name), {name: inspection})


def _explore_stages(pipeline: Pipeline, settings: Mapping[str, str], spark: SparkSession | None) -> Exploration:
    from surestart.cli.stage_answers import ask_stages
    from surestart.report.html.fleet import render_stages_html
    from surestart.verdict.unread import read_ends

    environment = environment_from_settings(settings["environment"], pipeline.name, settings)
    stages = _choose(pipeline, settings)
    diagnoses = ask_stages(environment, stages, session=spark)
    ends = [read_ends(stage, diagnosis) for stage, diagnosis in zip(stages, diagnoses, strict=True)]
    return Exploration(
        render_stages_html(environment, diagnoses, ends=ends),
        {diagnosis.stage: diagnosis.inspection for diagnosis in diagnoses},
    )


def _choose(pipeline: Pipeline, settings: Mapping[str, str]) -> tuple[Stage, ...]:
    stages = pipeline.build_stages(settings)
    wanted = settings.get("stage", ALL)
    chosen = tuple(stage for stage in stages if wanted in (ALL, stage.name))
    if not chosen:
        raise UsageError(
            f"no stage {wanted!r}; stages: {', '.join(stage.name for stage in stages)}, or all",
            meaning=f"The pipeline {pipeline.name!r} has {len(stages)} stages. Nothing was read.",
            next=in_the_notebook("choose one of them in the widget 'stage' and run the cell again"),
        )
    return chosen
