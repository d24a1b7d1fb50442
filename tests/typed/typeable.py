"""Whether what is printed can be typed: taken as it stands, split by a real shell, accepted by the command line."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from functools import cache

from surestart.cli.main import VERBS, build_parser
from surestart.errors import SurestartError
from surestart.typed import NextStep, StepByHand

# What a shell does beside splitting: it would run, redirect, expand or go on after a failure.
_SHELL_ACTS = re.compile(r"[`<>;&|()*?\[\]{}~!]|\$(?!')")
_QUOTES = r"\$'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"`$\\]*\"|\\."
_QUOTED = re.compile(_QUOTES)
# A URL with its password is named and not printed: the shell puts it in.
_NAME = rf"(?:{_QUOTES}|[\w.-])+"
_SECRET = re.compile(
    rf'"\$(?:[A-Z][A-Z0-9_]*|\(databricks secrets get-secret {_NAME} {_NAME} \| jq -r \.value \| base64 -d\))"'
)
_EDGES = (" && ", " | ")
_IN_A_COMMENT = re.compile(rf"\bsurestart (?:{'|'.join(VERBS)})\b.*$")


_WORDS_ONLY = ("in the code: ", "in the notebook: ")


def faults_of(step: NextStep | str) -> list[str]:
    """Why this next step cannot be typed as it is printed; nothing when it can."""
    text = str(step)
    if isinstance(step, StepByHand) or text.startswith(_WORDS_ONLY):
        return [f"a command hides in words: {text}"] if "surestart " in text else []
    if not text or "\n" in text:
        return [f"not one line: {text!r}"]
    text = _SECRET.sub("URL", text)
    command = without_comment(text)
    second = _IN_A_COMMENT.search(text[len(command) :])
    faults = faults_of(second[0]) if second else []
    for part in re.split("|".join(map(re.escape, _EDGES)), command):
        bare = _QUOTED.sub("Q", part)
        acts = _SHELL_ACTS.search(bare)
        if acts:
            faults.append(f"a shell acts on {acts[0]!r}: {text}")
        elif re.search(r"['\"]", bare):
            faults.append(f"a quote is open: {text}")
        else:
            faults += _faults_of_words(part.strip(), text)
    return faults


def without_comment(text: str) -> str:
    """What a shell runs of the line: a word that begins with # ends it."""
    for match in re.finditer(r"(?:^|\s)#", text):
        head = text[: match.start()]
        if not re.search(r"['\"]", _QUOTED.sub("Q", head)):
            return head.rstrip()
    return text


def words_of(command: str) -> list[str]:
    """As a shell splits it, $'…' included."""
    plain = re.sub(r"\$'((?:\\.|[^'\\])*)'", lambda quoted: shlex.quote(_unescaped(quoted[1])), command)
    return shlex.split(plain)


def _unescaped(text: str) -> str:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape")


# Programs that a next step may name beside our own; a word that is none of these is no command but a sentence.
PROGRAMS = frozenset(
    (
        "surestart make python pip databricks cd ls df head curl ps ss mkdir rm sudo export grep psql spark-sql jq "
        + "base64 kafka-topics.sh kafka-transactions.sh kubectl"
    ).split()
)


def _faults_of_words(command: str, text: str) -> list[str]:
    words = words_of(command)
    program = words[0] if words else ""
    if "/" not in program and program not in PROGRAMS:
        return [f"not a command: {text}"]
    if program.rpartition("/")[2] == "surestart":
        return [f"{problem}: {text}" for problem in refused(words[1:])]
    return []


@cache
def _parser(verb: str) -> ArgumentParser:
    return build_parser(verb, (verb,))


def parsed(words: list[str]) -> Namespace:
    """Raises SystemExit as the command line does."""
    verb = next((one for one in words if one in VERBS), "")
    return (_parser(verb) if verb else build_parser(None, ())).parse_args(words)


def refused(words: list[str]) -> list[str]:
    """Why the command line does not take these words: its parser's and its options' own reasons."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            args = parsed(words)
    except SystemExit as end:
        return [said.getvalue().strip().splitlines()[-1]] if end.code else []
    return _refused_options(args)


def _refused_options(args: Namespace) -> list[str]:
    from surestart.cli.plan import check_options
    from surestart.verdict.inspection import read_sink_name, read_spark

    try:
        if args.verb == "plan":
            check_options(args)
        if args.verb == "inspect":
            read_spark(args.spark)
            for sink in args.sink:
                read_sink_name(sink)
    except SurestartError as error:
        return [error.what]
    return []


def refused_place(words: list[str]) -> list[str]:
    """Why the environment or the stage that the words name cannot be found."""
    from surestart.cli.arguments import choose_stages, read_given_environment

    args = parsed(words)
    if not hasattr(args, "pipeline"):
        return []
    try:
        environment, pipeline, settings = read_given_environment(args)
        if getattr(args, "stage", ""):
            choose_stages(pipeline, settings, args.stage)
    except SurestartError as error:
        return [f"{error.what} ({environment if 'environment' in locals() else 'no environment'})"]
    return []


def split_by_bash(steps: Iterable[NextStep | str]) -> list[list[str]]:
    """The words of each line as a real bash sees them, and nothing run: each line is the arguments of a printf."""
    lines = [str(step) for step in steps]
    marks = "\x1e"
    script = "".join(f"set -- {without_comment(line)}\nprintf '%s\\x1f' \"$@\"; printf '\\x1e'\n" for line in lines)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return [piece.split("\x1f")[:-1] for piece in done.stdout.split(marks)[:-1]]
