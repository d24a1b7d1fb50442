"""Whether a replayed batch is harmless, said of each declared sink before the first run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surestart.declaration import SinkDeclaration
from surestart.verdict.sink_audit import audit_sinks
from surestart.words.finding import Severity
from tests.diagnosis.stage_values import APPEND, MERGE, stage

PLAIN = {"identity": "none", "target": "/t"}


@pytest.mark.parametrize(
    ("sink", "code", "severity"),
    [
        (APPEND, "SINK_REPLAY_HARMLESS", Severity.INFO),
        (MERGE, "SINK_REPLAY_HARMLESS", Severity.INFO),
        (SinkDeclaration("delta-builtin", "/t"), "SINK_REPLAY_HARMLESS", Severity.INFO),
        (SinkDeclaration("postgres", "public.t"), "SINK_REPLAY_HARMLESS", Severity.INFO),
        (SinkDeclaration("foreach-batch", "/t"), "SINK_REPLAY_HARMLESS", Severity.INFO),
        (SinkDeclaration("foreach-batch", "/t", identity="none"), "SINK_REPLAY_DOUBLES", Severity.ATTENTION),
        (SinkDeclaration("foreach-batch", "/t", identity="constant"), "SINK_CONSTANT_IDENTITY", Severity.UNSAFE),
        (SinkDeclaration("delta-append", "/t", identity="constant"), "SINK_CONSTANT_IDENTITY", Severity.UNSAFE),
        (SinkDeclaration("jdbc", "/t"), "SINK_REPLAY_DOUBLES", Severity.ATTENTION),
        (SinkDeclaration("foreach", "/t"), "SINK_REPLAY_DOUBLES", Severity.ATTENTION),
        (SinkDeclaration("parquet", "/t"), "SINK_REPLAY_BY_BATCH_ID_ONLY", Severity.ATTENTION),
        (SinkDeclaration("redis", "/t"), "SINK_KIND_UNKNOWN", Severity.CANNOT_TELL),
    ],
    ids=lambda value: f"{value.kind}-{value.identity}" if isinstance(value, SinkDeclaration) else "",
)
def test_each_kind_of_sink_is_judged(sink: SinkDeclaration, code: str, severity: Severity) -> None:
    (finding,) = audit_sinks(stage(sink))

    assert (finding.code, finding.severity) == (code, severity)


def test_two_writes_of_one_batch_under_one_pair_are_found_and_two_steps_are_fine() -> None:
    twice = audit_sinks(stage(sinks=(APPEND, APPEND)))
    steps = audit_sinks(stage(sinks=(APPEND, replace(APPEND, step="late"))))
    tables = audit_sinks(stage(sinks=(APPEND, replace(APPEND, target="/u", path="/u"))))

    assert [finding.code for finding in twice if finding.severity is Severity.UNSAFE] == ["SINK_WRITES_TWICE"]
    assert all(finding.severity is Severity.INFO for finding in (*steps, *tables))


def test_a_function_that_reads_part_of_a_batch_is_refused() -> None:
    codes = [finding.code for finding in audit_sinks(stage(replace(APPEND, reads_whole_batch=False)))]

    assert codes == ["SINK_REPLAY_HARMLESS", "SINK_READS_PART_OF_BATCH"]
