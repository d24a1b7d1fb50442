"""The entry point of a Databricks wheel task: the command line, whose failure fails the run.

    surestart-job run raw-ingest --env=prod … --job-run-id={{job.run_id}} --job-run-url={{workspace.url}}/jobs/…
        --job-attempt={{task.name}}/{{task.execution_count}}

A wheel task calls the entry point as a function. An exit code that is only returned would be dropped and a stage that
was refused would count as a success; so a code other than 0 leaves as SystemExit. Success returns: Databricks has
reported a run that ended in `sys.exit(0)` as failed.

The job options say which run this is, for the history and for whoever is refused because of it; and which attempt:
a retry has the run id of the attempt before it, whose claim may still stand. Databricks fills them in where they stand
in a task's parameters; nothing else tells a wheel task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from surestart.cli import main as cli
from surestart.history.describe_run import JOB_ATTEMPT, JOB_RUN, JOB_URL

OPTIONS = {"--job-run-id=": JOB_RUN, "--job-run-url=": JOB_URL, "--job-attempt=": JOB_ATTEMPT}


def main(argv: Sequence[str] | None = None) -> None:
    """Returns when the command succeeded, raises SystemExit with its exit code when it did not."""
    arguments, facts = split_job_options(sys.argv[1:] if argv is None else argv)
    os.environ.update(facts)
    # With the traceback, which then stands in the job's log: nobody can run the task again with --traceback.
    code = cli.main(arguments, traceback=True)
    if code:
        raise SystemExit(code)


def split_job_options(argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
    """The command line's own arguments, and the job options as the variables that the history reads."""
    arguments, facts = [], {}
    for word in argv:
        option = next((one for one in OPTIONS if word.startswith(one)), None)
        if option is None:
            arguments.append(word)
            continue
        value = word.removeprefix(option)
        # A reference that Databricks does not know arrives as it was written: no fact, and worse than none.
        if value and "{{" not in value:
            url = option == "--job-run-url=" and "://" not in value
            facts[OPTIONS[option]] = f"https://{value}" if url else value
    return arguments, facts
