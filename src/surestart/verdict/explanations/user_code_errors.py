"""Errors that carry another one, and errors of the pipeline's own code. Matched last."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import RUN, Explanation, Risk

EXPLANATIONS = (
    Explanation(
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        Risk.NO,
        "The function that writes a batch raised an error; the cause stands below it in the message.",
        "The batch is planned and not committed. Writes that the function had "
        "finished stand; sinks with (query id, batch id) recognise them on the replay.",
        "none: repair the cause, then run: the same batch comes again",
        RUN,
        wrapper=True,
    ),
    Explanation(
        "FOREACH_USER_FUNCTION_ERROR",
        Risk.POSSIBLE,
        "The function that writes single rows raised an error; the cause stands below it in the message.",
        "The batch is planned and not committed, and some of its rows may be written: they come again.",
        "none: repair the cause, then run; use foreachBatch with (query id, batch id) to have rows once",
        RUN,
        wrapper=True,
    ),
    Explanation(
        "STREAM_FAILED",
        Risk.NO,
        "A streaming query ended with an error; the cause stands behind it in the message.",
        "The batch it was in is planned and not committed, and is replayed with the same rows.",
        "none: repair the cause, then run",
        RUN,
        wrapper=True,
        patterns=(r"StreamingQueryException",),
    ),
    Explanation(
        "PYTHON_ERROR_IN_BATCH",
        Risk.NO,
        "Python code of the pipeline raised an error inside a batch.",
        "The batch is planned and not committed, and is replayed with the same rows.",
        "none: repair the code, then run",
        RUN,
        "swallow the error in the function: the batch would count as done.",
        (r"PythonException", r"org\.apache\.spark\.api\.python\.PythonException", r"pyspark\.errors\.exceptions"),
        wrapper=True,
    ),
    Explanation(
        "TASK_FAILED",
        Risk.NO,
        "A task failed as often as it may; the cause stands below it in the message.",
        "The batch is planned and not committed, and is replayed with the same rows.",
        "none: repair the cause, then run",
        RUN,
        patterns=(r"Job aborted due to stage failure", r"TASK_WRITE_FAILED"),
        wrapper=True,
    ),
)
