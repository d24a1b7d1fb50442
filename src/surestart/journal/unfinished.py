"""A remedy that was begun and not ended.

unfinished_error    no stage that it touches may start before it is finished or undone
unfinished_beside   the stages may start: it fills tables beside theirs, or a hole. It should still be finished
jobs_paused         the stages may start, and nothing starts them: their jobs are still paused by the remedy
"""

from __future__ import annotations

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import FILLING, UNDOING, WITHDRAWN, Journal, find_open, read_journals
from surestart.library_types import SparkSession
from surestart.typed import Place, Words, surestart
from surestart.words.finding import Finding, Severity

CODE, GOES_ON_BESIDE, JOBS_PAUSED = "REMEDY_UNFINISHED", "REMEDY_BESIDE", "REMEDY_JOBS_PAUSED"


def refuse_unfinished(environment: Environment, query: str, spark: SparkSession | None, options: Words = ()) -> None:
    journal = find_open(read_journals(environment, spark), query)
    if journal is not None:
        raise unfinished_error(journal, query, environment, options)


def unfinished_error(journal: Journal, query: str, environment: Environment, options: Words = ()) -> Refused:
    first, digest = journal.first, journal.digest[:12]
    verb = journal.verb
    place = Place(environment.name, options)
    on = surestart(verb, digest, place=place)
    done = len(journal.undone if journal.state == UNDOING else journal.done)
    if journal.goes_on_beside and first.kind.adds_only:
        harm = "Rows that were missing are being written; another remedy would remove them, or write them again."
    elif journal.state == FILLING:
        harm = (
            "New tables are being filled beside its own, to take their "
            "place; another remedy would change what they replace."
        )
    else:
        harm = "Its output is partly cleared or its checkpoint partly moved: a start now would lose or double rows."
    return Refused(
        f"{query} is in the middle of a {first.remedy} of {first.stage} (digest {digest}, {done} steps done, next: "
        f"{journal.last.next or 'its end'})",
        meaning=f"{harm} Nothing was started.",
        next=on if verb == "undo" else on.noting("or", surestart("undo", digest, place=place)),
        do_not="start the stage with plain Spark, or delete what is left of its checkpoint.",
        code=CODE,
    )


def unfinished_beside(journal: Journal, query: str, environment: Environment, options: Words = ()) -> Finding:
    """The finding for a query whose stage may run meanwhile: what is unfinished, and how it is finished."""
    first, digest = journal.first, journal.digest[:12]
    steps = journal.undone if journal.state == UNDOING else journal.done
    verb = journal.verb
    swap = "For the swap at its end they have to stand still. " if journal.state == FILLING else ""
    return Finding(
        GOES_ON_BESIDE,
        Severity.INFO,
        f"a {first.remedy} of {first.stage} goes on beside {query} (digest {digest}, {len(steps)} steps done, next: "
        f"{journal.last.next or 'its end'})",
        f"The stages may start and run meanwhile. {swap}What it has written so far takes space until it is ended.",
        surestart(
            verb,
            digest,
            place=Place(environment.name, options),
            note="" if verb == "undo" else "where nobody does so yet",
        ),
    )


def jobs_paused(journal: Journal, query: str, environment: Environment, options: Words = ()) -> Finding:
    """The finding for a query whose job does not start it: a remedy has left the job paused."""
    first, digest = journal.first, journal.digest[:12]
    verb = "undo" if journal.state == WITHDRAWN else "apply"
    labels = [f"{job['name']} (job {job['job_id']})" for job in (journal.paused_jobs or {}).get("jobs", ())]
    return Finding(
        JOBS_PAUSED,
        Severity.ATTENTION,
        f"a {first.remedy} of {first.stage} (digest {digest}) is {journal.state}, and the jobs that it has paused were "
        f"not set as they were: {', '.join(labels)}",
        f"{query} may start, and its job does not start it. Nothing is lost, the backlog grows.",
        surestart(verb, digest, place=Place(environment.name, options), note="where nobody does so yet"),
        "unpause them by hand: those that were paused before the remedy look the same.",
    )
