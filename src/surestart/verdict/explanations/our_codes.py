"""surestart's own codes, for a reader who has only the name: made from the catalogue."""

from __future__ import annotations

import re

from surestart.verdict.explanations.explanation import Explanation, Risk
from surestart.words.codes import all_codes
from surestart.words.codes.code import BACKFILL, CANNOT_TELL, INFO, REPLAY, RESET, RESUME, RUN, UNSAFE, Code

_REMEDIES = {RESUME: "resume", REPLAY: "replay", BACKFILL: "backfill", RESET: "reset", RUN: "none: it may be started"}
_FOUND = {
    "unsafe": "A start would lose or double rows, or fail. Nothing has happened yet by its being found.",
    "cannot tell": "Not known: evidence is missing, and it is not called safe.",
    "attention": "A start works; the finding says what to look at first.",
    "info": "Nothing has to be done.",
}
_RAISED = {
    "unexpected": "Not known: it is no verdict on the stream.",
    "stopped half-way": "Nothing is lost by the stop: the same command goes on where it was.",
    "refused": "Nothing is lost: the call ended before it would have been.",
    "cannot tell": "Not known: the call ended instead of guessing.",
    "usage": "Nothing was started or changed.",
    **_FOUND,
}
# Names that only carry another error, or stand for every error of their kind.
_WRAPPERS = frozenset(("UsageError", "Refused", "CannotTell", "StoppedHalfway", "StageFailed", "Unexpected"))
# What `explain` recognises as a name wherever it stands in a text; a single word would be found in any log.
_SPEAKING = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")


def _explained(code: Code) -> Explanation:
    told = _FOUND if code.finding else _RAISED
    worst = next(kind for kind in told if kind in code.kinds)
    return Explanation(
        code.name,
        _risk(worst),
        code.says,
        told[worst],
        _REMEDIES.get(code.command, "none of its own; what is true of your stage, the command below reads"),
        code.command,
        patterns=() if _SPEAKING.fullmatch(code.name) else (rf"(?m)(?:^|[:·] |  ){code.name}(?:$|:)",),
        wrapper=code.name in _WRAPPERS,
    )


def _risk(kind: str) -> Risk:
    if kind == UNSAFE:
        return Risk.YES
    return Risk.POSSIBLE if kind in (CANNOT_TELL, "attention", "unexpected") and kind != INFO else Risk.NO


EXPLANATIONS = tuple(_explained(code) for code in all_codes())
