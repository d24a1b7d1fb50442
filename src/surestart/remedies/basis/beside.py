"""The same stages under other names: rebuilt there while readers and streams keep the tables as they are.

    sensor_raw__beside_1a2b3c4d5e6f                      each table that the stages write
    <checkpoint_root>/_beside/1a2b3c4d5e6f/<query>       their checkpoints, with identities of their own
    surestart_runs__beside_1a2b3c4d5e6f                  their runs, so that no history is mixed up

What a stage writes to PostgreSQL too is not filled beside: it gets its new rows from the Delta table, at the swap.

The names are made of the plan's digest: no two plans share a table, and whoever finds one knows whose it is. The first
stage reads the real source, or the real table of a stage above that is not rebuilt.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields, replace
from functools import reduce
from pathlib import Path
from typing import cast

from surestart.environment import Environment, Table
from surestart.errors import EXIT_FINDINGS, SurestartError, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.history.claim_file import claims_folder, take_claim
from surestart.history.claim_row import TABLE as CLAIMS
from surestart.history.describe_run import plan_command
from surestart.history.run_record import TABLE as RUNS
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.move_aside import move_verified, retired_folder
from surestart.remedies.basis.step_context import StepContext, claimed_queries
from surestart.sinks.abilities import databases_of, parts_of
from surestart.sinks.both import BatchSink, Both
from surestart.sources.abilities import topic_of
from surestart.stage import Sink, Stage

BESIDE = "beside"
_FOLDER = "_beside"


class BesideNotExact(SurestartError):
    """What was filled is not what belongs there: nothing is swapped."""

    exit_code = EXIT_FINDINGS


@dataclass(frozen=True)
class BesideEnvironment(Environment):
    """live: tables that are read where they are."""

    tag: str = ""
    live: tuple[str, ...] = ()

    def table(self, name: str) -> Table:
        return super().table(name if name in self.live else f"{name}__beside_{self.tag}")

    def query_name(self, stage: str) -> str:
        # Its claim must not be the live query's: both may run at the same time.
        return f"{super().query_name(stage)}-beside-{self.tag[:8]}"

    def checkpoint(self, stage: str) -> str:
        query = super().checkpoint(stage).rpartition("/")[2]
        return f"{checkpoints_of(self)}/{query}"


def checkpoints_of(own: BesideEnvironment) -> str:
    return f"{own.checkpoint_root.rstrip('/')}/{_FOLDER}/{own.tag}"


def read_beside(environment: Environment, chain: Chain, stage: str, digest: str) -> tuple[BesideEnvironment, Chain]:
    """The stage and those below it, as they are filled beside under this digest."""
    links = chain.below(stage)
    for link in links:
        for own_sink in link.own_sinks:
            raise UsageError(
                f"{link.query} writes to {own_sink.label}, which is not a Delta table",
                meaning="Only Delta tables can be filled beside. Nothing was changed.",
                next=plan_command(environment, "reset", stage, note="clears in place"),
                code="BesideNotOffered",
            )
        for sink in link.databases:
            if link.mirror_of(sink) is not None:
                continue
            raise UsageError(
                f"{link.query} writes to PostgreSQL {sink.target}, and to no Delta table with the same rows",
                meaning="Only Delta tables can be filled beside; what "
                "PostgreSQL gets is read from one. Nothing was changed.",
                next=plan_command(environment, "reset", stage, note="clears in place"),
                code="BesideNotOffered",
            )
    written = {output.table.name for link in links for output in link.outputs}
    live = [link.input.name for link in links if link.input is not None and link.input.name not in written]
    same = {field.name: getattr(environment, field.name) for field in fields(Environment)}
    own = BesideEnvironment(**same, tag=digest[:12], live=tuple(dict.fromkeys(live)))
    return own, read_chain(own, [_alone(link.stage) for link in links])


def beside_of(run: StepContext) -> tuple[BesideEnvironment, Chain]:
    return read_beside(run.environment, run.chain, run.plan.stage, run.digest)


def drop_beside(run: StepContext) -> None:
    """The tables that were filled beside are gone, their checkpoints are with the retired ones, for `surestart prune`.
    Raises while another process fills them."""
    own, chain = beside_of(run)
    with claimed_queries(replace(run, environment=own, chain=chain)):
        for link in chain:
            for output in link.outputs:
                _drop_table(run.spark, output.table)
        for name in (RUNS, CLAIMS):
            _drop_table(run.spark, own.table(name))
        for link in chain:
            # Not one that an undo needs: `surestart prune` tells the two apart by this name.
            here, aside = (
                local_folder(link.checkpoint),
                retired_folder(run.environment, link.query, run.digest, "undone"),
            )
            if here.is_dir() or aside.is_dir():
                move_verified(here, aside, None)
    for folder in (local_folder(checkpoints_of(own)), local_folder(checkpoints_of(own)).parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    _forget_claims(own, chain)


def _drop_table(spark: SparkSession, table: Table) -> None:
    if not table.path:
        spark.sql(f"DROP TABLE IF EXISTS {table.sql}").collect()
        return
    folder = local_folder(table.path)
    if folder.is_dir():
        shutil.rmtree(folder)


def _forget_claims(own: BesideEnvironment, chain: Chain) -> None:
    """A fill that died has left its run in its claim. No history will ever ask for it again."""
    folder = claims_folder(own)
    for link in chain if folder is not None else ():
        path = Path(folder or "") / f"{link.query}.lock"
        held = take_claim(path) if path.exists() else None
        if held is not None:
            held.release(clear=True)


def _alone(stage: Stage) -> Stage:
    """The stage as it is filled beside: it writes to Delta only, and shows no progress in Kafka, where the live stage
    shows its own."""
    stage = replace(stage, sink=_delta_of(stage.sink))
    topic = topic_of(stage.source)
    if topic is not None and topic.mirror:
        return replace(stage, source=replace(topic, mirror=False))
    return stage


def _delta_of(sink: Sink) -> Sink:
    parts = parts_of(sink)
    # A Both is made of sinks whose work on one batch can be called, and so are its parts.
    tables = [cast("BatchSink", part) for part in parts if not databases_of(part)]
    return sink if len(tables) in (0, len(parts)) else reduce(Both, tables)
