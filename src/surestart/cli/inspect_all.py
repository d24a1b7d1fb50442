"""`surestart inspect --all ROOT`: every checkpoint below a root in one table, the worst first. Writes nothing."""

from __future__ import annotations

import argparse
import sys
import time

from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import NO_SINK
from surestart.typed import surestart
from surestart.verdict.fleet_row import Fleet
from surestart.words.finding import EXIT_CODES

EVERY_SECONDS = 0.5


def run(args: argparse.Namespace) -> int:
    from surestart.verdict.inspect_all import FleetQuestion, inspect_all
    from surestart.verdict.inspection import read_line
    from surestart.verdict.restart import DEFAULT_LINE

    _refuse_what_is_of_one(args)
    line = read_line(args.spark).name
    again = ["--all", args.path]
    again += ["--sink", NO_SINK] if args.sink else []
    again += [] if line == DEFAULT_LINE else ["--spark", line]
    rows = inspect_all(args.path, FleetQuestion(tuple(args.sink), line), say=Progress())
    show_fleet(Fleet(args.path, tuple(rows), int(time.time() * 1000), "checkpoint", surestart("inspect", *again)), args)
    return EXIT_CODES[rows[0].verdict] if rows else 4


def show_fleet(fleet: Fleet, args: argparse.Namespace) -> None:
    if args.html:
        from surestart.report.html.fleet import render_fleet_page
        from surestart.report.html.page import write_page

        write_page(args.html, render_fleet_page(fleet))
        sys.stderr.write(f"Page: {args.html}\n")
    if args.json:
        from surestart.report.json.fleet import fleet_json

        sys.stdout.write(fleet_json(fleet) + "\n")
    else:
        from surestart.report.text.fleet_table import render_fleet

        sys.stdout.write(render_fleet(fleet))


class Progress:
    """Says how far it is: on a terminal in one line that is written over, else seldom, a line each time."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._pause = EVERY_SECONDS if self._on_terminal else 20 * EVERY_SECONDS
        self._said = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._said < self._pause:
            return
        self._said = now
        text = f"{done:,} of {of:,} checkpoints read" if done else f"{of:,} checkpoints found"
        sys.stderr.write(f"\r\x1b[K{text}" if self._on_terminal and done < of else f"{text}\n")
        sys.stderr.flush()


def _refuse_what_is_of_one(args: argparse.Namespace) -> None:
    """Raises for a sink, or something said of one: these belong to one checkpoint, and not to all below a root."""
    given = [name for name in ("said", "keys", "app_id", "progress") if getattr(args, name)]
    named = [sink for sink in args.sink if sink != NO_SINK]
    if given or named:
        what = f"--sink {named[0]}" if named else f"--{given[0].replace('_', '-').replace('said', 'shared')}"
        raise UsageError(
            f"{what} was given together with --all",
            meaning="It is true of one checkpoint, and each of them would be judged by it. Nothing was read.",
            next=surestart("inspect", "--all", args.path, note="the sink of each stands in surestart.toml"),
            code="SinkOfOneForAll",
        )
