"""surestart's own refusals that need more words than their line in the catalogue.

surestart's own codes, for a reader who has only the name: made from the catalogue."""

from __future__ import annotations

import re

from surestart.typed import surestart
from surestart.verdict.explanations.explanation import DOCTOR, HISTORY, Explanation, Risk
from surestart.words.codes import all_codes
from surestart.words.codes.code import BACKFILL, CANNOT_TELL, INFO, REPLAY, RESET, RESUME, RUN, UNSAFE, Code

EXPLANATIONS = (
    Explanation(
        "SkippedBatch",
        Risk.YES,
        "The table dropped a batch that was never planned before this run: it is ahead of the checkpoint.",
        "The batch's rows are not in the table; the run was stopped before it could lose more.",
        "replay, after the doctor has said how far the table is ahead",
        DOCTOR,
        "run the stage again as it is.",
        (r"\bSkippedBatch\b",),
    ),
    Explanation(
        "BatchDropped",
        Risk.YES,
        "A batch ended without a commit in its table: the table took it for one that it has.",
        "The batch's rows are not in the table; the run was stopped before it could lose more.",
        "replay, after the doctor has said how far the table is ahead",
        DOCTOR,
        "run the stage again as it is.",
        (r"\bBatchDropped\b",),
    ),
    Explanation(
        "RunReplaced",
        Risk.NO,
        "A driver that stood still (a signal, a frozen machine) woke up and found another checkpoint, or another owner "
        "of its query: a remedy or another start came in between.",
        "Nothing under the new identity; the run has ended. Its message says whether a batch was still written under "
        "the former one.",
        "none: whatever came after it goes on",
        HISTORY,
        "put the former checkpoint back by hand.",
        (r"\bRunReplaced\b",),
    ),
    Explanation(
        "ForeignTable",
        Risk.NO,
        "The table that the stage would write has other columns than the stage's: another environment's, or another's.",
        "Nothing was written.",
        "none: correct the root or the schema",
        surestart("status"),
        "drop the table.",
        (r"\bForeignTable\b",),
    ),
    Explanation(
        "QueryIdUnreadable",
        Risk.NO,
        "`metadata` in the checkpoint holds no query id, so a replayed batch could not be told from a new one.",
        "Nothing was written.",
        "resume with the former id, which the sink's own record has; else reset",
        DOCTOR,
        "write an id of your own into it.",
        (r"\bQueryIdUnreadable\b",),
    ),
    Explanation(
        "CheckpointPathRefused",
        Risk.NO,
        "The checkpoint path would change from run to run or is shared by two queries.",
        "Nothing was started.",
        "none: set one fixed checkpoint_root for the environment",
        surestart("status"),
        "put a date, a run id or a user name into it.",
        (r"\bCheckpointPathRefused\b",),
    ),
)


_REMEDIES = {RESUME: "resume", REPLAY: "replay", BACKFILL: "backfill", RESET: "reset", RUN: "none: it may be started"}
_FOUND = {
    "unsafe": "A start would lose or double rows, or fail. Finding this has changed nothing.",
    "cannot tell": "Not known: evidence is missing, and it is not called safe.",
    "attention": "A start works; the finding says what to look at first.",
    "info": "Nothing has to be done.",
}
_RAISED = {
    "unexpected": "Not known: it is not a verdict on the stream.",
    "stopped half-way": "Nothing is lost by the stop: the same command goes on where it was.",
    "refused": "Nothing is lost: the call was refused before it could lose anything.",
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
        _REMEDIES.get(code.command, "none of its own; the command below reads what is true of your stage"),
        code.command,
        patterns=() if _SPEAKING.fullmatch(code.name) else (rf"(?m)(?:^|[:·] |  ){code.name}(?:$|:)",),
        wrapper=code.name in _WRAPPERS,
    )


def _risk(kind: str) -> Risk:
    if kind == UNSAFE:
        return Risk.YES
    return Risk.POSSIBLE if kind in (CANNOT_TELL, "attention", "unexpected") and kind != INFO else Risk.NO


OF_THE_CATALOGUE = tuple(_explained(code) for code in all_codes())
