"""`surestart state CHECKPOINT`: the operators of a query and the rows of their state. No Spark; writes nothing."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from surestart.typed import in_the_code
from surestart.words.inert import inert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surestart.errors import SurestartError
    from surestart.facts.checkpoint.log_file import NotInState
    from surestart.facts.checkpoint.snapshot import Checkpoint
    from surestart.facts.state.read_rows import RowTest, ShownRows, StoreLook
    from surestart.facts.storage.storage import Storage

ROWS, ROWS_OF_SEVERAL = 20, 5
# So many bytes of files may be read for rows. The rows are not kept in memory.
BYTES = 1 << 44


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the checkpoint folder: local, /Volumes/…, s3://…, abfss://…, gs://…")
    parser.add_argument("--operator", type=int, metavar="N", help="rows of this operator only")
    parser.add_argument("--store", metavar="NAME", help="rows of this store only: a join has four")
    parser.add_argument("--variable", metavar="NAME", help="rows of this variable of transformWithState only")
    parser.add_argument("--partition", type=int, metavar="N", help="rows of this partition only")
    parser.add_argument("--batch", type=int, metavar="N", help="as batch N left it (default the newest committed one)")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="TEXT",
        help="rows whose key has this value in one of its columns, or in the one named: COLUMN=TEXT; given "
        "several times, all must match. Reads the whole store",
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help=f"rows of each store (default {ROWS}, {ROWS_OF_SEVERAL} where several are shown); 0 shows all",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="no rows: reads every state file to its end, and says which versions are whole in every partition",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/state.md)")


def run(args: argparse.Namespace) -> int:
    from surestart.errors import EXIT_FINE, UsageError
    from surestart.facts.checkpoint.log_file import NotInState
    from surestart.facts.checkpoint.snapshot import read_checkpoint
    from surestart.facts.storage.open_storage import open_storage
    from surestart.facts.storage.read_budget import BoundedStorage, ReadBudget
    from surestart.report.text.wanted_key import NotOfColumn
    from surestart.typed import surestart

    storage = open_storage(args.path)
    checkpoint = read_checkpoint(args.path, storage)
    planned = checkpoint.latest_planned
    if args.batch is not None and planned is not None and 0 <= args.batch < min(checkpoint.commits, default=0):
        # Format 2: only the batch's own commit says what its files are called.
        checkpoint = read_checkpoint(args.path, storage, entries=planned - args.batch + 2)
    if isinstance(storage, BoundedStorage):
        storage = BoundedStorage(storage.storage, ReadBudget(bytes=BYTES), storage.remembered)
    try:
        if args.check:
            return _check(args, storage, checkpoint)
        stores = _chosen(args, storage, checkpoint)
    except NotInState as error:
        raise _not_there(args, checkpoint, error) from error
    except NotOfColumn as error:
        raise UsageError(
            f"--key: {inert(error, 400)}",
            meaning="No row can have that key, so an empty answer would say nothing. No row was read.",
            next=surestart("state", args.path, note="shows keys as they are to be typed"),
            code="KeyNotOfColumn",
        ) from error
    if args.json:
        from surestart.report.json.state import write_json

        write_json(sys.stdout.write, checkpoint, stores)
    else:
        from surestart.report.text.state import write_text

        write_text(sys.stdout.write, checkpoint, stores)
    failed = next((store for store in stores if store.failure is not None), None)
    if failed is None:
        return EXIT_FINE
    sys.stdout.flush()
    raise _not_read(args, checkpoint, failed) from failed.failure


def _check(args: argparse.Namespace, storage: Storage, checkpoint: Checkpoint) -> int:
    """Exit code 1 where a file is damaged, 4 where one is of a form that is not read here."""
    from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE
    from surestart.facts.checkpoint.log_file import EMPTY, STALE_CRC, TORN
    from surestart.facts.checkpoint.state_versions import find_missing_state
    from surestart.facts.state.check_files import check_files
    from surestart.facts.state.read_rows import choose_operators
    from surestart.report.text.state import checked_lines

    found = [(one, check_files(storage, one)) for one in choose_operators(checkpoint, args.operator)]
    newest = checkpoint.latest_committed
    missing = None if newest is None else find_missing_state(checkpoint, newest + 1)
    for one, checked in found:
        # What is not there has no file that could be read.
        if missing and f"{missing.path}/".startswith(f"state/{one.id}/"):
            checked.damaged.append((missing.path, missing.detail))
        # Schemas and other notes were read with the checkpoint.
        known = {path for path, _ in (*checked.damaged, *checked.unknown)}
        for fault in checkpoint.state.faults:
            if fault.path.startswith(f"state/{one.id}/") and fault.path not in known:
                of = checked.damaged if fault.kind in (TORN, EMPTY, STALE_CRC) else checked.unknown
                of.append((fault.path, fault.detail))
    if args.json:
        from surestart.report.json.state import checked_object

        said = json.dumps(checked_object(checkpoint, found), indent=1)
    else:
        said = "\n".join(checked_lines(checkpoint, found))
    sys.stdout.write(f"{said}\n")
    if any(checked.damaged for _, checked in found):
        return EXIT_FINDINGS
    return EXIT_CANNOT_TELL if any(checked.unknown for _, checked in found) else EXIT_FINE


def _chosen(args: argparse.Namespace, storage: Storage, checkpoint: Checkpoint) -> list[ShownRows]:
    from surestart.facts.state.read_rows import ShownRows, choose_operators, choose_stores, choose_version

    operators = choose_operators(checkpoint, args.operator)
    version = choose_version(checkpoint, args.batch)
    looks = [
        look
        for operator in operators
        for look in choose_stores(checkpoint, operator, args.store, args.variable, args.partition, version)
    ]
    meant = _meant(args.key, looks)
    few = ROWS if len(meant) == 1 else ROWS_OF_SEVERAL
    limit = few if args.limit is None else args.limit
    return [ShownRows(look, storage, checkpoint, limit if limit > 0 else None, wanted) for look, wanted in meant]


def _meant(keys: Sequence[str], looks: Sequence[StoreLook]) -> Sequence[tuple[StoreLook, RowTest | None]]:
    """Those stores whose keys have the columns, and what tells the rows. One whose columns cannot be read stays: its
    failure is told when it is read."""
    from surestart.facts.checkpoint.log_file import NotInState
    from surestart.facts.state.read_rows import UNREAD
    from surestart.report.text.wanted_key import wanted_rows

    if not keys:
        return [(look, None) for look in looks]
    known = [look for look in looks if look.schema is not UNREAD]
    tests = wanted_rows(keys, [look.schema.key for look in known]) if known else []
    found = [(look, test) for look, test in zip(known, tests, strict=True) if test is not None]
    found += [(look, lambda row: False) for look in looks if look.schema is UNREAD]
    if not found:
        raise NotInState(f"a store whose key has all of {', '.join(keys)}", tuple(look.schema.text for look in looks))
    return found


def _not_there(args: argparse.Namespace, checkpoint: Checkpoint, error: NotInState) -> SurestartError:
    from surestart.errors import CannotTell, UsageError
    from surestart.typed import surestart

    if error.given:
        return UsageError(
            f"{checkpoint.location} has no {inert(error)}; it has {inert(', '.join(error.given), 400)}",
            meaning="Nothing was read of the state.",
            next=surestart("state", args.path, note="shows every operator and store"),
            code="StateNotThere",
        )
    why = "".join(f" ({inert(fault.path)}: {inert(fault.detail, 300)})" for fault in checkpoint.state.faults[:1])
    return CannotTell(
        f"{checkpoint.location} does not have {inert(error)}, as far as it can be read{why}",
        meaning="The query has no stateful operator, has committed no batch yet, or this is not a checkpoint.",
        next=surestart("inspect", args.path, "--sink", "none"),
        code="StateNotThere",
    )


def _not_read(args: argparse.Namespace, checkpoint: Checkpoint, store: ShownRows) -> SurestartError:
    from surestart.errors import CannotTell
    from surestart.facts.checkpoint.log_file import UnknownForm
    from surestart.facts.state.rocksdb_rows import NotInstalled
    from surestart.typed import surestart
    from surestart.words.next_commands import install_extra

    what = f"{store.shown:,} rows of {_name(store.look)} were read, then: {inert(store.failure, 400)}"
    if isinstance(store.failure, NotInstalled):
        return CannotTell(
            what,
            meaning="The rows are in files of RocksDB, which are read with a library that nothing else needs.",
            next=install_extra("state"),
            code="StateReaderNotInstalled",
        )
    if isinstance(store.failure, UnknownForm):
        return CannotTell(
            what,
            meaning="It may well be whole: it is of a form, or of a size, that only Spark reads.",
            next=in_the_code(reader_call(checkpoint.location, store.look)),
            code="StateFormUnknown",
        )
    return CannotTell(
        what,
        meaning=f"A start that loads version {store.look.version} reads the same files. What follows that place "
        "is not known.",
        next=surestart("inspect", args.path, "--sink", "none", note="says what the next start does"),
        do_not="delete a state file so that a start gets past it: the rows in it are forgotten without a word.",
        code="StateNotReadable",
    )


def _name(look: StoreLook) -> str:
    store = "" if look.store == "default" else f", store {look.store}"
    return inert(f"operator {look.operator.id}{store}" + (f", variable {look.variable}" if look.variable else ""))


def reader_call(location: str, look: StoreLook) -> str:
    """Spark's own reader of the same rows, from 4.0 on."""
    options = [("operatorId", str(look.operator.id)), ("batchId", str(look.batch))]
    options += [("storeName", look.store)] if look.store != "default" else []
    options += [("stateVarName", look.variable)] if look.variable else []
    said = "".join(f".option({json.dumps(key)}, {json.dumps(value)})" for key, value in options)
    return f'spark.read.format("statestore"){said}.load({json.dumps(location)}).show()'
