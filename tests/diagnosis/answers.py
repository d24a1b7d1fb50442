"""Every answer that a verdict is made of, one at a time replaced by an error, a time-out, an empty or a cut-off one.

A world is asked once as it is, and each question to a file system, a broker, a session or a ledger is written down.
Then it is asked again for each of those questions and each way in which an answer can fail. A file or a folder of the
world that was opened past these questions is a fault too: nobody could say what its failing would make of the verdict.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from surestart.errors import CannotTell, Refused
from surestart.facts.storage.open_storage import LocalStorage
from surestart.words.finding import Verdict

RANK = {Verdict.SAFE: 0, Verdict.ATTENTION: 1, Verdict.CANNOT_TELL: 2, Verdict.UNSAFE: 3}
Fault = Callable[[Any], Any]


def raises(error: BaseException) -> Fault:
    def fail(answer: Any) -> Any:
        raise error

    return fail


def _cut(keep: Callable[[int], slice]) -> Fault:
    """Some of a list, of a map's entries or of a text's bytes, in their order."""

    def cut(answer: Any) -> Any:
        if isinstance(answer, dict):
            return dict(list(answer.items())[keep(len(answer))])
        return answer[keep(len(answer))]

    return cut


def breaks_off(error: OSError) -> Fault:
    """A listing that comes in pages, of which one fails."""

    def fail(answer: Any) -> Iterator[Any]:
        yield from answer[: (len(answer) + 1) // 2]
        raise error

    return fail


ERRORS: dict[str, Fault] = {
    "error": raises(OSError(errno.EIO, "Input/output error")),
    "time-out": raises(TimeoutError("timed out")),
    "refused": raises(PermissionError(errno.EACCES, "Permission denied")),
}
REFUSALS: dict[str, Fault] = {
    "error": raises(CannotTell("the cluster said no", meaning="m", next="n")),
    "time-out": raises(CannotTell("the cluster did not answer", meaning="m", next="n")),
}
CUTS: dict[str, Fault] = {
    "empty": _cut(lambda length: slice(0, 0)),
    "first half": _cut(lambda length: slice(0, length // 2)),
    "last half": _cut(lambda length: slice(length // 2, None)),
    "all but the last": _cut(lambda length: slice(0, -1)),
    "all but the first": _cut(lambda length: slice(1, None)),
}
FAULTS: dict[str, dict[str, Fault]] = {
    "list": {
        **ERRORS,
        **CUTS,
        "breaks off": breaks_off(OSError(errno.EIO, "Input/output error")),
        "gone half way": breaks_off(FileNotFoundError(errno.ENOENT, "No such file or directory")),
    },
    "read": {
        **ERRORS,
        "empty": lambda data: b"",
        "half": lambda data: data[: len(data) // 2],
        "its first line": lambda data: data.partition(b"\n")[0],
        "without its last line": lambda data: data.rstrip(b"\n").rpartition(b"\n")[0],
    },
    "stat": ERRORS,
    # What a client makes of an error and of a time-out of its cluster, and what a cluster may leave out.
    "topic": {**REFUSALS, **CUTS},
    "numbers": {**REFUSALS, **CUTS, "nothing of each": lambda told: dict.fromkeys(told)},
    "rows": {**ERRORS, **CUTS},
    "row": {**ERRORS, "empty": lambda row: None},
    "clock": {"stands at 1970": lambda now: 0, "a year behind": lambda now: now - 365 * 86_400_000},
}


@dataclass(frozen=True)
class Question:
    """nth: its place among the same questions of one look; None: all of them."""

    kind: str
    about: str
    nth: int | None = None


@dataclass
class Answers:
    """Lets each question through and writes it down; answers `broken` by `fault`."""

    broken: Question | None = None
    fault: Fault | None = None
    asked: dict[Question, tuple[str, ...]] = field(default_factory=dict)
    count: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Of the world: what was opened or listed, and by none of these questions.
    unasked: list[str] = field(default_factory=list)

    def give(self, kind: str, about: str, answer: Callable[[], Any]) -> Any:
        nth = self.count[kind, about]
        self.count[kind, about] += 1
        faults = FAULTS[kind]
        try:
            with _asking():
                found = answer()
        except (FileNotFoundError, NotADirectoryError) as gone:
            # "There is no such file" can only fail to be said.
            faults, found = ERRORS, gone
        self.asked[Question(kind, about, nth)] = tuple(faults)
        if self.broken in (Question(kind, about, nth), Question(kind, about)):
            assert self.fault is not None
            return self.fault(found)
        if isinstance(found, BaseException):
            raise found
        return found


class _Asking(threading.local):
    """Whether this thread is inside a question."""

    now = False


_this = _Asking()
# What Python opens or lists below that folder, noted while a world is looked at.
_watched: list[tuple[str, list[str]]] = []


@contextmanager
def _asking() -> Iterator[None]:
    before, _this.now = _this.now, True
    try:
        yield
    finally:
        _this.now = before


def _note(event: str, given: tuple[Any, ...]) -> None:
    if not _watched or _this.now or event not in ("open", "os.listdir", "os.scandir"):
        return
    path = given[0]
    if isinstance(path, bytes | str | os.PathLike):
        told = str(Path(os.fsdecode(path)).absolute())
        for world, noted in _watched:
            if told.startswith(f"{world}{os.sep}"):
                noted.append(f"{event} {told}")


# There is no way to take it away again: it looks at nothing while no world is looked at.
sys.addaudithook(_note)


@contextmanager
def listening(answers: Answers, world: Path) -> Iterator[None]:
    """Every read of a file or a folder goes through `answers`; those below world that do not are noted."""
    patch = pytest.MonkeyPatch()
    list_matching, open_file, read_bytes = LocalStorage.list_matching, LocalStorage.open_file, Path.read_bytes
    stat, read_text = Path.stat, Path.read_text

    def listed(self: LocalStorage, path: str, wanted: Callable[[str], bool]) -> Iterator[Any]:
        # Sorted: the order of a folder is nobody's promise, and a cut would be another one each time.
        about = f"{self.location}/{path}"
        return iter(answers.give("list", about, lambda: sorted(list_matching(self, path, wanted))))

    def content(self: LocalStorage, path: str) -> bytes:
        def read() -> bytes:
            with open_file(self, path) as file:
                return file.read()

        data: bytes = answers.give("read", f"{self.location}/{path}", read)
        return data

    def whole(self: Path) -> bytes:
        data: bytes = answers.give("read", str(self), lambda: read_bytes(self))
        return data

    def text(self: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if not self.is_relative_to(world):
            return read_text(self, encoding, errors)  # A package of this environment.
        return whole(self).decode(encoding or "utf-8", errors or "strict")

    def state(self: Path, *, follow_symlinks: bool = True) -> Any:
        return answers.give("stat", str(self), lambda: stat(self, follow_symlinks=follow_symlinks))

    patch.setattr(LocalStorage, "list_matching", listed)
    patch.setattr(LocalStorage, "read_file", lambda self, path, limit: content(self, path)[:limit])
    patch.setattr(LocalStorage, "open_file", lambda self, path: io.BytesIO(content(self, path)))
    patch.setattr(Path, "read_bytes", whole)
    patch.setattr(Path, "read_text", text)
    patch.setattr(Path, "stat", state)
    _watched.append((str(world.absolute()), answers.unasked))
    try:
        yield
    finally:
        _watched.pop()
        patch.undo()


Ask = Callable[[Answers], Verdict]


def judged(ask: Callable[[], Verdict]) -> Verdict:
    """A refusal is an answer too; anything else that is raised is a fault of ours and passes through."""
    try:
        return ask()
    except CannotTell:
        return Verdict.CANNOT_TELL
    except Refused:
        return Verdict.UNSAFE


@dataclass(frozen=True)
class Case:
    question: Question
    fault: str


def find_cases(ask: Ask) -> tuple[Verdict, list[Case]]:
    """The verdict on the world as it is, and every way in which one of its answers, or all of a kind, can fail."""
    answers = Answers()
    base = ask(answers)
    assert answers.unasked == []
    found: dict[Case, None] = {}
    for question, faults in answers.asked.items():
        for fault in faults:
            # One answer; and where it was asked for more than once, all of them.
            found[Case(question, fault)] = None
            if answers.count[question.kind, question.about] > 1:
                found[Case(Question(question.kind, question.about), fault)] = None
    return base, list(found)


def ask_with(ask: Ask, case: Case) -> Verdict:
    return ask(Answers(case.question, FAULTS[case.question.kind][case.fault]))
