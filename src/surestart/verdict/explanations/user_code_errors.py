"""Errors that carry another one, and errors of the pipeline's own code. Matched last."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import RUN, Explanation, Risk

EXPLANATIONS = (
    Explanation(
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        Risk.NO,
        "The function that writes a batch raised an error; the cause is below it in the message.",
        "The batch is planned and not committed. Writes that the function had "
        "finished stand; sinks with (query id, batch id) recognise them on the replay.",
        "none: repair the cause, then run: the same batch comes again",
        RUN,
        wrapper=True,
    ),
    Explanation(
        "FOREACH_USER_FUNCTION_ERROR",
        Risk.POSSIBLE,
        "The function that writes single rows raised an error; the cause is below it in the message.",
        "The batch is planned and not committed, and some of its rows may be written: they come again.",
        "none: repair the cause, then run; use foreachBatch with (query id, batch id) to have rows once",
        RUN,
        wrapper=True,
    ),
    Explanation(
        "STREAM_FAILED",
        Risk.NO,
        "A streaming query ended with an error; the cause is after it in the message.",
        "The batch it was in is planned and not committed, and is replayed with the same rows.",
        "none: repair the cause, then run",
        RUN,
        wrapper=True,
        patterns=(r"StreamingQueryException",),
    ),
    Explanation(
        "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
        Risk.NO,
        "On Spark Connect the Python that writes batches could not load the stream's function; the cause is in the "
        "message, a module that it lacks most often.",
        "No batch was planned and no row was written.",
        "none: put what is missing into the environment of that Python, then run",
        RUN,
        patterns=(r"StreamingPythonRunnerInitializationException",),
        wrapper=True,
    ),
    Explanation(
        "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED",
        Risk.NO,
        "This compute runs a stream to the end of its data and no further: serverless knows no interval.",
        "No batch was planned and no row was written.",
        "none: run with the default trigger, on a schedule; an interval needs a job cluster",
        RUN,
        "give another trigger on the same compute.",
    ),
    Explanation(
        "NOT_SUPPORTED_WITH_SERVERLESS",
        Risk.NO,
        "Code of the pipeline asked for something that serverless compute has not: kept rows, RDDs, global views.",
        "A batch that it happened in is planned and not committed, and is replayed with the same rows.",
        "none: leave it out of the code, or run on a job cluster",
        RUN,
    ),
    Explanation(
        "CONFIG_NOT_AVAILABLE",
        Risk.NO,
        "Code of the pipeline set or read a Spark setting that serverless compute does not have.",
        "A batch that it happened in is planned and not committed, and is replayed with the same rows.",
        "none: leave the setting out of the code, or run on a job cluster",
        RUN,
        "swallow the error: the code after it would go on without the setting.",
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
        "A task failed as often as it may; the cause is below it in the message.",
        "The batch is planned and not committed, and is replayed with the same rows.",
        "none: repair the cause, then run",
        RUN,
        patterns=(r"Job aborted due to stage failure", r"TASK_WRITE_FAILED"),
        wrapper=True,
    ),
)
