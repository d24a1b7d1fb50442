"""`surestart adopt`: the streams under some folders, each with what it reads and where it writes, as a file to keep."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE, UsageError
from surestart.typed import NOTHING, surestart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints",
        action="append",
        default=[],
        metavar="ROOT",
        help="a folder with checkpoints anywhere in it: local, /Volumes/…, s3://…, abfss://…, gs://…; several times",
    )
    parser.add_argument(
        "--tables",
        action="append",
        default=[],
        metavar="ROOT",
        help="a folder with tables in it, if it is not the same one; several times",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="surestart.toml",
        metavar="FILE",
        help="the file that new streams are added to (default surestart.toml); what it holds stays as it is",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be added, and write nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/adopt.md)")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of the file, and do nothing else")


def run(args: argparse.Namespace) -> int:
    from surestart.environment import whole_path
    from surestart.streams.schema import schema_text

    if args.schema:
        sys.stdout.write(schema_text())
        return EXIT_FINE
    from surestart.report.text.adoption import adoption_json, render_adoption
    from surestart.streams.adopt.adopt import adopt
    from surestart.streams.adopt.write_stream import add_to_file, read_if_there

    path = whole_path(args.output) if args.output.startswith("~") else Path(args.output)
    project = read_if_there(path)
    roots = read_roots(args)
    adoption = adopt(roots, project, _say)
    if adoption.adopted and not args.dry_run:
        add_to_file(path, adoption.text, tuple(one.name for one in adoption.adopted))
    if args.json:
        sys.stdout.write(adoption_json(adoption, path, args.dry_run))
    else:
        again = surestart("adopt", *_as_named(args), "-o", path) if args.dry_run else NOTHING
        sys.stdout.write(render_adoption(adoption, path, again))
    if adoption.unread:
        return EXIT_CANNOT_TELL
    return EXIT_FINDINGS if adoption.notes or any(one.questions for one in adoption.adopted) else EXIT_FINE


def _as_named(args: argparse.Namespace) -> list[str]:
    from surestart.streams.stream import absolute_place

    named = [("--checkpoints", root) for root in args.checkpoints] + [("--tables", root) for root in args.tables]
    return [part for option, root in named for part in (option, absolute_place(root))]


def read_roots(args: argparse.Namespace) -> list[str]:
    """The roots as absolute places, in the order given; one is walked once for checkpoints and tables alike."""
    from surestart.streams.stream import absolute_place

    given = [*args.checkpoints, *args.tables]
    if not given:
        raise UsageError(
            "no folder was named",
            meaning="Only you can say where your checkpoints are. Nothing was read.",
            next=surestart(
                "adopt", "--checkpoints", "/data/checkpoints", "--tables", "/data/tables", "-o", "surestart.toml"
            ),
            code="NoRootGiven",
        )
    return list(dict.fromkeys(absolute_place(root) for root in given))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
