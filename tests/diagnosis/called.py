"""The command line called in this process: an interpreter's start costs more than most of what is asked here."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from surestart.cli.main import main


def surestart(*arguments: str, **variables: str) -> CompletedProcess[str]:
    """As `surestart ARGUMENTS` with these environment variables and no others of ours."""
    former = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("SURESTART_")]:
        del os.environ[name]
    os.environ.update(variables)
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os.environ.clear()
        os.environ.update(former)
    return CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())
