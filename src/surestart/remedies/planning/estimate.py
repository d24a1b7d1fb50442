"""What a plan says before anything is done: what would be lost, how long it takes, until when it can be undone, and
which sinks are left out where stages are run again.

A plan that was made without a setting (postgres_url) knows nothing of that sink, which is then neither cleared nor
written. The start gate would ask about it in the middle of a remedy, when nobody can answer. So the plan says that the
sink is left out, and whoever applies the plan accepts that."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.describe_run import plan_command
from surestart.history.run_record import RunRecord
from surestart.journal.journal import now
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Step
from surestart.remedies.basis.preconditions import LinkFacts
from surestart.remedies.loss.loss import Loss
from surestart.sources.abilities import folder_of
from surestart.typed import NextCommand, Words
from surestart.verdict.change_safety import LEFT_OUT, find_left_out
from surestart.words.amounts import size_text

if TYPE_CHECKING:
    from surestart.remedies.planning.wanted import Request


def check_loss(
    loss: Loss, request: Request, remedy: str, environment: Environment, stage: str, keeps: bool = True
) -> None:
    """Raises unless nothing is lost, or just the number of rows that somebody has named. keeps: --keep-lost helps."""
    accepted = request.accept_loss
    if not loss.rows and not accepted:
        return

    usual = without(request.options, "--keep-lost")

    def plan(*more: object, options: Words = usual, note: str = "") -> NextCommand:
        return plan_command(environment, remedy, stage, *options, *more, note=note)

    if accepted is not None and accepted != loss.rows:
        raise Refused(
            f"--accept-loss {accepted} was given, {loss.rows:,} rows would be lost"
            + (f": {loss.why}" if loss.why else ""),
            meaning="The number has to be the one that is lost, so that nobody accepts a loss unseen. "
            "Nothing was planned.",
            next=plan("--accept-loss", loss.rows) if loss.rows else plan(options=request.options),
            code="LossNotNamed",
        )
    if accepted is None and loss.other_topic:
        raise Refused(
            f"{loss.rows:,} rows would be lost for ever: {loss.why}",
            meaning="They would be removed, and cannot stay either: their offsets mean other records now, which would "
            "be left out. Nothing was planned.",
            next=plan("--accept-loss", loss.rows, note="once they are kept elsewhere, or nobody needs them"),
            do_not="begin after them in the new topic.",
            code="SourceLostRows",
        )
    if accepted is None:
        in_place = request.options if keeps else without(request.options, "--beside")
        note = "those rows stay as they are" + ("" if keeps else "; clears in place")
        stay = plan("--keep-lost", options=in_place, note=note)
        named = plan("--accept-loss", loss.rows, note="if nobody needs them: no position says which rows to keep")
        raise Refused(
            f"{loss.rows:,} rows would be lost for ever: {loss.why}",
            meaning="They would be removed from the output, and nothing brings them again. Nothing was planned.",
            next=stay if loss.marks else named,
            do_not=f"accept it with --accept-loss {loss.rows} unless nobody needs them.",
            code="SourceLostRows",
        )


def without(options: Words, flag: str) -> Words:
    return tuple(word for word in options if word != flag)


def describe_plan(
    facts: Sequence[LinkFacts],
    runs: Sequence[RunRecord],
    loss: Loss,
    effects: Sequence[Effect],
) -> list[str]:
    lines = []
    lines.append(
        f"{loss.rows:,} rows are lost for ever: {loss.why}"
        if loss.rows
        else "Every row that is removed comes again."
        if not loss.why
        else f"Rows that would not come again stay: {loss.why}."
    )
    for one in facts:
        removed = [effect.rows for effect in effects if effect.action == REMOVE_ROWS and effect.target in one.tables]
        known = all(count is not None for count in removed)
        lines += describe_rebuild(one, runs, sum(count or 0 for count in removed) if known else None)
    if len(facts) > 1:
        below = ", ".join(one.link.query for one in facts[1:])
        lines.append(f"{below}: stopped first, restarted last; a stage below another begins after its clearing.")
    lines.append("Any other stream that reads these tables stops at the removal, unless it skips change commits.")
    return lines


def describe_rebuild(one: LinkFacts, runs: Sequence[RunRecord], rows: int | None) -> list[str]:
    """How long it takes to write so many rows of the stage again."""
    lines = [f"{one.link.query} loses its state: {', '.join(one.link.stage.state)}."] if one.link.stage.state else []
    pace = _pace(one, runs)
    if pace is None or rows is None:
        return [*lines, f"{one.link.query}: how long it takes is not known; no run of it is in the history."]
    batches = max(math.ceil(rows * pace.batches), 1 if rows else 0)
    return [
        *lines,
        f"{one.link.query}: about {_duration(rows * pace.seconds)} for {rows:,} rows in {batches:,} "
        f"batch{'' if batches == 1 else 'es'}, by its last runs.",
    ]


@dataclass(frozen=True)
class _Pace:
    """What a row of the stage's output costs."""

    seconds: float
    batches: float


def _pace(one: LinkFacts, runs: Sequence[RunRecord]) -> _Pace | None:
    """The pace of the stage's last runs that had something to do."""
    own = own_runs(runs, one.link)
    done = [run for run in own if run.rows and run.ended_at and run.ended_at > run.started_at][-5:]
    rows = sum(run.rows or 0 for run in done) * _rows_per_unit(one, own)
    if not rows:
        return None
    seconds = sum((run.ended_at or 0) - run.started_at for run in done) / 1000
    return _Pace(seconds / rows, sum(run.batches for run in done) / rows)


def _rows_per_unit(one: LinkFacts, own: Sequence[RunRecord]) -> float:
    """How many rows one counted input row stands for. For landed files Spark counts files: then it is the rows of the
    table divided by the files of all runs."""
    if folder_of(one.link.stage.source) is None:
        return 1.0
    files = sum(run.rows or 0 for run in own if run.query_id == one.checkpoint.query_id)
    held = sum(table.rows or 0 for table in one.tables.values())
    return held / files if files else 0.0


def own_runs(runs: Sequence[RunRecord], link: Link) -> list[RunRecord]:
    return [run for run in runs if run.query == link.query]


def undo_until(facts: Sequence[LinkFacts], behind: str = "") -> str:
    """Until when the removed rows can come back. behind: from when on, where that is not now."""
    kept = [table.undo_retention for one in facts for table in one.tables.values() if table.exists]
    if not kept:
        return "possible until `surestart prune` the retired checkpoints"
    until = datetime.datetime.fromtimestamp((now() + min(kept)) / 1000, datetime.UTC)
    when = f"not before {until:%Y-%m-%d %H:%M} UTC" if min(kept) else "at any moment"
    return (
        f"possible until a VACUUM deletes the removed files {behind}(by these tables' settings {when}) or "
        "`surestart prune` the retired checkpoints"
    )


def size_of_tables(one: LinkFacts) -> int:
    return sum(table.size or 0 for table in one.tables.values())


def describe_cheaper(other: NextCommand, *, copied: int, searched: int, rewinds: bool) -> str:
    """Which of the two ways back costs less, where both are possible. other: the one that this plan is not.
    copied: bytes of checkpoints, by a rewind. searched: bytes of tables, by a replay."""
    why = (
        f"a rewind copies {size_text(copied)} of checkpoints and reads no table; a replay finds the rows by their "
        f"positions, in {size_text(searched)} of tables"
    )
    if rewinds == (copied <= searched):
        return f"`{other}` would do it as well. This way is the cheaper one: {why}."
    return f"The cheaper way is `{other}`: {why}."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"


CERTIFY = Step.of("certify", "", "count every row from the source to the last table")


def run_steps(links: Iterable[Link], environment: Environment, runs: Sequence[RunRecord]) -> list[Step]:
    return [_run_step(link, _left_out(link, environment, runs)) for link in links]


def _run_step(link: Link, left_out: Sequence[str]) -> Step:
    what = f"run {link.query} to the end of the data"
    if not left_out:
        return Step.of("run", link.name, what, link.name)
    places = " and ".join(left_out)
    what += f", WITHOUT {places}: its last run wrote there, this plan was made without that sink, whose rows stay old"
    return Step.of("run", link.name, what, link.name, {"accept": [LEFT_OUT]})


def _left_out(link: Link, environment: Environment, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    ran = [run for run in own_runs(runs, link) if run.environment == environment.name and run.last_batch is not None]
    declared = [run.declaration for run in ran if isinstance(run.declaration, Mapping) and run.declaration]
    if not declared:
        return ()
    return tuple(change.before for change in find_left_out(link.stage.declare(environment), declared[-1]))
