"""`surestart explain ERROR`: what an error means for the data, and the command that comes next."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from surestart.cli.doctor import given_options
from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINE, SurestartError, UsageError
from surestart.report.text.explanation import explanation_object, explanation_text
from surestart.typed import surestart
from surestart.verdict.explain import MAX_TEXT, Answer, explain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("error", nargs="*", help="an error class, a log line, or - for a text on standard input")
    parser.add_argument("--file", metavar="FILE", help="a file with a log or a traceback; its last 8 MB are read")
    parser.add_argument("--stage", default="", help="the stage that met the error: its source is asked")
    parser.add_argument("-e", "--env", default="", help="the environment to name in the command")
    parser.add_argument("--root", default="", help="the root to name in the command")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting to name in it")
    parser.add_argument("--pipeline", default=None, help="module:attribute (default: as surestart.toml says)")
    parser.add_argument("--streams", default="", metavar="FILE", help="the streams that this file declares")
    parser.add_argument("--codes", action="store_true", help="every code of surestart's own, as docs/codes.md has them")
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    if args.codes:
        from surestart.report.text.explanation import codes_text

        sys.stdout.write(codes_text())
        return EXIT_FINE
    answer = explain(_read_text(args), args.stage, args.env, given_options(args))
    if args.stage:
        answer = _of_its_owner(_asked_at_the_stage(answer, args), args)
    if args.json:
        sys.stdout.write(json.dumps(explanation_object(answer), indent=2) + "\n")
    else:
        sys.stdout.write(explanation_text(answer))
    return EXIT_FINE if answer.known else EXIT_CANNOT_TELL


def _asked_at_the_stage(answer: Answer, args: argparse.Namespace) -> Answer:
    """The answer with what the source of that stage says; the general answer where no such stage can be asked."""
    from surestart.verdict.explain import at_stage, is_about_a_source

    if not is_about_a_source(answer):
        return answer
    from surestart.cli.arguments import choose_stages, read_given_environment
    from surestart.cli.stage_answers import ask_stages
    from surestart.words.next_commands import commands_for

    try:
        environment, pipeline, settings = read_given_environment(args)
        (stage,) = choose_stages(pipeline, settings, args.stage) if args.stage != "all" else (None,)
        if stage is None:
            return answer
        (diagnosis,) = ask_stages(environment, (stage,), options=given_options(args))
    except SurestartError as problem:
        sys.stderr.write(f"{args.stage} was not asked: {problem.what}\n")
        return answer
    commands = commands_for(stage, environment, given_options(args))
    return at_stage(answer, diagnosis, commands.run())


def _of_its_owner(answer: Answer, args: argparse.Namespace) -> Answer:
    """The answer for a stream that surestart does not run, with the commands that exist for it."""
    from surestart.cli.arguments import read_given_environment
    from surestart.words.next_commands import OwnersCommands

    try:
        environment, pipeline, settings = read_given_environment(args)
        declared = {stage.name for stage in pipeline.build_stages(settings) if not stage.ours}
    except SurestartError:
        return answer
    if args.stage not in declared:
        return answer
    commands = OwnersCommands(args.stage, environment.name, given_options(args))
    return replace(answer, matches=tuple(replace(one, next=commands.instead(one.next)) for one in answer.matches))


def _read_text(args: argparse.Namespace) -> str:
    words = " ".join(args.error)
    if args.file:
        if words:
            raise _usage("--file and a text were given", "Only one of them can be explained at a time.")
        return _read_tail(args.file)
    if words == "-" or (not words and not sys.stdin.isatty()):
        return _last(_tail(sys.stdin.buffer))
    if not words:
        raise _usage("no error was given", "There is nothing to explain.")
    return words


def _read_tail(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - MAX_TEXT, 0))
            return _last(file.read(MAX_TEXT))
    except OSError as error:
        raise _usage(f"{name} cannot be read: {error.strerror}", "The text to explain is not there.") from error


def _tail(stream: BinaryIO) -> bytes:
    """The end of a text that may have gigabytes, with no more than two pieces of it in memory."""
    older, newer = b"", b""
    while block := stream.read(MAX_TEXT):
        older, newer = newer, block
    return older + newer


def _last(data: bytes) -> str:
    return data[-MAX_TEXT:].decode("utf-8", "replace")


def _usage(what: str, meaning: str) -> UsageError:
    return UsageError(what, meaning=meaning, next=surestart("explain", "CONCURRENT_STREAM_LOG_UPDATE"))
