"""What comes next, as a value, and the one place that makes text of it.

    surestart("doctor", "raw-ingest", place=Place("local", ("--root", "/a folder")), note="what to know first")
    surestart doctor raw-ingest -e local --root '/a folder'  # what to know first

    in_the_code("…")    in_the_notebook("…")          for the steps that no shell can take

Findings, errors and plans hold the value: whoever decides by it asks its fields. `str()` of it is the text, in one line
that a shell and the command line take as it stands. A path may hold spaces, quotes and backticks: unquoted, a shell
would split it, or run what is in it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Self

Words = tuple[str, ...]
# Where a plan is kept, as each command writes it that makes one.
PLAN_FILE: Words = ("-o", "plan.json")
_QUOTED = re.compile(r"\$'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
_PLAIN = {escape[1]: character for character, escape in _ESCAPES.items()}


class Verbatim(str):
    """A piece of a command that a shell has to act on, such as "$DATABASE_URL": it is not quoted."""

    __slots__ = ()


@dataclass(frozen=True)
class Place:
    """Of what a command speaks: the environment, and what else names its root, its streams or its pipeline.

    environment: what stands behind -e; "" where the options say enough.
    options: --root, --set, --pipeline, --streams, --sink and their values, each a word of its own, not quoted."""

    environment: str = ""
    options: Words = ()

    @property
    def words(self) -> Words:
        return (*(("-e", self.environment) if self.environment else ()), *self.options)


HERE = Place()


@dataclass(frozen=True)
class NextStep:
    """What a person does next.

    note: what to know before it is typed.
    other: a second step that the note leads to: the note says "or", "then"."""

    note: str = field(default="", kw_only=True)
    other: NextStep | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        said = "".join(map(_seen, self.note)) + (f": {self.other}" if self.other else "")
        return f"{self.line}  # {said}" if said else self.line

    def __bool__(self) -> bool:
        return bool(self.line)

    @property
    def line(self) -> str:
        """Without its note."""
        raise NotImplementedError

    @property
    def starts_a_query(self) -> bool:
        """It is to start the query, and nothing has to be accepted for that."""
        return False

    def noting(self, note: str, other: NextStep | None = None) -> Self:
        """The same with this note in place of its own."""
        return replace(self, note=note, other=other)

    def hiding(self, hide: Callable[[str], str]) -> NextStep:
        """The same with each of its texts as `hide` gives it back: without secrets."""
        return Line(hide(str(self)))


@dataclass(frozen=True)
class NextCommand(NextStep):
    """A command for a shell.

    program: surestart, or another one.
    verb: of surestart; "" for another program.
    words: what the verb is about, and options that stand before the place.
    place: which environment or streams it speaks of.
    more: options that stand behind the place.
    first: what is typed before it, on the same line.
    instead_of_start: it looks again, for a stream that its owner starts."""

    program: str
    verb: str = ""
    words: Words = ()
    place: Place = HERE
    more: Words = ()
    first: NextStep | None = None
    instead_of_start: bool = False

    @property
    def line(self) -> str:
        parts = (self.program, *filter(None, (self.verb,)), *self.words, *self.place.words, *self.more)
        line = " ".join(map(word, parts))
        return f"{self.first} && {line}" if self.first else line

    @property
    def starts_a_query(self) -> bool:
        return self.instead_of_start or (self.verb == "run" and "--accept" not in (*self.words, *self.more))

    def adding(self, *words: object) -> NextCommand:
        """The same with these words behind it."""
        return replace(self, more=(*self.more, *_as_words(words)))

    def hiding(self, hide: Callable[[str], str]) -> NextCommand:
        def hidden(words: Words) -> Words:
            return tuple(Verbatim(hide(one)) if isinstance(one, Verbatim) else hide(one) for one in words)

        return replace(
            self,
            program=hidden((self.program,))[0],
            words=hidden(self.words),
            place=replace(self.place, options=hidden(self.place.options)),
            more=hidden(self.more),
            first=self.first.hiding(hide) if self.first else None,
            note=hide(self.note),
            other=self.other.hiding(hide) if self.other else None,
        )


@dataclass(frozen=True)
class StepByHand(NextStep):
    """A step that no shell can take.

    where: the code, or the notebook."""

    where: str
    what: str

    @property
    def line(self) -> str:
        return f"in the {self.where}: {self.what}"


@dataclass(frozen=True)
class Line(NextStep):
    """A line that was written elsewhere: by the code of a pipeline, or by a process whose error is carried here."""

    text: str

    @property
    def line(self) -> str:
        return self.text

    def noting(self, note: str, other: NextStep | None = None) -> Line:
        return Line(uncommented(self.text), note=note, other=other)


NOTHING = Line("")


def typed(
    program: object, *words: object, place: Place = HERE, more: Iterable[object] = (), note: str = ""
) -> NextCommand:
    """One line for a shell. note: a comment behind it."""
    (named,) = _as_words([program])
    return NextCommand(named, "", _as_words(words), place, _as_words(more), note=note)


def surestart(
    verb: str, *words: object, place: Place = HERE, more: Iterable[object] = (), note: str = ""
) -> NextCommand:
    return NextCommand("surestart", verb, _as_words(words), place, _as_words(more), note=note)


def spark_sql(statement: str, note: str = "or in any session that has Delta: spark.sql(…)") -> NextCommand:
    """A statement of Spark SQL: in single quotes, because a shell runs what stands in backticks inside double ones."""
    return typed("spark-sql", "-e", statement, note=note)


def in_the_code(what: str) -> StepByHand:
    return StepByHand("code", what)


def in_the_notebook(what: str) -> StepByHand:
    return StepByHand("notebook", what)


def as_step(said: NextStep | str) -> NextStep:
    return said if isinstance(said, NextStep) else Line(said)


def is_plan(step: NextStep) -> bool:
    """It plans a remedy."""
    return isinstance(step, NextCommand) and step.verb == "plan"


def _as_words(given: Iterable[object]) -> Words:
    return tuple(one if isinstance(one, str) else str(one) for one in given)


def word(text: object) -> str:
    """One argument for a shell. What cannot be seen is spelled, so that it neither hides nor breaks the line."""
    given = str(text)
    if isinstance(text, Verbatim):
        return given
    if given.isprintable():
        return shlex.quote(given)
    return f"$'{''.join(map(_spelled, given))}'"


def words_in(line: str) -> Words:
    """The words of a line that `word` has spelled."""
    plain = re.sub(r"\$'((?:\\.|[^'\\])*)'", lambda quoted: shlex.quote(_unspelled(quoted[1])), line)
    return tuple(shlex.split(plain))


def _spelled(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _unspelled(text: str) -> str:
    """What `_spelled` has made of each character, turned back: bytes, of which several may be one character."""
    given = text.encode("utf-8", "surrogateescape")
    return re.sub(rb"\\(x[0-9a-f]{2}|.)", _plain_byte, given).decode("utf-8", "surrogateescape")


def _plain_byte(match: re.Match[bytes]) -> bytes:
    named = match[1].decode()
    return bytes([int(named[1:], 16)]) if len(named) == 3 else _PLAIN[named].encode()


def _seen(character: str) -> str:
    return character if character.isprintable() else _spelled(character)


def uncommented(line: str) -> str:
    """What a shell runs of the line: outside quotes, a word that begins with # ends it."""
    for match in re.finditer(r"(?:^|\s)#", line):
        head = line[: match.start()]
        if not re.search(r"['\"]", _QUOTED.sub("", head)):
            return head.rstrip()
    return line


def delta_name(path: str, name: str = "") -> str:
    """A Delta table in SQL, by its path, else by its name."""
    return f"delta.`{path.replace('`', '``')}`" if path else name


def sql_text(text: str) -> str:
    """A text in Spark SQL, where a doubled quote is no quote but the seam of two texts."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
