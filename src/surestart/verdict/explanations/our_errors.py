"""surestart's own refusals that need more words than their line in the catalogue."""

from __future__ import annotations

from surestart.typed import surestart
from surestart.verdict.explanations.explanation import DOCTOR, HISTORY, Explanation, Risk

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
        "resume with the former id, which stands in the sink's own record; else reset",
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
