"""Why a stage did not start, or stopped: Spark's errors and those of our own inside a batch, each in four parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from surestart.errors import Refused, SurestartError, read_printed
from surestart.history.describe_run import named
from surestart.library_types import PySparkException
from surestart.stage import BatchContext
from surestart.typed import NextStep, surestart
from surestart.verdict.explain import explain
from surestart.verdict.explanations import all_explanations
from surestart.words.spark_errors import condition_of

NOTHING_PLANNED = "No batch was planned and no row was written."
THEIR_ENVIRONMENT = "the environment of the job or notebook, not installed by %pip in a cell"


class StageFailed(SurestartError):
    """The query ended with an error; the batch it was in is planned and not committed, and will be replayed."""

    exit_code = 5


def active_already(context: BatchContext) -> Refused:
    return Refused(
        f"{context.query} runs already in this Spark application, "
        "in another session or left behind by a driver that has gone",
        meaning="On Spark Connect a query outlives the Python process that started it, until its session ends. It was "
        "left as it is, and no second one was started.",
        next=surestart(
            "status", place=named(context.environment), note="its batches go on; stop it where it was started"
        ),
        do_not="set spark.sql.streaming.stopActiveRunOnRestart: it would kill that query in mid-batch.",
        code="QUERY_ACTIVE",
    )


def not_started(context: BatchContext, problem: PySparkException) -> StageFailed:
    missing = not_in_worker(context.query, str(problem), NOTHING_PLANNED, _run_again(context))
    if missing is not None:
        return missing
    first = next((line for line in str(problem).splitlines() if line.strip()), "no message")
    name = condition_of(problem) or type(problem).__name__
    return StageFailed(
        f"stage {context.stage!r} did not start: {first.strip()[:500]}",
        meaning="Spark refused the query before its first batch. No batch was planned and no row was written; a table "
        "that was missing may have been made, and is empty.",
        next=surestart("explain", name, "--stage", context.stage, place=named(context.environment)),
        do_not="delete the checkpoint, whatever the message above says.",
        code=name,
    )


def not_in_worker(query: str, text: str, state: str, then: NextStep) -> StageFailed | None:
    """Spark Connect runs the function of a batch in a Python of its own, on the side of the server, and loads it there
    before the first batch: docs/decisions/0040-the-start-is-the-probe.md"""
    found = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if found is None:
        return None
    return StageFailed(
        f"the Python that writes the batches of {query} has no module {found[1]!r}",
        meaning=f"It is another one than this program's, and lacks what this one has. {state}",
        next=then,
        do_not="copy the sink's code into the notebook: what writes a batch has to be what the doctor knows.",
        code="ModuleNotInWorker",
    )


def _run_again(context: BatchContext) -> NextStep:
    note = f"once the wheel is in {THEIR_ENVIRONMENT}"
    return surestart("run", context.stage, place=named(context.environment), note=note)


def dropped(context: BatchContext, batch: int, tables: Sequence[str]) -> StageFailed:
    return StageFailed(
        f"batch {batch} of {context.query} ended without a commit in {' and '.join(tables)}",
        meaning="The table took it for a batch it has seen before: it is ahead of the checkpoint (rewound, restored or "
        "copied). The batch's rows are not in the table. The query was stopped.",
        next=surestart("doctor", context.stage, place=named(context.environment)),
        do_not="start the stage again before the doctor has said why: each further batch is dropped in the same way.",
        code="BatchDropped",
    )


def failed(context: BatchContext, failure: Exception) -> SurestartError:
    text = str(failure)
    ours = read_printed(text)
    if ours is not None:
        return StageFailed(**ours)
    state = "The batch it was in is planned, and is replayed by the next start."
    missing = not_in_worker(context.query, text, state, _run_again(context))
    if missing is not None:
        return missing
    # Behind the first Java frame stand classes and plans.
    message = text.partition("\n\tat ")[0].replace("[STREAM_FAILED]", "")
    conditions = list(re.finditer(r"\[([A-Z][A-Z0-9]*_[A-Z0-9_.]+)\]", message))
    carriers = {entry.name for entry in all_explanations() if entry.wrapper}
    causes = [one for one in conditions if one[1] not in carriers]
    condition = next(iter([*causes, *conditions]), None)
    otherwise = condition.group(1) if condition else type(failure).__name__
    name = otherwise if causes else _known_by_its_words(text) or otherwise
    return StageFailed(
        f"stage {context.stage!r} stopped: {first_words(text)[:500]}",
        meaning="The batch it was in is planned and not committed. The sinks recognise a batch they hold, so running "
        "the stage again neither loses nor duplicates rows, if the cause is gone.",
        next=surestart("explain", name, "--stage", context.stage, place=named(context.environment)),
        do_not="delete the checkpoint, whatever the message above says.",
        code=name,
    )


def first_words(text: str) -> str:
    """The first line of a message; of one that only announces a Python traceback, the error that stands below it."""
    lines = [line for line in text.partition("\n\tat ")[0].splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    below = [line for line in lines[frames[-1] :] if not line.startswith(" ")] if frames else []
    return (below or lines or ["no message"])[0].strip()


def _known_by_its_words(text: str) -> str:
    """The name under which the cause is explained; Spark 3.5 gives fewer errors a name of their own. "" where only
    what carries it is known, such as the error of a batch's function."""
    # After the first Java frame the text names only classes and plans, and those are not the cause.
    message = text.partition("\n\tat ")[0]
    names = [match.explanation.name for match in explain(message).matches if not match.explanation.wrapper]
    return next((name for name in names if name.isupper()), "")
