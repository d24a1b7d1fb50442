"""Kafka as a source: records gone, partitions gone, another topic of the same name."""

from __future__ import annotations

from surestart.typed import surestart
from surestart.verdict.explanations.explanation import BACKFILL, DOCTOR, RESET, RUN, Explanation, Risk
from surestart.words.codes.code import STAGE

_LOSS = "KAFKA_DATA_LOSS"
_NEVER = "set failOnDataLoss to false before the doctor has said how many records are concerned."

EXPLANATIONS = (
    Explanation(
        _LOSS,
        Risk.YES,
        "Records that the checkpoint has not read yet are not in Kafka any more, or Kafka says so: "
        "retention, a topic that was made again, or a broker that has not caught up after a change of leader.",
        "This start lost nothing. With failOnDataLoss=false the missing records would be skipped without a number.",
        "none if the doctor finds the records on a second look; else backfill what is kept elsewhere",
        DOCTOR,
        _NEVER,
        (r"Some data may have been lost because they are not available in Kafka any more", r"failOnDataLoss"),
    ),
    Explanation(
        f"{_LOSS}.PARTITION_OFFSET_CHANGED",
        Risk.POSSIBLE,
        "A partition's end is before the checkpoint's position: the topic was "
        "deleted and made again, or the broker that answered is behind for a moment.",
        "A new topic's records below the old position would be skipped in silence once it grows past it.",
        "none if it is gone after some minutes; reset if the topic id differs",
        DOCTOR,
        _NEVER,
        (r"'?s offset was changed from \d+ to \d+",),
    ),
    Explanation(
        f"{_LOSS}.PARTITIONS_DELETED",
        Risk.POSSIBLE,
        "Partitions that the checkpoint knows are not in the topic: "
        "it was made again with fewer, or the subscription changed.",
        "Unread records of those partitions are not reachable through this topic.",
        "none if the subscription was changed by mistake; else reset",
        DOCTOR,
        _NEVER,
        (r"are gone\. (Some data may have been missed|Kafka option)", r"Partitions? .{0,200} are gone"),
    ),
    Explanation(
        f"{_LOSS}.PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT",
        Risk.POSSIBLE,
        "Partitions are not assigned because kafka.group.id is set and another consumer of that group took them.",
        "Their records are not read by this query.",
        "none: take kafka.group.id out, or give the query a group of its own",
        RUN,
        _NEVER,
    ),
    Explanation(
        f"{_LOSS}.START_OFFSET_RESET",
        Risk.YES,
        "The first offset of the batch is not in Kafka any more; the consumer was moved to another one.",
        "The records in between were deleted before they were read.",
        "backfill what is kept elsewhere, then resume after the hole",
        BACKFILL,
        _NEVER,
    ),
    Explanation(
        f"{_LOSS}.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
        Risk.YES,
        "A partition that was added since the last batch no longer "
        "begins at 0: its first records were deleted already.",
        "Those first records were never read.",
        "backfill what is kept elsewhere",
        BACKFILL,
        _NEVER,
    ),
    Explanation(
        f"{_LOSS}.COULD_NOT_READ_OFFSET_RANGE",
        Risk.POSSIBLE,
        "A range that the batch has to read could not be fetched: deleted meanwhile, or a broker is not answering.",
        "The batch was not written.",
        "none: look at the brokers and run again; if the range is gone, backfill",
        DOCTOR,
        _NEVER,
    ),
    Explanation(
        f"{_LOSS}.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
        Risk.POSSIBLE,
        "No first offset could be found for a partition that is new to the query.",
        "Nothing of it was read.",
        "none: run again; if it stays, look at the partition's leader",
        RUN,
        _NEVER,
    ),
    Explanation(
        "KAFKA_MALFORMED_RECORD_TIMESTAMP",
        Risk.POSSIBLE,
        "A record's time is so far off that Spark cannot hold it: its producer counts in micro- or nanoseconds.",
        "The batch was not written, and every start meets the record again; nothing after it is read.",
        "none: mend the producer; the record stays in the way until retention removes it, and is then counted as lost",
        DOCTOR,
        _NEVER,
    ),
    Explanation(
        "KAFKA_NULL_TOPIC_IN_DATA",
        Risk.POSSIBLE,
        "A Kafka sink met a row without a topic, and has no default one.",
        "Rows before it in the batch may have been sent: a Kafka sink sends the whole batch again at the next start.",
        "none: set the `topic` option of the sink, or fill the column, and run again",
        RUN,
        "drop the rows without a topic: nobody would miss them until it is too late.",
    ),
    Explanation(
        "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        Risk.NO,
        "startingOffsets names other partitions than the topic has. It counts on a new checkpoint only.",
        "Nothing was read or written.",
        "none: name every partition of the topic, -2 for earliest",
        RUN,
        "leave startingOffsets out: Spark's default is latest, which skips everything that is there.",
    ),
    Explanation(
        "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        Risk.NO,
        "startingOffsetsByTimestamp names other partitions than the topic has.",
        "Nothing was read or written.",
        "none: name every partition of the topic",
        RUN,
        "leave the start position out: Spark's default is latest.",
    ),
    Explanation(
        "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
        Risk.NO,
        "Partitions were added or removed between the planning of the batch in flight and this start, and "
        "AvailableNow compares the two. Spark before 4.0.2 and 4.1.0 fails at every start (SPARK-53560).",
        "The batch in flight was not written by this start.",
        "none: run once with a processing-time trigger, or a newer Spark",
        surestart("run", STAGE, "--trigger", "10 seconds"),
        "remove the batch from offsets/.",
    ),
    Explanation(
        "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
        Risk.POSSIBLE,
        "The batch in flight ends after what Kafka said at the start of "
        "this run: the topic was made again, or records were taken away.",
        "The batch was not written by this start.",
        "none if it is gone after some minutes; reset if the topic id differs",
        DOCTOR,
        _NEVER,
    ),
    Explanation(
        "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
        Risk.POSSIBLE,
        "The end fixed at the start of this run lies behind Kafka's "
        "present end: a topic made again, or a broker behind.",
        "The batch was not written by this start.",
        "none if it is gone after some minutes; reset if the topic id differs",
        DOCTOR,
        _NEVER,
    ),
    Explanation(
        "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
        Risk.POSSIBLE,
        "Partitions disappeared while the run was going on: the topic was deleted or made again.",
        "The batch was not written by this start.",
        "none if the topic is back with the same id; else reset",
        RESET,
        _NEVER,
    ),
    Explanation(
        "UNKNOWN_TOPIC_OR_PARTITION",
        Risk.POSSIBLE,
        "The broker does not know the topic: deleted, not made yet, renamed, or another cluster.",
        "Nothing was read. A consumer that asks again may make the broker create an empty one of that name.",
        "none: check topic and bootstrap first",
        DOCTOR,
        "create the topic by hand before it is known where the old one went.",
        (r"UnknownTopicOrPartitionException", r"UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    Explanation(
        "KAFKA_TIMEOUT",
        Risk.NO,
        "The brokers did not answer in time.",
        "The batch was not written; it is in flight or not yet planned, and is run again.",
        "none: look at the brokers and the network, then run again",
        RUN,
        _NEVER,
        (
            r"org\.apache\.kafka\.common\.errors\.TimeoutException",
            r"Timeout of \d+ms expired before the position for partition",
            r"Timed out waiting for a node assignment",
        ),
    ),
    Explanation(
        "KAFKA_AUTHENTICATION",
        Risk.NO,
        "The brokers refused the credentials, or the right to read the topic is missing.",
        "Nothing was read. Retention goes on deleting unread records meanwhile.",
        "none: renew the credentials, then run again",
        DOCTOR,
        _NEVER,
        (r"SaslAuthenticationException", r"TopicAuthorizationException", r"GroupAuthorizationException"),
    ),
)
