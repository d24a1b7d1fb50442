"""Where a remedy stands, and where it may go from there: the protocol of apply and undo, in one table.

Whoever writes into the journal, and whoever reads it, asks this table; docs/remedies.md shows it. Between two states
the journal has an entry for each step that was done or undone (`STEP_KINDS`).

Every kind of step that a plan may have, in one table: asked by whoever makes a plan, applies it, undoes it or checks
it. `surestart.remedies.steps` has a module of the same name for each kind that is no step of jobs.

    WHILE_RUNNING   the stages may run: new tables are filled beside theirs
    WHILE_STOPPED   the stages stand still, and their queries are claimed
    AFTERWARDS      the stages may start again"""

from __future__ import annotations

from dataclasses import dataclass

FILLING, BEGUN, RELEASED, FINISHED = "filling", "begun", "released", "finished"
UNDOING, WITHDRAWN = "undoing", "withdrawn"
# Entries of a step; the state stays as it is.
DONE, UNDONE = "done", "undone"


@dataclass(frozen=True)
class RemedyState:
    """means: for a reader.
    moves: the states that may follow.
    verb: the command that carries the remedy on from here; "" where nothing is left to do.
    stops_stages: no stage that the remedy touches may start. A backfill stops nobody.
    alone: no other remedy of these stages may begin."""

    means: str
    moves: tuple[str, ...]
    verb: str = ""
    stops_stages: bool = False
    alone: bool = False


FIRST = (FILLING, BEGUN)
STATES = {
    FILLING: RemedyState(
        "new tables are filled beside those of the stages", (BEGUN, UNDOING, WITHDRAWN), "apply", alone=True
    ),
    BEGUN: RemedyState(
        "tables and checkpoints are being changed",
        (RELEASED, FILLING, UNDOING, WITHDRAWN),
        "apply",
        stops_stages=True,
        alone=True,
    ),
    RELEASED: RemedyState(
        "the stages may start; they are run again, and the rows counted", (FINISHED, UNDOING), "apply"
    ),
    FINISHED: RemedyState("every step is done", (UNDOING,)),
    # Back to where it stood, when nothing can be taken back.
    UNDOING: RemedyState(
        "the steps are being taken back",
        (WITHDRAWN, FILLING, BEGUN, RELEASED, FINISHED),
        "undo",
        stops_stages=True,
        alone=True,
    ),
    WITHDRAWN: RemedyState("all is as it was before, or nothing was changed", ()),
}


def check_move(before: str, after: str) -> None:
    """Raises for an entry that the protocol does not have: a fault of surestart, found before it is written."""
    if after not in (DONE, UNDONE, *STATES[before].moves):
        raise ValueError(f"a remedy that is {before} cannot become {after}")


@dataclass(frozen=True)
class RemedyKind:
    """What tells one remedy from the others, for whoever asks.

    changes_nothing: it only says what the next start does.
    adds_only: it writes rows that are missing, beside stages that run, and no undo takes them back by itself.
    keeps_tables: only the checkpoint goes elsewhere, with what it has by then.
    ends_query: the query is not started again, and its jobs stay paused.
    one_stage: the stages below it follow by themselves."""

    changes_nothing: bool = False
    adds_only: bool = False
    keeps_tables: bool = False
    ends_query: bool = False
    one_stage: bool = False


REMEDIES = {
    "resume": RemedyKind(changes_nothing=True),
    "rewind": RemedyKind(),
    "restart": RemedyKind(one_stage=True),
    "replay": RemedyKind(),
    "backfill": RemedyKind(adds_only=True, one_stage=True),
    "reset": RemedyKind(),
    "move": RemedyKind(keeps_tables=True, one_stage=True),
    "retire": RemedyKind(ends_query=True, one_stage=True),
}


def remedy_kind(name: str) -> RemedyKind:
    """One that only a newer version knows changes tables and checkpoints, for all that is known here."""
    return REMEDIES.get(name, RemedyKind())


WHILE_RUNNING, WHILE_STOPPED, AFTERWARDS = "running", "stopped", "afterwards"
# What a step changes, and an undo has to find again.
TABLE, CHECKPOINT, PLACE, DATABASE, OWN_SINK = "table", "checkpoint", "place", "database", "sink"
# Kinds that somebody looks for in a plan or a journal (`Plan.of_kind`).
JOBS, STOP, LOOK, UNPAUSE = "jobs", "stop", "look", "unpause"
FILL, CHECK, SWAP = "fill", "check", "swap"
KEEP, RESTORE, BACKFILL = "keep", "restore", "backfill"


@dataclass(frozen=True)
class StepKind:
    """does, undoes: what it does, and what its undo does, for a reader.
    phase: when it is done.
    undo_rank: when an undo takes it back; None: an undo passes it by.
    changes: what it changes, for an undo to find again: of a table what it held, by RESTORE; a checkpoint that is moved
        aside; the place of one; the rows of a database, or of a sink of your own.
    removes_rows: rows go that have to come again.
    changes_stage: it changes something of its stage, and does not only start or count it.
    decides: nothing of the stages is changed before it; where it fails, they go on as they were.
    restores: what it does is a RESTORE itself, which stages that read the table have to pass over.
    is_of_jobs: it is about the Databricks jobs of the stages."""

    does: str
    undoes: str
    phase: str = WHILE_STOPPED
    undo_rank: int | None = 2
    changes: str = ""
    removes_rows: bool = False
    changes_stage: bool = True
    decides: bool = False
    restores: bool = False
    is_of_jobs: bool = False


_NOTHING = "nothing"
# An undo takes the steps backwards, in the order of their ranks. Delta tables are first, because only a table may turn
# out to be beyond restoring. Then databases and other sinks, whose removed rows are kept. How the stages go on is last,
# because it follows from what the tables are by then.
STEP_KINDS = {
    JOBS: StepKind("writes down how the jobs are set", _NOTHING, undo_rank=None, is_of_jobs=True),
    STOP: StepKind("pauses the jobs and ends their runs", "sets them back", undo_rank=None, is_of_jobs=True),
    LOOK: StepKind("looks once more whether anything has moved", _NOTHING, undo_rank=None, is_of_jobs=True),
    UNPAUSE: StepKind("sets the jobs as they were", _NOTHING, AFTERWARDS, None, is_of_jobs=True),
    KEEP: StepKind("freezes which rows stay", "nothing: the marks are harmless"),
    "clear": StepKind(
        "removes the others from a Delta table", "RESTORE", undo_rank=0, changes=TABLE, removes_rows=True
    ),
    DATABASE: StepKind(
        "removes the others from PostgreSQL, or puts what was filled beside in their place",
        "puts the removed ones back",
        undo_rank=1,
        changes=DATABASE,
        removes_rows=True,
    ),
    OWN_SINK: StepKind(
        "has a sink of your own take out what it holds",
        "has it put that back",
        undo_rank=1,
        changes=OWN_SINK,
        removes_rows=True,
    ),
    RESTORE: StepKind(
        "gives a table what it held at a batch, by RESTORE",
        "RESTORE",
        undo_rank=0,
        changes=TABLE,
        removes_rows=True,
        restores=True,
    ),
    "rewind": StepKind(
        "puts a checkpoint that ends with a batch in the place of the one in use",
        "puts that back, byte for byte",
        changes=CHECKPOINT,
    ),
    "clone": StepKind("makes a shallow clone of a table in a fork's folder", "drops the fork", changes_stage=False),
    "fork": StepKind("writes the fork's checkpoint and declaration", "drops the fork", changes_stage=False),
    "move": StepKind(
        "moves a checkpoint to another place, and puts a file where it was",
        "moves it back, with what was written since",
        changes=PLACE,
    ),
    "declare": StepKind("has surestart.toml name the new place", "has it name the old one, byte for byte"),
    "retire": StepKind("moves a checkpoint aside", "moves it back, byte for byte", changes=CHECKPOINT),
    "start": StepKind("says how each stage begins", "says how it goes on", undo_rank=3),
    BACKFILL: StepKind("writes rows that are missing", "uses up its identity, where it has not written them"),
    FILL: StepKind("fills new tables beside", "drops them", WHILE_RUNNING),
    "mark": StepKind("notes where the new output ends", _NOTHING),
    CHECK: StepKind("counts what was filled beside", _NOTHING, decides=True),
    SWAP: StepKind("puts it in the place of the table's rows", "RESTORE", undo_rank=0, changes=TABLE),
    "run": StepKind("runs a stage through its gate", _NOTHING, AFTERWARDS, None, changes_stage=False),
    "certify": StepKind("counts every row", _NOTHING, AFTERWARDS, None, changes_stage=False),
    "drop": StepKind("drops what was filled beside", _NOTHING, AFTERWARDS),
}


def kind_of(name: str) -> StepKind:
    """Raises KeyError for a kind that this version does not know; `check_steps` has looked before."""
    return STEP_KINDS[name]


def changes_content(name: str) -> bool:
    """It changes what a Delta table holds; its undo is a RESTORE."""
    return name in STEP_KINDS and STEP_KINDS[name].changes == TABLE


def changes_database(name: str) -> bool:
    """It changes the rows of a PostgreSQL table."""
    return name in STEP_KINDS and STEP_KINDS[name].changes == DATABASE


def moves_checkpoint(name: str) -> bool:
    """The checkpoint in use is moved aside by it, and an undo brings it back."""
    return name in STEP_KINDS and STEP_KINDS[name].changes == CHECKPOINT


def is_of_jobs(name: str) -> bool:
    return name in STEP_KINDS and STEP_KINDS[name].is_of_jobs
