"""The plan of any remedy, from what is wanted: refused where a remedy is half-way, with the jobs that it stops."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, Table
from surestart.errors import UsageError
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.describe_run import plan_command
from surestart.history.run_table import read_runs
from surestart.journal.protocol import changes_content
from surestart.journal.unfinished import refuse_unfinished
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, refuse_declared
from surestart.remedies.basis.plan import Effect, Plan
from surestart.remedies.basis.preconditions import as_preconditions, read_link
from surestart.remedies.jobs.plan_jobs import AUTO, with_jobs
from surestart.remedies.planning.plan_backfill import ArrivalTime, plan_backfill, read_ranges
from surestart.remedies.planning.plan_fork import plan_fork
from surestart.remedies.planning.plan_move import plan_move
from surestart.remedies.planning.plan_replay import ReplayFrom, parse_positions, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset, plan_reset_beside
from surestart.remedies.planning.plan_restart import plan_restart
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.planning.plan_rewind import plan_rewind
from surestart.remedies.planning.rewind_choice import RewindTo
from surestart.remedies.planning.wanted import Request, Wanted
from surestart.runs.judge_start import judge_stage
from surestart.sources.abilities import topic_of
from surestart.streams.stream import Stream
from surestart.typed import Words
from surestart.verdict.diagnose import Diagnosis
from surestart.words.next_commands import commands_for


def plan_remedy(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    wanted: Wanted,
    *,
    settings: Mapping[str, str] | None = None,
    pipeline: str = "",
    place: Words = (),
    streams: Sequence[Stream] = (),
) -> Plan:
    """What the remedy would do, with the jobs that it stops; nothing is changed.

    settings, pipeline: how the stages were made, for whoever applies it.
    place: what a printed command needs beside the environment.
    streams: others than the chain's own that are declared; the plan names those that read what it changes."""
    name = wanted.stage.removeprefix(f"{environment.pipeline}-")
    _check_beside(environment, name, wanted)
    forks = wanted.remedy == "rewind" and bool(wanted.beside)
    # Streams below are no part of a fork.
    refuse_declared(
        environment, Chain((chain.link(name),)) if forks else chain, name, wanted.remedy, emptied=wanted.clear_tables
    )
    for link in chain.below(name):
        refuse_unfinished(environment, link.query, spark, place)
        topic = topic_of(link.stage.source)
        if topic is not None:
            # Before the jobs are paused and rows are cleared: the remedy begins a new stream in the end.
            topic.refuse_shown_secrets(spark)
    request = Request(
        settings=settings or {},
        pipeline=pipeline,
        accept_loss=wanted.accept_loss,
        keep_lost=wanted.keep_lost,
        run=not wanted.no_run,
        options=wanted.options,
    )
    plan = name_readers(_plan(spark, environment, chain, name, wanted, request, place), environment, streams)
    return with_jobs(spark, environment, plan, wanted.jobs or AUTO)


def _check_beside(environment: Environment, stage: str, wanted: Wanted) -> None:
    """Raises where --beside is given in the form of the other remedy, or with what has no effect on a fork."""
    folder, useless = isinstance(wanted.beside, str), ""
    if wanted.remedy == "reset" and folder:
        raise UsageError(
            f"--beside {wanted.beside}: a reset fills its tables beside those of the stage, and takes no folder",
            meaning="Nothing was planned.",
            next=plan_command(environment, "reset", stage, "--beside"),
        )
    if wanted.remedy != "rewind" or not wanted.beside:
        return
    if wanted.no_run or wanted.accept_loss is not None or wanted.jobs:
        useless = "--no-run, --accept-loss and --jobs have no effect on a fork: it changes nothing of the stream"
    if useless or not folder:
        raise UsageError(
            useless or "--beside of a rewind needs the folder of the fork",
            meaning="Nothing was planned.",
            next=plan_command(environment, "rewind", stage, "--beside", "/scratch/rehearsal"),
        )


def _plan(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    name: str,
    wanted: Wanted,
    request: Request,
    place: Words,
) -> Plan:
    if wanted.remedy == "resume":
        stage, runs = chain.link(name).stage, read_runs(environment, spark)
        judged = judge_stage(environment, stage, runs, commands_for(stage, environment, place), session=spark)
        return plan_resume(spark, environment, chain, name, judged, request)
    if wanted.remedy == "retire":
        return plan_retire(spark, environment, chain, name, wanted.clear_tables, request)
    if wanted.remedy == "backfill":
        between = ArrivalTime(
            _time(environment, name, wanted, "arrived_from"), _time(environment, name, wanted, "arrived_before")
        )
        return plan_backfill(spark, environment, chain, name, read_ranges(wanted.range), between, request)
    if wanted.remedy == "replay":
        begin = ReplayFrom(
            batch=wanted.from_batch,
            time=_time(environment, name, wanted, "from_time"),
            positions=parse_positions(wanted.from_positions) if wanted.from_positions else None,
            output=wanted.from_output,
        )
        return plan_replay(spark, environment, chain, name, begin, request)
    if wanted.remedy == "restart":
        return plan_restart(spark, environment, chain, name, wanted.from_batch, request)
    if wanted.remedy == "move":
        return plan_move(spark, environment, chain, name, wanted.to, request)
    if wanted.remedy == "rewind" and wanted.beside:
        to = RewindTo(wanted.to_batch, _time(environment, name, wanted, "to_time"))
        return plan_fork(spark, environment, chain, name, to, str(wanted.beside), request)
    if wanted.remedy == "rewind":
        to = RewindTo(wanted.to_batch, _time(environment, name, wanted, "to_time"))
        return plan_rewind(spark, environment, chain, name, to, request)
    if wanted.beside:
        return plan_reset_beside(spark, environment, chain, name, request)
    return plan_reset(spark, environment, chain, name, request)


def check_times(environment: Environment, stage: str, wanted: Wanted) -> None:
    """Raises for a time that is none, or that has no zone; asks nobody."""
    for option in ("to_time", "from_time", "arrived_from", "arrived_before"):
        _time(environment, stage, wanted, option)


def _time(environment: Environment, stage: str, wanted: Wanted, option: str) -> int | None:
    """Milliseconds of a moment: a time without a zone is another one wherever it is read."""
    text = getattr(wanted, option)
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        moment.timestamp()
    except (ValueError, OverflowError) as problem:
        given = replace(wanted, **{option: "2026-01-31T03:00:00Z"})  # type: ignore[arg-type]
        raise UsageError(
            f"{text!r} is not a time",
            meaning="Nothing was planned.",
            next=plan_command(environment, wanted.remedy, stage, *given.options, note="such as this one"),
        ) from problem
    if moment.tzinfo is not None:
        return int(moment.timestamp() * 1000)
    in_utc = replace(wanted, **{option: f"{moment.isoformat()}Z"})  # type: ignore[arg-type]
    raise UsageError(
        f"{text!r} has no time zone",
        meaning=f"By the clock of this machine it is {moment.astimezone().isoformat()}, which may be another moment "
        "than the one that is meant. Nothing was planned.",
        next=plan_command(environment, wanted.remedy, stage, *in_utc.options, note="if it is in UTC"),
        code="TimeWithoutZone",
    )


def name_readers(plan: Plan, environment: Environment, streams: Sequence[Stream]) -> Plan:
    """The same plan, which also says which of these streams its change stops. Nobody can tell their code to pass over
    it, as a stage does."""
    lines = []
    for name in dict.fromkeys(step.arguments["table"] for step in plan.steps if changes_content(step.kind)):
        table = environment.table(name)
        names = [one.name for one in streams if any(_reads(source, table) for source in one.sources)]
        if names:
            lines.append(
                f"{', '.join(names)}, declared in surestart.toml, {'reads' if len(names) == 1 else 'read'} "
                f"{name}: what is taken back has been read there or will be, and the stream stops at the "
                "change. Retire it before, and let it begin anew after the change."
            )
    return replace(plan, statements=(*plan.statements, *lines)) if lines else plan


def _reads(source: SourceDeclaration, table: Table) -> bool:
    if source.kind != "delta":
        return False
    if table.path and source.path:
        return checkpoint_place(source.path) == checkpoint_place(table.path)
    return bool(table.qualified) and source.target == table.qualified


def plan_resume(
    spark: SparkSession | None,
    environment: Environment,
    chain: Chain,
    stage: str,
    diagnosis: Diagnosis,
    request: Request,
) -> Plan:
    link = chain.link(stage)
    facts = read_link(link, spark)
    checkpoint = diagnosis.evidence.checkpoint
    if checkpoint.in_flight is not None:
        first = (
            f"Batch {checkpoint.in_flight} is planned and not committed: "
            "the next start runs it again, with the same positions."
        )
    else:
        first = f"No batch is in flight: the next start plans batch {checkpoint.next_batch}."
    statements = [first]
    for answer in diagnosis.sinks:
        statements.append(f"{answer.sink.target}: {answer.acceptance.value}: {answer.detail}")
    statements.append(f"Verdict: {diagnosis.verdict.value}.")
    statements += [f"{finding.code}: {finding.evidence}" for finding in diagnosis.findings]
    return Plan(
        remedy="resume",
        stage=stage,
        method="none",
        **request.of_plan(environment),
        touched=(stage,),
        preconditions=as_preconditions([facts]),
        steps=(),
        effects=(Effect(link.checkpoint, "stays as it is", None, len(facts.manifest.files), facts.manifest.size),),
        statements=tuple(statements),
        verdict=diagnosis.verdict.value,
    )
