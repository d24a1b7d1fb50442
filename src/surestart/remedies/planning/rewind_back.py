"""Where each stage of a rewind goes back to: batch, versions of its tables, and the cut of its checkpoint.

Refuses where a stage below would keep rows that are taken back above it. A replay has kept them there, or the stage
has written them under an earlier checkpoint that was lost since. No batch of today's checkpoint has brought them, so
going back to a batch of it would never take them away."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.checkpoint.cut import Cut, CutStorage
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import Commit
from surestart.facts.state.compare_rows import RowsGivenUp, compare_state
from surestart.history.describe_run import plan_command
from surestart.journal.journal import Journal, read_journals
from surestart.journal.stage_start import StageStart, find_start
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Chain, Link, anew_command
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.preconditions import LinkFacts, read_link
from surestart.remedies.basis.read_back import ask_of_cut
from surestart.remedies.basis.rows_that_stay import read_at, why_not_readable
from surestart.remedies.loss.rewind_loss import counts_by_position
from surestart.remedies.planning.rewind_choice import RewindTo, StreamNow, choose_batch, not_possible, read_stream_now
from surestart.remedies.planning.rewind_table import (
    BEFORE_THE_FIRST,
    batch_by,
    batches_with_state,
    find_fault,
    kept_batches,
    newest_within,
    refuse_other_writers,
    rows_at,
    settings_since,
    stays_of_others,
    try_cut,
    unread_files,
    version_of_batch,
)
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side
from surestart.words.finding import Severity


@dataclass(frozen=True)
class RewindPoint:
    """Where one stage goes back to.

    versions: of each of its tables.
    rows: that go of each; None: not every file says how many it has.
    of_others: what else a reader of the plan has to know of the tables' former versions.
    not_asked: sources that nobody could ask whether they still have what was read since.
    state: what each store of it had at the batch, and what of its rows now is given up."""

    facts: LinkFacts
    batch: int
    query_id: str
    ids: tuple[str, ...]
    versions: Mapping[str, int]
    rows: Mapping[str, int | None]
    cut: Cut | None = None
    findings: tuple[str, ...] = ()
    of_others: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    state: tuple[RowsGivenUp, ...] = ()

    @property
    def link(self) -> Link:
        return self.facts.link

    @property
    def planned(self) -> int:
        return self.facts.checkpoint.latest_planned or 0


def back_to(spark: SparkSession, environment: Environment, now: StreamNow, batch: int) -> RewindPoint:
    tables, link = _tables_back(spark, environment, now, batch), now.link
    if batch == BEFORE_THE_FIRST:
        return replace(tables, state=compare_state(now.storage, link.query, now.checkpoint, None))
    cut = try_cut(now.storage, batch)
    if not isinstance(cut, Cut):
        raise not_possible(environment, link, f"cannot go back to batch {batch}: {cut}", "")
    shown = CutStorage(now.storage, cut)
    answer = ask_of_cut(spark, environment, link, shown)
    if answer.stops:
        first = answer.stops[0]
        kind = CannotTell if first.severity is Severity.CANNOT_TELL else Refused
        raise kind(
            f"{link.query} could not go on from batch {batch}: {first.code}: {first.evidence}",
            meaning=f"{first.meaning} Nothing was planned.",
            next=first.next,
            code=first.code,
        )
    _refuse_unread_gone(environment, now, batch)
    return replace(
        tables,
        query_id=str(uuid.uuid4()),
        cut=cut,
        findings=answer.known,
        not_asked=answer.not_asked,
        state=compare_state(now.storage, link.query, now.checkpoint, read_checkpoint(now.storage.location, shown)),
    )


def _tables_back(spark: SparkSession, environment: Environment, now: StreamNow, batch: int) -> RewindPoint:
    """The version to which each of its tables goes back, and what goes with that; nothing yet of the checkpoint."""
    link = now.link
    versions: dict[str, int] = {}
    rows: dict[str, int | None] = {}
    of_others: list[str] = []
    for name, commits in now.standing.items():
        table = now.facts.tables[name]
        version = version_of_batch(environment, link, table.table, commits, now.ids, batch)
        positions = not link.keyed and counts_by_position(spark, link)
        refuse_other_writers(environment, link, table.table, commits, now.ids, version, has_positions=positions)
        _refuse_deleted(spark, environment, link, name, version)
        then = rows_at(spark, environment, table.table, version)
        versions[name] = version
        rows[name] = None if then is None or table.rows is None else max(table.rows - then, 0)
        of_others += _of_others(name, link, commits, now.ids, version)
    return RewindPoint(now.facts, batch, "", now.ids, versions, rows, of_others=tuple(of_others))


def _refuse_unread_gone(environment: Environment, now: StreamNow, batch: int) -> None:
    gone = list(unread_files(now.storage, now.checkpoint, batch))
    if gone:
        raise Refused(
            f"of what {now.link.query} has read after batch {batch}, files are gone: {len(gone):,}, such as {gone[0]}",
            meaning="Their rows would be taken back and would not come again. Nothing was planned.",
            next=plan_command(environment, "replay", now.link.name, "--from-batch", batch + 1, "--keep-lost")
            if now.link.stage.ours
            else anew_command(environment, now.link),
            code="SourceLostRows",
        )


def _of_others(name: str, link: Link, commits: Sequence[Commit], ids: tuple[str, ...], version: int) -> list[str]:
    lines = []
    if stays := stays_of_others(commits, link.query, ids, version):
        lines.append(f"{name} had been changed by others before the next batch, and that stays: {stays}.")
    if settings := settings_since(commits, version):
        lines.append(f"The settings of {name} go back with it; set them again afterwards: {settings}.")
    return lines


def _refuse_deleted(spark: SparkSession, environment: Environment, link: Link, name: str, version: int) -> None:
    output = next(one for one in link.outputs if one.table.name == name)
    if why := why_not_readable(spark, environment, output.table, version):
        raise Refused(
            why,
            meaning="What the table held then cannot come back. Nothing was planned.",
            next=anew_command(environment, link),
            code="VersionGone",
        )


def back_below(
    spark: SparkSession,
    environment: Environment,
    facts: LinkFacts,
    above: Sequence[RewindPoint],
    journals: Sequence[Journal],
) -> RewindPoint | None:
    """None: its checkpoint has no batch, and its tables nothing of what is taken back."""
    now, found = read_stream_now(spark, facts, journals), None
    if now.checkpoint.latest_planned is not None:
        found = _where_to(spark, environment, now, above, find_start(journals, facts.link.name))
    versions = {
        name: version for one in [*above, *([found] if found else [])] for name, version in one.versions.items()
    }
    _refuse_kept_rows(spark, environment, now, versions, (above[0].link.name, above[0].batch + 1))
    return found


def _where_to(
    spark: SparkSession,
    environment: Environment,
    now: StreamNow,
    above: Sequence[RewindPoint],
    start: StageStart | None,
) -> RewindPoint:
    """start: how a remedy has told the stage to begin."""
    link = now.link
    assert link.input is not None
    upstream = next((one for one in above if one.link.name == link.upstream), None)
    if upstream is None:
        raise not_possible(environment, link, f"has batches, and {link.upstream} above it has none", "")
    version = upstream.versions[link.input.name]
    batch = newest_within(now.checkpoint, version, batches_with_state(now.checkpoint, kept_batches(now.checkpoint)))
    if batch is not None:
        if fault := find_fault(now.storage, batch):
            raise not_possible(environment, link, f"would go back to its batch {batch}, and cannot: {fault}", "")
        return back_to(spark, environment, now, batch)
    if start is not None and start.version is not None and start.version > version + 1:
        top = above[0]
        raise Refused(
            f"{link.query} has begun at version {start.version} of {link.input.name}, by the remedy "
            f"{start.digest[:12]}; {upstream.link.query} would go back to version {version}",
            meaning="It could not begin there again, and would keep rows its input no longer has. Nothing was planned.",
            next=plan_command(environment, "replay", top.link.name, "--from-batch", top.batch + 1),
            code="ReaderCannotGoBack",
        )
    return back_to(spark, environment, now, BEFORE_THE_FIRST)


def _refuse_kept_rows(
    spark: SparkSession,
    environment: Environment,
    now: StreamNow,
    versions: Mapping[str, int],
    instead: tuple[str, int],
) -> None:
    """Raises where the stage's tables would keep such rows.

    versions: those that tables go back to.
    instead: the stage and the first batch of a replay, which goes by the rows' positions."""
    link = now.link
    if link.input is None or link.input.name not in versions:
        return
    for name, commits in now.standing.items():
        if not _has_former_rows(link, commits, versions.get(name), now.ids):
            continue
        rows = _rows_that_go(spark, environment, link.input.name, name, versions, _before_own(commits, now.ids))
        if rows:
            stage, batch = instead
            raise Refused(
                f"{link.query} would keep {rows:,} rows of {name} that belong to what is taken back",
                meaning="A replay has kept them, or its checkpoint was lost since: no batch of it says when they came, "
                "and nothing would take them away. Nothing was planned.",
                next=plan_command(environment, "replay", stage, "--from-batch", batch),
                code="ReaderCannotGoBack",
            )


def _has_former_rows(link: Link, commits: Sequence[Commit], version: int | None, ids: Collection[str]) -> bool:
    """The stage has written into it under an id that is none of its own by now; or may have, where the log does not
    reach back to the beginning. Rows of others stay in any case."""
    marks = [one.mark for one in commits if version is None or one.version <= version]
    begins = bool(commits) and commits[0].version == 0
    return not begins or any(mark and mark.query == link.query and mark.query_id not in ids for mark in marks)


def _before_own(commits: Sequence[Commit], ids: Collection[str]) -> int | None:
    """The version before the first batch of the stage's own; None: it has none."""
    own = [one.rows_at for one in commits if batch_by(one, ids) is not None]
    return min(own) - 1 if own else None


def _rows_that_go(
    spark: SparkSession,
    environment: Environment,
    given: str,
    name: str,
    versions: Mapping[str, int],
    former: int | None,
) -> int:
    """By position; of a table without positions, every row of before its own batches."""
    rows = _read(spark, environment, name, versions)
    columns = read_columns(spark, environment.table(given)) or {}
    if not set(POSITION) <= set(columns) or not set(POSITION) <= set(rows.columns):
        return rows.count() if former is None else read_at(spark, environment, name, former).count()
    now = read_table(spark, environment.table(given)).select(*POSITION)
    going = not_in(now, read_at(spark, environment, given, versions[given]))
    return 0 if going is None else rows.join(large_side(going), list(POSITION), "left_semi").count()


def _read(spark: SparkSession, environment: Environment, name: str, versions: Mapping[str, int]) -> DataFrame:
    if name in versions:
        return read_at(spark, environment, name, versions[name])
    return read_table(spark, environment.table(name))


def copied_by_rewind(spark: SparkSession, environment: Environment, chain: Chain, stage: str, batch: int) -> int | None:
    """How many bytes a rewind of the stage to that batch would copy; None where it could not go back there, or would
    keep its state, with which nothing else compares."""
    link = chain.link(stage)
    if any(one.databases or one.own_sinks for one in chain.below(stage)):
        return None
    try:
        now = read_stream_now(spark, read_link(link, spark), read_journals(environment, spark))
        choose_batch(environment, now, RewindTo(batch))
        for name, commits in now.standing.items():
            table = now.facts.tables[name].table
            version = version_of_batch(environment, link, table, commits, now.ids, batch)
            refuse_other_writers(environment, link, table, commits, now.ids, version, has_positions=True)
            _refuse_deleted(spark, environment, link, name, version)
        cut = try_cut(now.storage, batch)
    except SurestartError:
        return None
    return cut.size + now.facts.manifest.size if isinstance(cut, Cut) and not now.checkpoint.state.operators else None
