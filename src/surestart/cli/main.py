"""The `surestart` command. Each verb is one module of `surestart.cli`, imported only when it is called."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from surestart.errors import EXIT_INTERRUPTED, SurestartError
from surestart.words.terminal import terminal_width

# verb -> one line of help. The module surestart.cli.<verb> has add_arguments(parser) and run(args) -> exit code.
VERBS = {
    "run": "run one stage, or all of them, to the end of the available data",
    "status": "list the tables, checkpoints and last batches of an environment",
    "inspect": "read a checkpoint without Spark and say what the next start does",
    "state": "show the rows of a query's state, from a checkpoint's files, without Spark",
    "doctor": "judge each stage of an environment: verdict, evidence, next command",
    "adopt": "find streams that others run, under a folder, and write them into surestart.toml",
    "history": "list the last runs: who, when, which batches, how they ended; and who runs now",
    "explain": "say what an error means for the data, and which command comes next",
    "plan": "say what a remedy would do (resume, rewind, replay, reset and others), and write the plan",
    "apply": "do what a plan says; killed anywhere, the same command goes on",
    "undo": "put checkpoints and tables back as they were before a remedy",
    "prune": "list old retired checkpoints, and remove them by the list's digest",
    "verify": "count lost and duplicated rows, from the source to the last table",
    "kafka": "start, stop and look at a real Kafka broker on this machine",
}

EXIT_CODES = """\
exit codes:
  0 fine   1 findings to look at   2 usage   3 unsafe, refused
  4 cannot tell, or unreachable    5 stopped half-way, run it again
  6 an unexpected error of surestart itself: no verdict
  130 interrupted, or nobody took the output
"""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """With a width: argparse would import shutil to find one."""
    return argparse.RawDescriptionHelpFormatter(prog, width=terminal_width() - 2)


def build_parser(verb: str | None, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser with the options of one verb; the other verbs only by name, so that a call imports one module.
    arguments: those of this call, for a help that depends on them."""
    parser = argparse.ArgumentParser(
        prog="surestart",
        description="Streaming jobs that restart correctly, and a safe way back when one does not.",
        epilog=EXIT_CODES,
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--traceback", action="store_true", help="show where in the code an unexpected error arose")
    # prog named: argparse would otherwise import shutil with its compressors, 10 ms of every call.
    commands = parser.add_subparsers(dest="verb", metavar="COMMAND", prog=parser.prog)
    for name, help_text in VERBS.items():
        sub = commands.add_parser(
            name,
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=_formatter,
            # Adding an option formats it: only where its help can be asked for.
            add_help=name == verb,
        )
        if name == verb:
            module = importlib.import_module(f"surestart.cli.{name}")
            module.add_arguments(sub)
            sub.add_argument("--no-color", action="store_true", help="accepted everywhere; no output has colour")
            if not {"-h", "--help"}.isdisjoint(arguments) and hasattr(module, "describe_settings"):
                sub.epilog = f"{module.describe_settings(arguments)}\n{EXIT_CODES}"
    return parser


def main(argv: Sequence[str] | None = None, *, traceback: bool = False) -> int:
    """The exit code; whatever goes wrong has been said on stderr in four parts. traceback: before them, also where it
    arose."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A name from a checkpoint may hold bytes that are no text, and a terminal may know ASCII only.
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(arguments)
    except SurestartError as error:
        if traceback:
            from surestart.words.unexpected import traceback_of_another

            sys.stderr.write(traceback_of_another(error))
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Nothing is lost: run the same command again and it goes on where it was.\n")
        return EXIT_INTERRUPTED
    except SystemExit:
        # Help, or a word that is no option: argparse has said it.
        raise
    except BaseException as error:  # noqa: BLE001 - the last place where it can get a name and a code that is not a verdict
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            # `surestart … | head`: Python would print a traceback while flushing at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_INTERRUPTED
        from surestart.words.unexpected import as_unexpected, traceback_of

        if traceback or "--traceback" in arguments:
            sys.stderr.write(traceback_of(error))
        said = as_unexpected(error, arguments)
        sys.stderr.write(f"{said}\n")
        return said.exit_code


def _reader_has_gone() -> bool:
    """Of this output: a pipe that broke may be a database's or a broker's as well."""
    import select

    try:
        asked = select.poll()
        asked.register(sys.stdout.fileno(), 0)
        return any(state & (select.POLLERR | select.POLLHUP) for _, state in asked.poll(0))
    except (AttributeError, OSError, ValueError):
        return False


def _run(arguments: list[str]) -> int:
    verb = next((word for word in arguments if word in VERBS), None)
    parser = build_parser(verb, arguments)
    args = parser.parse_args(arguments)
    if args.version:
        from surestart.version import VERSION

        print(VERSION)  # noqa: T201
        return 0
    if not args.verb:
        parser.print_help()
        return 0
    args.typed = arguments
    run = importlib.import_module(f"surestart.cli.{args.verb}").run
    try:
        if hasattr(args, "streams"):
            from surestart.cli.which_streams import calls_of, worst_of

            code = worst_of([int(run(one)) for one in calls_of(args)])
        else:
            code = int(run(args))
    except SystemExit as left:
        # Code of a pipeline's own. Passed on, it would end the process with the code of its choice, 0 for one.
        raise RuntimeError(f"what was called left by SystemExit({left.code!r})") from left
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
