"""`surestart prune`: retired checkpoints past an age; a list with its digest first, and removed only by that digest."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from surestart.cli.arguments import add_environment_arguments, read_given_environment
from surestart.cli.doctor import given_place
from surestart.environment import Environment
from surestart.errors import EXIT_FINE
from surestart.journal.journal import Journal, read_journals
from surestart.remedies.apply.prune import Prune, Retired, apply_prune, plan_prune, read_age
from surestart.typed import Place, surestart
from surestart.words.amounts import time_text
from surestart.words.inert import inert

DEFAULT_AGE = "30d"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_environment_arguments(parser)
    parser.add_argument(
        "--older-than", default=DEFAULT_AGE, metavar="AGE", help="those retired longer ago: 12h, 30d, 8w (default 30d)"
    )
    parser.add_argument("--apply", metavar="DIGEST", help="remove what was listed under this digest")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    environment, _, _ = read_given_environment(args)
    age, now = read_age(args.older_than), int(time.time() * 1000)
    session = None
    if not environment.root:
        # The journal is in a catalog: only a session may read it.
        from surestart.spark.session import obtain_session as open_session

        session = open_session("surestart prune")

    def read() -> Sequence[Journal]:
        return read_journals(environment, session)

    place = given_place(args, environment)
    if args.apply is not None:
        removed = apply_prune(environment, read, args.apply, age, now, lambda line: sys.stderr.write(f"{line}\n"))
        if args.json:
            body = {"schema_version": 1, "digest": args.apply, "removed": removed}
            sys.stdout.write(json.dumps(body, indent=2) + "\n")
        else:
            sys.stdout.write(f"{_things(removed)} removed.\nNext: {surestart('status', place=place)}\n")
        return EXIT_FINE
    prune = plan_prune(environment, read(), age, now)
    sys.stdout.write(_as_json(prune) if args.json else "\n".join(_lines(prune, environment, args, place)) + "\n")
    return EXIT_FINE


def _as_json(prune: Prune) -> str:
    body = {
        "schema_version": 1,
        "digest": prune.digest if prune.going else None,
        "going": [asdict(one) for one in prune.going],
        "staying": [asdict(one) for one in prune.staying],
        "unfinished": list(prune.unfinished),
    }
    return json.dumps(body, indent=2) + "\n"


def _lines(prune: Prune, environment: Environment, args: argparse.Namespace, place: Place) -> Iterator[str]:
    yield f"{environment.pipeline} · {environment.name}: retired checkpoints older than {args.older_than}"
    yield ""
    for one in prune.going:
        yield from _one(one)
        left_over = "not needed; put aside by an undo, or filled beside"
        yield f"    undo:   {'not possible once this is removed' if one.ends_undo else left_over}"
    for one in prune.staying:
        yield from _one(one)
        yield f"    stays:  {inert(one.stays)}"
    if not prune.going:
        yield "Nothing to remove."
    for digest in prune.unfinished:
        yield f"A removal was begun and not finished: {digest[:12]}"
    yield ""
    older = ("--older-than", args.older_than) if args.older_than != DEFAULT_AGE else ()
    apply = surestart("prune", place=place, more=older)
    if prune.unfinished:
        yield f"Next: {apply.adding('--apply', prune.unfinished[0][:12])}"
    elif prune.going:
        total = sum(one.size for one in prune.going)
        yield f"{_things(len(prune.going))}, {total:,} bytes. Nothing was removed yet. What goes is gone for ever."
        yield f"Next: {apply.adding('--apply', prune.digest[:12])}"
    else:
        yield f"Next: {surestart('status', place=place)}"


def _one(one: Retired) -> Iterator[str]:
    yield f"  {inert(one.path)}"
    yield f"    since {time_text(one.retired_at)}, {one.files:,} files, {one.size:,} bytes"
    if one.remedy:
        yield f"    remedy: {inert(one.remedy)}"
    for table in one.tables:
        yield f"    with:   PostgreSQL table {inert(table)}, the rows that it removed"


def _things(count: int) -> str:
    return f"{count} retired checkpoint{'' if count == 1 else 's'}"
