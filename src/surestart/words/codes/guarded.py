"""What a stream meets that its owner's code starts: the declaration, the writer, the batch that is written once."""

from __future__ import annotations

from surestart.words.codes.code import Code, raised

CODES: tuple[Code, ...] = (
    raised("StreamNotDeclared", "usage", "No file and no argument declares a stream of that name."),
    raised("WriterWithoutCheckpoint", "usage", "The writer has no checkpoint, so Spark would make one up."),
    raised("CheckpointNotDeclared", "refused", "The writer's checkpoint is not that of a declared stream."),
    raised("SinkNotDeclared", "refused", "The writer writes to another table than the declared one."),
    raised("OnceWrittenTwice", "usage", "A batch writes a second time under one pair, which Delta would drop."),
    raised("OnceNotCarried", "usage", "A statement cannot carry the batch's pair on Spark Connect."),
    raised("OnceWithoutQuery", "usage", "Which query a batch comes from cannot be told."),
    raised("OnceOfAnotherQuery", "refused", "The named checkpoint is not that of the query that runs."),
    raised("OnceWithoutLedger", "usage", "The database has no table in which batches could be noted."),
    raised("OnceWithoutTransaction", "usage", "The connection commits each statement by itself."),
)
