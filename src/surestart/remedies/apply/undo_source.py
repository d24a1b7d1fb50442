"""What a stage without positions has read since its remedy goes with its table, and the former checkpoint, which comes
back, has to be given it again.

files            each that only the present list has is still there
Kafka, Delta     the doctor, asked about the former checkpoint, says that the source still has what follows it"""

from __future__ import annotations

from collections.abc import Iterator

from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.file_list import read_whole_list
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.positions import FilesPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.checkpoint.source_folder import read_source_folder
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.storage import FOLDER, Storage
from surestart.journal.protocol import changes_content, moves_checkpoint
from surestart.remedies.basis.move_aside import retired_folder
from surestart.remedies.basis.read_back import not_given_again
from surestart.remedies.basis.step_context import StepContext, again
from surestart.remedies.loss.rewind_loss import counts_by_position
from surestart.remedies.planning.rewind_table import file_is_there, is_local
from surestart.words.finding import Severity
from surestart.words.inert import inert


def refuse_not_given_again(run: StepContext) -> None:
    """Raises, with nothing changed."""
    link = run.chain.link(run.plan.stage)
    done = [step for step in run.plan.steps if step.id in run.journal.done and step.stage == link.name]
    goes_back = any(moves_checkpoint(step.kind) for step in done) and any(changes_content(step.kind) for step in done)
    if not goes_back or counts_by_position(run.spark, link):
        return
    now = LocalStorage(str(local_folder(link.checkpoint)))
    former = LocalStorage(str(retired_folder(run.environment, link.query, run.digest)))
    present, before = read_checkpoint(now.location, now), read_checkpoint(former.location, former)
    if present.latest_planned is None:
        return
    since = list(files_since(now, former))
    gone = [path for path in since if is_local(path) and not file_is_there(path)]
    if gone:
        raise Refused(
            f"of what {link.query} has read since the {run.plan.remedy}, files are gone: {len(gone):,}, such as "
            f"{inert(gone[0], 300)}",
            meaning="The undo takes back their rows with the table: they would not come again. Nothing was changed.",
            next=again(run, "undo").noting("once they are where they were"),
            do_not="undo it by hand: their rows are in the table, and nowhere else.",
            code="SourceLostRows",
        )
    unseen = next((path for path in since if not is_local(path)), "")
    if unseen:
        run.say(
            f"Whether the files that it has read since are still there was not looked at, such as {inert(unseen, 300)}"
        )
    if not has_read_on(present, before):
        return
    for found in not_given_again(run.spark, run.environment, link, former):
        kind = CannotTell if found.severity is Severity.CANNOT_TELL else Refused
        raise kind(
            f"{link.query} has read on since the {run.plan.remedy}, and its source may not give that again: "
            f"{found.code}: {found.evidence}",
            meaning="The undo takes those rows back with the table. Nothing was changed.",
            next=found.next,
            code=found.code,
        )


def files_since(now: Storage, former: Storage) -> Iterator[str]:
    """Those in the lists of the one, and not of the other."""
    for entry in _sources(now):
        folder = f"sources/{entry}"
        if read_source_folder(now, entry).kind == "files":
            known = read_whole_list(former, folder) if entry in set(_sources(former)) else frozenset()
            yield from sorted(read_whole_list(now, folder) - known)


def _sources(storage: Storage) -> Iterator[str]:
    try:
        yield from (entry.name for entry in storage.list_folder("sources") if entry.kind == FOLDER)
    except FileNotFoundError:
        return


def has_read_on(present: Checkpoint, before: Checkpoint) -> bool:
    """Whether it has read past the former one, as far as the positions of its sources mean the same in both."""
    if present.latest_planned is None or present.latest_planned not in present.offsets:
        return False
    known = [_positions(one) for one in before.offsets.values()]
    here = _positions(present.offsets[present.latest_planned])
    return any(here) and here not in known


def _positions(entry: object) -> tuple[object, ...]:
    sources = entry.sources if isinstance(entry, OffsetLogEntry) else ()
    return tuple(one.position for one in sources if not isinstance(one.position, FilesPosition))
