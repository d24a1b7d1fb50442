"""The entry point of a Databricks wheel task: the command line, whose failure fails the run.

A wheel task calls the entry point as a function. An exit code that is only returned would be dropped and a stage that
was refused would count as a success; so a code other than 0 leaves as SystemExit. Success returns: Databricks has
reported a run that ended in `sys.exit(0)` as failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from surestart import cli


def main(argv: Sequence[str] | None = None) -> None:
    """Returns when the command succeeded, raises SystemExit with its exit code when it did not."""
    code = cli.main(sys.argv[1:] if argv is None else argv)
    if code:
        raise SystemExit(code)
