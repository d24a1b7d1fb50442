"""An error class, a log line or a pasted traceback -> what happened, is data at risk, which remedy, the exact command.

Names of error conditions in the text decide first, the most specific one before those that only carry it; then the
words of messages that have no name. What is not known says so and shows the nearest names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from surestart.typed import NextCommand, NextStep, Place, Words, surestart
from surestart.verdict.diagnose import Diagnosis
from surestart.verdict.explanations import all_explanations, delta_source_errors
from surestart.verdict.explanations.explanation import DOCTOR, HISTORY, Explanation
from surestart.words.codes import sources
from surestart.words.codes.code import STAGE, of_stage
from surestart.words.finding import Finding, Severity

# A driver log may have gigabytes; the cause stands at its end.
MAX_TEXT = 8 << 20
# A driver log says the same thousands of times with other numbers; Spark's longest message has about 2,000 characters.
LINE_LIMIT = 8_000
TEXT_LIMIT = 1 << 20
_WORD = re.compile(r"[A-Z_][A-Za-z0-9_.]{4,200}+")
_NAME = re.compile(r"_?[A-Z][A-Z0-9]*+(?:_[A-Z0-9]++)++(?:\.[A-Z][A-Z0-9_]++)?+|\b[A-Z][a-z]++(?:[A-Z][a-z]++)++\b")
_STAGE = re.compile(r"/[a-z][a-z0-9_]*-([a-z0-9][a-z0-9-]*)/(?:offsets|commits|metadata|sources|state)\b")
_QUERY_ID = re.compile(r"Query \[id = ([0-9a-fA-F-]{36})")
_BATCH = re.compile(r"\bbatch(?:Id)?\s*[=#:]?\s*(\d{1,18})\b", re.I)
PLACEHOLDER = "STAGE"


@dataclass(frozen=True)
class Match:
    """An explanation and what comes next for the stage at hand.

    stage_says: what its own evidence says of the error, where it was asked.
    do_not: instead of the explanation's."""

    explanation: Explanation
    next: NextStep
    found: str
    stage_says: str = ""
    do_not: str = ""


@dataclass(frozen=True)
class Answer:
    """matches: the cause first, then what else the text names.
    nearest: for a text that is not known."""

    matches: tuple[Match, ...]
    nearest: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = field(default=())

    @property
    def known(self) -> bool:
        return bool(self.matches)


def explain(text: str, stage: str = "", environment: str = "", options: Words = ()) -> Answer:
    """Never raises for what the text holds. options: --root and --set for the commands."""
    place = Place(environment, options)
    text = condense(text[-MAX_TEXT:])
    entries = all_explanations()
    by_name = {entry.name: entry for entry in entries}
    found: dict[str, str] = {}
    for given in _names(text):
        name = _known_name(given, by_name)
        if name:
            found.setdefault(name, given)
    for entry in entries:
        if entry.name not in found:
            for pattern in entry.patterns:
                hit = re.search(pattern, text)
                if hit:
                    found[entry.name] = " ".join(hit[0].split())[:120]
                    break
    stage = stage or _stage_of(text)
    ordered = sorted(found, key=lambda name: (by_name[name].wrapper, -name.count("."), _rank(entries, name)))
    ordered = [name for name in ordered if not _is_covered(name, ordered)]
    matches = tuple(Match(by_name[name], _command(by_name[name], stage, place), found[name]) for name in ordered)
    return Answer(matches, () if matches else _nearest(text, entries), _facts(text))


def condense(text: str) -> str:
    """The text with each kind of line once, cut to what a person would read: its end, where the cause stands.

    Without this, 8 MB of one word take minutes, and 8 MB of a log ten seconds.
    """
    # A log in JSON has its traceback on one line.
    kept: dict[str, str] = {}
    for line in re.sub(r"\n{2,}", "\n", text.replace("\\n", "\n")).splitlines():
        if len(line) > LINE_LIMIT:
            line = f"{line[: LINE_LIMIT // 2]} {line[-LINE_LIMIT // 2 :]}"
        # The last line of each kind stays. If the first one stayed, an error that comes again would be cut off.
        kind = line.translate(_DIGITS)
        kept.pop(kind, None)
        kept[kind] = line
    return "\n".join(kept.values())[-TEXT_LIMIT:]


_DIGITS = {ord(digit): None for digit in "0123456789"}


def _names(text: str) -> Iterator[str]:
    """What looks like the name of an error, each once."""
    for found in dict.fromkeys(_WORD.findall(text)):
        for match in _NAME.finditer(found):
            yield match[0]


def _known_name(name: str, by_name: dict[str, Explanation]) -> str:
    """The explained name for it: itself, its parent condition, or its family (STDS_…, STATE_STORE_…)."""
    if name in by_name:
        return name
    base = name.partition(".")[0]
    if base in by_name:
        return base
    for family in ("DELTA_STREAMING_SCHEMA_LOG", "STATE_STORE", "STDS"):
        if base.startswith(family + "_"):
            return family
    return ""


def _is_covered(name: str, names: Iterable[str]) -> bool:
    """Whether a sub-condition of it is named too, and says more."""
    return any(other.startswith(name + ".") for other in names)


def _rank(entries: tuple[Explanation, ...], name: str) -> int:
    return next(index for index, entry in enumerate(entries) if entry.name == name)


def _command(entry: Explanation, stage: str, place: Place) -> NextCommand:
    """Where no stage is named the doctor's command comes first: it asks all of them, and names the one."""
    general = not stage and entry.command in (DOCTOR, HISTORY)  # these two also speak of all stages at once
    if STAGE not in entry.command.words:
        return entry.command
    command = of_stage(entry.command, "" if general else stage or PLACEHOLDER, place)
    return command if stage or general else surestart("doctor", place=place).noting("it names the stage; then", command)


def _stage_of(text: str) -> str:
    """The stage whose checkpoint path the text names: <root>/<pipeline>-<stage>/offsets/…"""
    match = _STAGE.search(text)
    return match[1] if match else ""


def _facts(text: str) -> tuple[tuple[str, str], ...]:
    facts = []
    for label, pattern in (("query id", _QUERY_ID), ("batch", _BATCH), ("stage", _STAGE)):
        match = pattern.search(text)
        if match:
            facts.append((label, match[1]))
    return tuple(facts)


def _nearest(text: str, entries: tuple[Explanation, ...]) -> tuple[str, ...]:
    names = [entry.name for entry in entries if not entry.wrapper]
    given = list(islice(_names(text[-20_000:]), 50)) or [text.strip()[:100].upper().replace(" ", "_")]
    close = [name for word in given for name in difflib.get_close_matches(word, names, n=3, cutoff=0.55)]
    if close:
        return tuple(dict.fromkeys(close))[:3]
    words = set(re.findall(r"[a-z]{4,}", text[-20_000:].lower()))
    overlap = {entry.name: len(words & set(re.findall(r"[a-z]{4,}", entry.happened.lower()))) for entry in entries}
    best = sorted((name for name in overlap if overlap[name] >= 3), key=lambda name: -overlap[name])
    return tuple(best[:3])


_NAMES = frozenset(entry.name for entry in delta_source_errors.EXPLANATIONS)
_OF_SOURCES = frozenset(code.name for code in sources.CODES if code.finding)


def is_about_a_source(answer: Answer) -> bool:
    return any(match.explanation.name in _NAMES for match in answer.matches)


def at_stage(answer: Answer, diagnosis: Diagnosis, run: NextStep) -> Answer:
    """The same answer with what the stage's own source says now, and the command that follows from it. run: what starts
    the stage, for a source that nothing stops any more."""
    bars = [one for one in diagnosis.findings if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)]
    # What bars the start for another reason may also hide where the stage stands in its source.
    found = [finding for finding in bars if finding.code in _OF_SOURCES] or bars
    return replace(answer, matches=tuple(_at_stage(match, found, run) for match in answer.matches))


def _at_stage(match: Match, found: list[Finding], run: NextStep) -> Match:
    if match.explanation.name not in _NAMES:
        return match
    if not found:
        return replace(match, stage_says="No unread commit of its source stops it now.", next=run)
    first = found[0]
    said = "; ".join(f"{finding.code}: {finding.evidence}" for finding in found[:3])
    return replace(match, stage_says=f"{said}. {first.meaning}", next=first.next, do_not=first.do_not)
