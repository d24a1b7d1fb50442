"""Removes retired checkpoints that nobody will want back; with each goes the undo of its remedy.

    _retired/<query>/<digest>          put aside by a remedy: its undo needs it
    _retired/<query>/<digest>-undone   put aside by an undo: what the stage had made in between
    _retired/<query>/….complete        since when it lies there
    _retired/prune-<digest>.json       a removal that was begun; gone when it is finished

Only what lies under _retired, is complete, and belongs to a remedy that is finished or undone is ever removed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.delta.commit_notes import step_parts
from surestart.failpoints import fail_point
from surestart.history.describe_run import named
from surestart.journal.journal import FINISHED, WITHDRAWN, Journal
from surestart.journal.protocol import changes_database
from surestart.remedies.basis.move_aside import RETIRED
from surestart.typed import surestart, typed

UNDONE = "-undone"
_NAME = re.compile(r"[0-9a-f]{16}(-undone)?")
_UNITS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


@dataclass(frozen=True)
class Retired:
    """path: relative to _retired, "<query>/<digest>".
    retired_at: milliseconds, of its marker.
    stays: why it is not removed, "" if it is.
    ends_undo: the remedy could be undone until now.
    tables: in PostgreSQL, that go with it."""

    path: str
    retired_at: int
    files: int
    size: int
    remedy: str
    ends_undo: bool = False
    stays: str = ""
    tables: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        return self.path.split("/")[0]


@dataclass(frozen=True)
class Prune:
    """unfinished: digests of removals that were begun and not finished."""

    going: tuple[Retired, ...]
    staying: tuple[Retired, ...]
    unfinished: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        lines = "\n".join("\0".join((one.path, str(one.files), str(one.size), *one.tables)) for one in self.going)
        return hashlib.sha256(lines.encode()).hexdigest()


def read_age(text: str) -> int:
    """Milliseconds of "30d", "12h" or "2w"."""
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip())
    if found is None:
        raise UsageError(
            f"--older-than {text!r} is not a number and h, d or w",
            meaning="How old a retired checkpoint has to be is not clear. Nothing was removed.",
            next=surestart("prune", "--older-than", "30d"),
        )
    return int(found[1]) * _UNITS[found[2]]


def retired_root(environment: Environment) -> Path:
    return local_folder(environment.checkpoint_root.rstrip("/")) / RETIRED


def plan_prune(environment: Environment, journals: Sequence[Journal], older_than: int, now: int) -> Prune:
    """What would go, and what is old enough and stays; nothing is written."""
    root = retired_root(environment)
    found = [one for one in _read_retired(environment, root, journals) if now - one.retired_at >= older_than]
    return Prune(
        going=tuple(one for one in found if not one.stays),
        staying=tuple(one for one in found if one.stays),
        unfinished=tuple(path.stem.removeprefix("prune-") for path in sorted(root.glob("prune-*.json"))),
    )


def apply_prune(
    environment: Environment,
    read: Callable[[], Sequence[Journal]],
    digest: str,
    older_than: int,
    now: int,
    say: Callable[[str], object] = lambda line: None,
) -> int:
    """The listed folders are gone with their markers; how many this call removed. Killed, the same call goes on."""
    wanted = digest.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{12,64}", wanted):
        raise UsageError(
            f"{digest!r} is not a digest that `surestart prune` has printed",
            meaning="It is the first 12 or more of its characters. Nothing was removed.",
            next=surestart("prune", place=named(environment)),
            do_not="make up a digest.",
        )
    root = retired_root(environment)
    begun = list(root.glob(f"prune-{wanted}*.json"))
    if not begun:
        prune = plan_prune(environment, read(), older_than, now)
        if not prune.going or not prune.digest.startswith(wanted):
            raise _moved(environment, wanted, prune)
        begun = [_write_list(root, prune)]
    removed = 0
    for record in begun:
        for path in _read_list(record):
            removed += _remove(environment, root, path, read)
            say(f"removed {path}")
        record.unlink()
    return removed


def _read_retired(environment: Environment, root: Path, journals: Sequence[Journal]) -> Iterable[Retired]:
    by_name = {journal.digest[:16]: journal for journal in journals}
    for query in sorted(root.iterdir()) if root.is_dir() else ():
        if query.is_symlink() or not query.is_dir():
            continue
        for folder in sorted(query.iterdir()):
            if folder.is_symlink() or not folder.is_dir() or not _NAME.fullmatch(folder.name):
                continue
            marker = folder.with_name(folder.name + ".complete")
            journal = by_name.get(folder.name.removesuffix(UNDONE))
            since = marker if marker.exists() else folder
            sizes = [path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
            yield Retired(
                path=f"{query.name}/{folder.name}",
                retired_at=int(since.stat().st_mtime * 1000),
                files=len(sizes),
                size=sum(sizes),
                remedy=_describe(journal) if journal else "",
                ends_undo=not folder.name.endswith(UNDONE) and journal is not None and journal.state == FINISHED,
                stays=_why_it_stays(environment, journal, complete=marker.exists()),
                tables=tuple(one.label for one in _kept_tables(journal, f"{query.name}/{folder.name}")),
            )


@dataclass(frozen=True)
class _KeptTable:
    """What a remedy has removed from a PostgreSQL table, kept there until its undo.

    place: where the URL is kept."""

    place: str
    label: str


def _kept_tables(journal: Journal | None, path: str) -> tuple[_KeptTable, ...]:
    """The kept tables of that query and remedy; none once it was undone, because an undo drops them."""
    query, _, name = path.partition("/")
    if journal is None or name.endswith(UNDONE) or journal.state == WITHDRAWN:
        return ()
    facts = [journal.facts(step) for step in sorted(journal.done) if changes_database(step_parts(step)[0])]
    return tuple(
        _KeptTable(str(one["place"]), str(one["kept_table"]))
        for one in facts
        if one.get("kept_table") and one.get("query") == query
    )


def _describe(journal: Journal) -> str:
    undone = ", undone" if journal.state == WITHDRAWN else ""
    return f"{journal.first.remedy} of {journal.first.stage} ({journal.digest[:12]}{undone})"


def _why_it_stays(environment: Environment, journal: Journal | None, *, complete: bool) -> str:
    if journal is None:
        return "no remedy in the journal of this environment has put it there"
    if journal.state not in (FINISHED, WITHDRAWN):
        return f"its remedy is half-way: {surestart(journal.verb, journal.digest[:12], place=named(environment))}"
    return "" if complete else "its copy was never completed"


def _remove(environment: Environment, root: Path, path: str, read: Callable[[], Sequence[Journal]]) -> int:
    folder = root / path
    _drop_kept_tables(environment, path, read)
    going, marker = folder.with_name(folder.name + ".pruning"), folder.with_name(folder.name + ".complete")
    count = int(folder.is_dir() or going.is_dir())
    if folder.is_dir():
        _check_at_rest(environment, path, read())
        try:
            folder.rename(going)
        except OSError:
            # Volumes and object stores: what is half removed has the wrong bytes, and an undo refuses it.
            shutil.rmtree(folder)
        else:
            try:
                # An undo may have begun in between. One that begins from here on finds no checkpoint and refuses.
                _check_at_rest(environment, path, read())
            except BaseException:
                going.rename(folder)
                raise
    fail_point("remedy.prune.after_rename")
    if going.is_dir():
        shutil.rmtree(going)
    fail_point("remedy.prune.before_marker")
    folder.with_name(folder.name + ".restoring").unlink(missing_ok=True)
    marker.unlink(missing_ok=True)
    return count


def _drop_kept_tables(environment: Environment, path: str, read: Callable[[], Sequence[Journal]]) -> None:
    """Dropped before anything else: once its checkpoint is gone, nothing names a remedy's tables any more."""
    journals = read()
    name = path.split("/")[-1].removesuffix(UNDONE)
    journal = next((one for one in journals if one.digest.startswith(name)), None)
    tables = _kept_tables(journal, path)
    if not tables or journal is None:
        return
    _check_at_rest(environment, path, journals)
    from surestart.facts.postgres.url import DatabaseUrl
    from surestart.sinks.postgres.remedy import drop_kept

    for table in tables:
        drop_kept(DatabaseUrl.from_label(table.place).read(), table.label, journal.digest)
        fail_point("remedy.prune.after_drop")


def _check_at_rest(environment: Environment, path: str, journals: Sequence[Journal]) -> None:
    name = path.split("/")[-1].removesuffix(UNDONE)
    journal = next((one for one in journals if one.digest.startswith(name)), None)
    why = _why_it_stays(environment, journal, complete=True)
    if why:
        raise Refused(
            f"{path} stays: {why}",
            meaning="That remedy has gone on since this list was made, and may need what it put aside. What was "
            "removed before it is gone, the rest is as it was.",
            next=surestart("prune", place=named(environment), note="once that remedy is finished"),
            code="RetiredIsNeeded",
        )


def _write_list(root: Path, prune: Prune) -> Path:
    record = root / f"prune-{prune.digest}.json"
    fresh = record.with_name(record.name + ".new")
    fresh.write_text(json.dumps({"schema_version": 1, "paths": [one.path for one in prune.going]}), encoding="utf-8")
    fresh.replace(record)
    fail_point("remedy.prune.begun")
    return record


def _read_list(record: Path) -> tuple[str, ...]:
    try:
        body: Mapping[str, object] = json.loads(record.read_text(encoding="utf-8"))
        paths = body["paths"]
        assert isinstance(paths, list)
        good = [path for path in paths if re.fullmatch(r"[^/]+/[0-9a-f]{16}(-undone)?", path)]
        assert good == paths
        assert not any(path.startswith(".") for path in good)
    except (ValueError, KeyError, TypeError, AssertionError) as problem:
        raise CannotTell(
            f"{record} is not a list that `surestart prune` has written",
            meaning="What was to be removed cannot be told. Nothing was removed.",
            next=typed("rm", record).noting("then", surestart("prune")),
            code="PruneListUnreadable",
        ) from problem
    return tuple(good)


def _moved(environment: Environment, wanted: str, prune: Prune) -> Refused:
    what = (
        f"it has {len(prune.going)} folders, digest {prune.digest[:12]}"
        if prune.going
        else "there is nothing to remove"
    )
    return Refused(
        f"the digest {wanted[:12]} is of another list; now {what}",
        meaning="What is removed has to be what was listed and read. Nothing was removed.",
        next=surestart("prune", place=named(environment), note="with the same --older-than"),
        code="PruneMoved",
    )
