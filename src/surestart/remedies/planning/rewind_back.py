"""Where each stage of a rewind goes back to: batch, versions of its tables, and the cut of its checkpoint.

Rows of what a rewind takes back that a stage below holds also at the version to which its table goes back.

A replay has kept them, or a former self of the stage has written them before its checkpoint was lost: no batch that it
goes back behind has brought them, and nothing would ever take them away."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.checkpoint.cut import Cut, CutStorage
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.delta import Commit
from surestart.facts.state.compare_rows import RowsGivenUp, compare_state
from surestart.facts.storage.open_storage import LocalStorage
from surestart.history.describe_run import plan_command
from surestart.journal.journal import Journal, read_journals
from surestart.journal.stage_start import find_start, former_ids
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Chain, Link, anew_command
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.preconditions import LinkFacts, read_link
from surestart.remedies.basis.read_back import ask_of_cut
from surestart.remedies.basis.rows_that_stay import deleted_files, read_at
from surestart.remedies.loss.rewind_loss import counts_by_position
from surestart.remedies.planning.rewind_choice import RewindTo, choose_batch, not_possible
from surestart.remedies.planning.rewind_table import (
    BEFORE_THE_FIRST,
    batch_by,
    batches_with_state,
    find_fault,
    kept_batches,
    newest_within,
    read_standing,
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


def standing_commits(spark: SparkSession, facts: LinkFacts) -> dict[str, tuple[Commit, ...]]:
    return {name: read_standing(spark, table.table) for name, table in facts.tables.items() if table.exists}


def back_to(
    spark: SparkSession,
    environment: Environment,
    facts: LinkFacts,
    checkpoint: Checkpoint,
    standing: Mapping[str, Sequence[Commit]],
    ids: tuple[str, ...],
    batch: int,
) -> RewindPoint:
    link = facts.link
    versions: dict[str, int] = {}
    rows: dict[str, int | None] = {}
    of_others: list[str] = []
    for name, commits in standing.items():
        table = facts.tables[name]
        version = version_of_batch(environment, link, table.table, commits, ids, batch)
        refuse_other_writers(
            environment,
            link,
            table.table,
            commits,
            ids,
            version,
            has_positions=not link.keyed and counts_by_position(spark, link),
        )
        _refuse_deleted(spark, environment, link, table.table.name, version)
        then = rows_at(spark, environment, table.table, version)
        versions[name] = version
        of_others += _of_others(name, link, commits, ids, version)
        rows[name] = None if then is None or table.rows is None else max(table.rows - then, 0)
    storage = LocalStorage(str(local_folder(link.checkpoint)))
    if batch == BEFORE_THE_FIRST:
        state = compare_state(storage, link.query, checkpoint, None)
        return RewindPoint(facts, batch, "", ids, versions, rows, of_others=tuple(of_others), state=state)
    cut = try_cut(storage, batch)
    if not isinstance(cut, Cut):
        raise not_possible(environment, link, f"cannot go back to batch {batch}: {cut}", "")
    shown = CutStorage(storage, cut)
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
    gone = list(unread_files(storage, checkpoint, batch))
    if gone:
        raise Refused(
            f"of what {link.query} has read after batch {batch}, files are gone: {len(gone):,}, such as {gone[0]}",
            meaning="Their rows would be taken back and would not come again. Nothing was planned.",
            next=plan_command(environment, "replay", link.name, "--from-batch", batch + 1, "--keep-lost")
            if link.stage.ours
            else anew_command(environment, link),
            code="SourceLostRows",
        )
    state = compare_state(storage, link.query, checkpoint, read_checkpoint(storage.location, shown))
    return RewindPoint(
        facts,
        batch,
        str(uuid.uuid4()),
        ids,
        versions,
        rows,
        cut,
        answer.known,
        tuple(of_others),
        answer.not_asked,
        state,
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
    gone, of = deleted_files(spark, environment, output.table, version)
    if gone:
        raise Refused(
            f"{gone} of {of} files of version {version} of {name} are deleted (VACUUM)"
            if of
            else f"version {version} of {name} cannot be read any more: {gone}",
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
    checkpoint, standing = read_checkpoint(facts.link.checkpoint), standing_commits(spark, facts)
    ids = former_ids(journals, facts.link.name, checkpoint.query_id or "")
    found = None
    if checkpoint.latest_planned is not None:
        found = _where_to(spark, environment, facts, checkpoint, standing, ids, above, journals)
    versions = {
        name: version for one in [*above, *([found] if found else [])] for name, version in one.versions.items()
    }
    instead = above[0].link.name, above[0].batch + 1
    refuse_kept_rows(spark, environment, facts.link, standing, versions, ids, instead)
    return found


def _where_to(
    spark: SparkSession,
    environment: Environment,
    facts: LinkFacts,
    checkpoint: Checkpoint,
    standing: Mapping[str, Sequence[Commit]],
    ids: tuple[str, ...],
    above: Sequence[RewindPoint],
    journals: Sequence[Journal],
) -> RewindPoint:
    link = facts.link
    assert link.input is not None
    upstream = next((one for one in above if one.link.name == link.upstream), None)
    if upstream is None:
        raise not_possible(environment, link, f"has batches, and {link.upstream} above it has none", "")
    version = upstream.versions[link.input.name]
    batch = newest_within(checkpoint, version, batches_with_state(checkpoint, kept_batches(checkpoint)))
    if batch is not None:
        fault = find_fault(LocalStorage(str(local_folder(link.checkpoint))), batch)
        if fault:
            raise not_possible(environment, link, f"would go back to its batch {batch}, and cannot: {fault}", "")
        return back_to(spark, environment, facts, checkpoint, standing, ids, batch)
    start = find_start(journals, link.name)
    if start is not None and start.version is not None and start.version > version + 1:
        why = (
            f"{start.version} of {link.input.name}, by the remedy {start.digest[:12]}; {upstream.link.query} would go "
        )
        top = above[0]
        raise _cannot_follow(environment, link, why + f"back to version {version}", top.link.name, top.batch + 1)
    return back_to(spark, environment, facts, checkpoint, standing, ids, BEFORE_THE_FIRST)


def _cannot_follow(environment: Environment, link: Link, why: str, stage: str, batch: int) -> Refused:
    return Refused(
        f"{link.query} has begun at version {why}",
        meaning="It could not begin there again, and would keep rows its input no longer has. Nothing was planned.",
        next=plan_command(environment, "replay", stage, "--from-batch", batch),
        code="ReaderCannotGoBack",
    )


def refuse_kept_rows(
    spark: SparkSession,
    environment: Environment,
    link: Link,
    standing: Mapping[str, Sequence[Commit]],
    versions: Mapping[str, int],
    ids: Collection[str],
    instead: tuple[str, int],
) -> None:
    """Raises where the stage's tables would keep such rows. standing: the commits of each of them. versions: those that
    tables go back to. ids: of the stage. instead: the stage and the first batch of a replay, which goes by the rows'
    positions."""
    if link.input is None or link.input.name not in versions:
        return
    for name, commits in standing.items():
        if not _has_former_rows(link, commits, versions.get(name), ids):
            continue
        rows = _rows_that_go(spark, environment, link.input.name, name, versions, _before_own(commits, ids))
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
        facts, checkpoint = read_link(link, spark), read_checkpoint(link.checkpoint)
        standing = standing_commits(spark, facts)
        ids = former_ids(read_journals(environment, spark), stage, checkpoint.query_id or "")
        choose_batch(environment, link, checkpoint, standing, ids, RewindTo(batch))
        for name, commits in standing.items():
            table = facts.tables[name].table
            version = version_of_batch(environment, link, table, commits, ids, batch)
            refuse_other_writers(environment, link, table, commits, ids, version, has_positions=True)
            _refuse_deleted(spark, environment, link, name, version)
        cut = try_cut(LocalStorage(str(local_folder(link.checkpoint))), batch)
    except SurestartError:
        return None
    return cut.size + facts.manifest.size if isinstance(cut, Cut) and not checkpoint.state.operators else None
