"""A sink that keeps no record, or none that this program could read: what its kind says, and what its owner does.

console, noop             nothing is kept: nothing can be lost or doubled
memory                    kept by the driver alone; Spark resumes it in output mode complete only
declared keys             whatever comes again takes the place of what is there
a declared ledger         a batch in flight is recognised; a rewound checkpoint would be dropped, unseen from here
nothing declared          cannot tell
"""

from __future__ import annotations

from surestart.verdict import acceptance_findings as say
from surestart.verdict import writer_findings as writers
from surestart.verdict.acceptance_case import SinkAcceptance, SinkCase, batches_text
from surestart.words.finding import Acceptance

_KEEPS_NOTHING = {
    "console": "prints its rows and keeps none: nothing is lost or doubled",
    "noop": "throws its rows away: nothing is lost or doubled",
}
_UPSERTED = ("jdbc", "foreach", "kafka", "hudi", "other")


def judge_unrecorded(case: SinkCase) -> SinkAcceptance:
    batch, sink, commands = case.next.batch, case.sink, case.commands
    if sink.kind in _KEEPS_NOTHING:
        return case.answer(Acceptance.ACCEPTS, _KEEPS_NOTHING[sink.kind])
    if sink.kind == "memory":
        return _judge_memory(case)
    if sink.keys and sink.kind in _UPSERTED:
        return _judge_keyed(case)
    if case.next.replayed and sink.ledger:
        detail = f"keeps a row for each batch in {sink.ledger}, as declared: a replay of batch {batch} is recognised"
        finding = writers.ledger_declared(sink, batch, commands)
        return case.answer(Acceptance.ACCEPTS, detail, finding)
    if case.next.replayed:
        finding = say.unrecognisable_replay(sink, batch, commands)
        return case.answer(Acceptance.CANNOT_TELL, f"cannot tell whether it holds batch {batch} already", finding)
    if batch == 0:
        return _judge_first(case)
    finding = say.sink_not_asked(sink, batch, commands)
    return case.answer(
        Acceptance.CANNOT_TELL, f"keeps no record that tells whether {batches_text(0, batch - 1)} is in it", finding
    )


def _judge_memory(case: SinkCase) -> SinkAcceptance:
    kept = "is a table of the driver's memory, which went with the last driver"
    if case.declaration.output_mode == "complete" or (case.next.batch == 0 and not case.next.replayed):
        return case.answer(Acceptance.ACCEPTS, f"{kept} and is filled anew")
    finding = writers.memory_cannot_resume(case.sink, case.next.batch, case.commands)
    return case.answer(Acceptance.CANNOT_TELL, f"{kept}: Spark resumes it in output mode complete only", finding)


def _judge_keyed(case: SinkCase) -> SinkAcceptance:
    batch, sink = case.next.batch, case.sink
    if case.next.replayed or batch == 0:
        finding = writers.replay_merged(sink, batch, sink.keys, case.commands)
        return case.answer(
            Acceptance.ACCEPTS, "is written by key, as declared: what comes again takes its own place", finding
        )
    return case.answer(Acceptance.ACCEPTS, f"is written by {', '.join(sink.keys)}, as declared: next is {batch}")


def _judge_first(case: SinkCase) -> SinkAcceptance:
    sink, commands = case.sink, case.commands
    if sink.new:
        return case.answer(Acceptance.ACCEPTS, "was never written by this query, as declared")
    if case.evidence.asked and (not case.evidence.exists or case.evidence.has_rows is False):
        return case.answer(Acceptance.ACCEPTS, "holds no row yet")
    finding = say.fresh_cannot_tell(sink, {}, [], case.evidence, commands)
    return case.answer(Acceptance.CANNOT_TELL, "keeps no record of batches; rows in it may come again", finding)
