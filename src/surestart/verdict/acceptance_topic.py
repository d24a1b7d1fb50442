"""A Kafka topic as a sink: it drops no batch that it has, so whatever is sent again is there twice.

    at rest      no record is younger than the newest commit     accepted: what comes next was never sent
                 records are younger                             of others, or of batches that the checkpoint forgot
    in flight    no record came since the batch was planned      accepted: the replay is the first
                 records came since                              DUPLICATES those: where they stand is said
    first start  the topic is empty                              accepted

Times decide only where there is one clock, or where two are seen to agree: the newest record came while the newest
committed batch ran. A clock that is behind must not make a batch look as if it was never sent.
"""

from __future__ import annotations

from surestart.facts.evidence.sink_evidence import TopicRecords
from surestart.verdict import acceptance_findings as say
from surestart.verdict.acceptance_case import SinkAcceptance, SinkCase, batches_text
from surestart.words.amounts import time_text
from surestart.words.finding import Acceptance, Finding, Severity


def judge_topic(case: SinkCase, records: TopicRecords) -> SinkAcceptance:
    if case.next.replayed:
        return _judge_in_flight(case, records)
    return _judge_at_rest(case, records) if case.next.batch > 0 else _judge_first(case, records)


def _judge_in_flight(case: SinkCase, records: TopicRecords) -> SinkAcceptance:
    batch = case.next.batch
    if case.next.planned_at.get(batch) is None:
        return _open(case, say.unrecognisable_replay(case.sink, batch, case.commands))
    if records.new:
        holds = _holds(case, records, f"batch {batch} is in flight, and since it was planned")
        answer = Acceptance.CANNOT_TELL if case.sink.shared else Acceptance.DUPLICATES
        return case.answer(answer, f"may hold batch {batch} already, at {records.describe()}", holds)
    if _clocks_agree(case, records):
        return case.answer(Acceptance.ACCEPTS, f"has no record since batch {batch} was planned: it is sent once")
    return _open(case, say.unrecognisable_replay(case.sink, batch, case.commands))


def _judge_at_rest(case: SinkCase, records: TopicRecords) -> SinkAcceptance:
    batch, committed = case.next.batch, case.next.committed_by
    if committed is None:
        return _open(case, say.sink_not_asked(case.sink, batch, case.commands))
    if not _younger(records, committed) and _clocks_agree(case, records):
        detail = f"has no record since batch {batch - 1} was committed: batch {batch} was never sent"
        return case.answer(Acceptance.ACCEPTS, detail)
    if not _younger(records, committed):
        return _open(case, say.sink_not_asked(case.sink, batch, case.commands))
    holds = _holds(case, records, f"the checkpoint's next batch is {batch}, and since batch {batch - 1} was committed")
    answer = Acceptance.DUPLICATES if case.sink.shared is False else Acceptance.CANNOT_TELL
    return case.answer(answer, f"has records since {batches_text(0, batch - 1)} was committed", holds)


def _judge_first(case: SinkCase, records: TopicRecords) -> SinkAcceptance:
    if records.newest is None:
        return case.answer(Acceptance.ACCEPTS, "holds no record")
    if case.sink.new:
        return case.answer(Acceptance.ACCEPTS, "holds records of others only, as declared")
    if case.sink.shared is False and not case.explicit_start:
        finding = say.output_not_cleared(case.sink, "", -1, case.commands)
        return case.answer(Acceptance.DUPLICATES, "holds records that are read and sent again", finding)
    finding = say.fresh_cannot_tell(case.sink, {}, case.explicit_start, case.evidence, case.commands)
    return case.answer(Acceptance.CANNOT_TELL, "holds records, and whether they come again cannot be told", finding)


def _younger(records: TopicRecords, committed: int) -> bool:
    # A storage that keeps whole seconds gives times that are up to a second too early.
    return records.newest is not None and records.newest > committed + (999 if committed % 1000 == 0 else 0)


def _clocks_agree(case: SinkCase, records: TopicRecords) -> bool:
    """The newest record came while the newest committed batch ran; on one machine there is one clock."""
    if records.one_clock:
        return True
    done = case.next.batch - 1
    began, committed = case.next.planned_at.get(done), case.next.committed_by
    if records.newest is None or began is None or committed is None:
        return False
    return began <= records.newest and not _younger(records, committed)


def _open(case: SinkCase, finding: Finding) -> SinkAcceptance:
    detail = f"keeps no batch ids, and no time tells whether batch {case.next.batch} was sent"
    return case.answer(Acceptance.CANNOT_TELL, detail, finding)


def _holds(case: SinkCase, records: TopicRecords, since: str) -> Finding:
    sure = case.sink.shared is False or (case.next.replayed and case.sink.shared is None)
    others = "" if sure else " Others may have sent them: whoever knows may say --alone or --shared."
    return Finding(
        "TOPIC_HOLDS_LATER_RECORDS",
        Severity.UNSAFE if sure else Severity.CANNOT_TELL,
        f"{since} ({time_text(records.since)}), up to {records.count:,} "
        f"records came to {case.sink.target}: {records.describe()}",
        "Kafka drops no batch that it has: those that this query sent will be there twice after the start." + others,
        case.commands.plan("resume" if case.next.replayed else "replay"),
        "start it where whoever reads the topic counts each record as new. Keyed readers, and a topic that is "
        "compacted, get the same value again.",
    )
