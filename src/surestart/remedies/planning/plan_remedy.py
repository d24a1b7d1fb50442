"""The plan of any remedy, from what is wanted: refused where a remedy stands half-way, with the jobs that it stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.history.read_runs import read_runs
from surestart.journal.half_way import refuse_half_way
from surestart.remedies.jobs.plan_jobs import AUTO, with_jobs
from surestart.remedies.plan.chain import Chain, refuse_declared
from surestart.remedies.plan.plan import Plan
from surestart.remedies.planning.plan_backfill import Between, plan_backfill, read_ranges
from surestart.remedies.planning.plan_beside import plan_reset_beside
from surestart.remedies.planning.plan_replay import From, plan_replay, read_positions, read_time
from surestart.remedies.planning.plan_reset import plan_reset
from surestart.remedies.planning.plan_restart import plan_restart
from surestart.remedies.planning.plan_resume import plan_resume
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.planning.plan_rewind import plan_rewind
from surestart.remedies.planning.request import Request
from surestart.remedies.planning.rewind_choice import To
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage
from surestart.sources.kafka import KafkaSource
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_remedy(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    wanted: Wanted,
    *,
    settings: Mapping[str, str] | None = None,
    pipeline: str = "",
    place: str = "",
) -> Plan:
    """What the remedy would do, with the jobs that it stops; nothing is changed.

    settings, pipeline: how the stages were made, for whoever applies it.
    place: what a printed command needs beside the environment."""
    name = wanted.stage.removeprefix(f"{environment.pipeline}-")
    refuse_declared(environment, chain, name, wanted.remedy, emptied=wanted.clear_tables)
    for link in chain.below(name):
        refuse_half_way(environment, link.query, spark, place)
        if isinstance(link.stage.source, KafkaSource):
            # Before the jobs are paused and rows are cleared: the remedy begins a new stream in the end.
            link.stage.source.refuse_shown_secrets(spark)
    request = Request(
        settings=settings or {},
        pipeline=pipeline,
        accept_loss=wanted.accept_loss,
        keep_lost=wanted.keep_lost,
        run=not wanted.no_run,
        options=wanted.options,
    )
    plan = _plan(spark, environment, chain, name, wanted, request, place)
    return with_jobs(spark, environment, plan, wanted.jobs or AUTO)


def _plan(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    name: str,
    wanted: Wanted,
    request: Request,
    place: str,
) -> Plan:
    if wanted.remedy == "resume":
        stage, commands = chain.link(name).stage, Commands(name, environment.name, place)
        judged = judge_stage(environment, stage, read_runs(environment, spark), commands, session=spark)
        return plan_resume(spark, environment, chain, name, judged, request)
    if wanted.remedy == "retire":
        return plan_retire(spark, environment, chain, name, wanted.clear_tables, request)
    if wanted.remedy == "backfill":
        between = Between(
            read_time(wanted.arrived_from) if wanted.arrived_from else None,
            read_time(wanted.arrived_before) if wanted.arrived_before else None,
        )
        return plan_backfill(spark, environment, chain, name, read_ranges(wanted.range), between, request)
    if wanted.remedy == "replay":
        begin = From(
            batch=wanted.from_batch,
            time=read_time(wanted.from_time) if wanted.from_time else None,
            positions=read_positions(wanted.from_positions) if wanted.from_positions else None,
            output=wanted.from_output,
        )
        return plan_replay(spark, environment, chain, name, begin, request)
    if wanted.remedy == "restart":
        return plan_restart(spark, environment, chain, name, wanted.from_batch, request)
    if wanted.remedy == "rewind":
        to = To(wanted.to_batch, read_time(wanted.to_time) if wanted.to_time else None)
        return plan_rewind(spark, environment, chain, name, to, request)
    if wanted.beside:
        return plan_reset_beside(spark, environment, chain, name, request)
    return plan_reset(spark, environment, chain, name, request)
