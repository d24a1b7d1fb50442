"""Makes a shallow clone of a table, as it was at a batch, in the folder of a fork, and tells it how far the fork is.

The clone has a log of its own, and reads the rows of the original from the original's files: it writes none of them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from surestart.environment import Table
from surestart.errors import Refused
from surestart.facts.delta import Commit, read_delta_log, read_history
from surestart.facts.delta.commit import CommitMark
from surestart.facts.delta.listing import NoDeltaLog
from surestart.failpoints import fail_point
from surestart.remedies.basis.fork_folder import drop_folder, open_folder
from surestart.remedies.basis.plan import Step, plan_again
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps.clear import find_output
from surestart.sinks.delta.transaction import append_pair
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The clone is there, and knows that the fork's query id has written the batch."""
    said, (link, output) = step.arguments, find_output(run, step)
    folder, place = Path(str(said["folder"])), Path(str(said["to"]))
    open_folder(folder, {**said["note"], "digest": run.digest})
    if not _commits(place):
        if read_delta_log(output.table.path).table_id != said["table_id"]:
            raise Refused(
                f"{output.table.label} is another table than the one of the plan",
                meaning="What it held at the batch is not in it. Nothing of it was changed.",
                next=plan_again(run.plan),
                code="PlanStale",
            )
        if place.exists():
            # Of a clone that died before its first commit.
            shutil.rmtree(place)
        clone = Table(output.table.name, path=str(place))
        version = int(said["version"])
        run.spark.sql(f"CREATE TABLE {clone.sql} SHALLOW CLONE {output.table.sql} VERSION AS OF {version}").collect()
        fail_point("remedy.fork.cloned")
    _tell(run, step, link.query, link.name, place)
    return {"to": str(place), "query_id": str(said["query_id"])}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The fork is dropped, whole."""
    return {"dropped": drop_folder(Path(str(step.arguments["folder"])), run.digest)}


def _tell(run: StepContext, step: Step, query: str, stage: str, place: Path) -> None:
    query_id, batch = str(step.arguments["query_id"]), int(step.arguments["batch"])
    if any((query_id, batch) in one.transactions for one in _commits(place)):
        return
    mark = CommitMark(query, query_id, batch, stage, "")
    with applied(run.spark, pairs(EVERYWHERE)):
        append_pair(run.spark, Table("fork", path=str(place)), query_id, batch, json.dumps(json.loads(mark.as_json())))
    fail_point("remedy.fork.told")


def _commits(place: Path) -> tuple[Commit, ...]:
    try:
        return tuple(read_history(str(place)))
    except NoDeltaLog:
        return ()
