"""What a start meets: the gate, the owner, the history, Spark and Java."""

from __future__ import annotations

from surestart.words.codes.code import HISTORY, RUN, STATUS, Code, found, raised

CODES: tuple[Code, ...] = (
    raised("UsageError", "usage", "A call cannot be meant as it was typed; its own text says which word."),
    raised("Refused", "refused", "A start or a step would lose or double rows; its own text says which."),
    raised("CannotTell", "cannot tell", "Evidence is missing or out of reach; its own text says which."),
    raised("StoppedHalfway", "stopped half-way", "The work stands half-way: the same command goes on.", HISTORY),
    raised("StageFailed", "stopped half-way", "A query ended with an error; its batch is replayed."),
    raised("QueryStopped", "stopped half-way", "A query was ended from outside, without an error.", STATUS),
    raised("Unexpected", "unexpected", "A fault of surestart itself: no verdict."),
    raised("UnexpectedError", "unexpected", "A fault of surestart itself: no verdict."),
    raised("SparkError", "cannot tell", "Spark failed or refused what it was asked, outside of a stream."),
    raised("MemoryUsedUp", "cannot tell", "The memory of the process was not enough, so nothing was decided."),
    raised("ModuleNotInstalled", "usage", "A Python module that the call needs is not installed."),
    raised("ModuleNotInWorker", "stopped half-way", "The Python that writes the batches lacks a module.", RUN),
    raised("QUERY_ACTIVE", "refused", "The query runs already in this Spark application.", STATUS),
    raised("OWNER_RUNNING", "refused", "Another run of the query is alive.", HISTORY),
    raised("OWNER_PAUSED", "cannot tell", "The process that owns the query stands still, and may go on.", HISTORY),
    raised("OWNER_UNKNOWN", "cannot tell", "Whether the last owner of the query is alive cannot be told.", HISTORY),
    raised("CLAIM_NOT_TAKEN", "cannot tell", "The file that says who owns the query cannot be written."),
    raised("CLAIM_UNREADABLE", "cannot tell", "The file that says who owns the query is another user's."),
    raised("RunReplaced", "stopped half-way", "A driver woke up to find that another run has its query.", HISTORY),
    raised("HistoryOutOfReach", "cannot tell", "The run history cannot be read from here.", HISTORY),
    raised("HistoryNotWritten", "stopped half-way", "The stage ran, and its history was not written.", HISTORY),
    raised("CheckpointPathRefused", "usage", "The checkpoint's path is not fixed, or not its own.", STATUS),
    raised("OneSessionForAll", "usage", "Several streams need a Spark Connect session each.", RUN),
    raised("TwoSparks", "usage", "pyspark and databricks-connect are in one environment."),
    found("SPARK_UNKNOWN", "attention, cannot tell", "A version of Spark would start it that is not known here."),
    raised("SparkUnknown", "usage", "The version that was named is none of Spark or of Databricks Runtime."),
    raised("SparkLineUnknown", "usage", "The installed Spark is older or newer than what is known here."),
    raised("SparkNotInstalled", "usage, cannot tell", "pyspark is not installed."),
    raised("JavaNotFound", "usage", "There is no Java 17 or 21."),
    raised("JarsNotResolved", "cannot tell", "Jars that Spark needs could not be fetched."),
    raised("JarNotAsLocked", "refused", "A jar is not the one that the lock names, by its SHA-256."),
)
