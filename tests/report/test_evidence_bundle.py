"""What is collected for somebody else is read by a program, too: each value as the JSON of `doctor` has it."""

from __future__ import annotations

import json

from surestart.report.evidence_bundle import _json
from surestart.typed import surestart
from surestart.words.finding import Finding, Severity


def test_the_next_step_of_a_collected_finding_is_its_text() -> None:
    finding = Finding("CODE", Severity.UNSAFE, "3 rows", "They go.", surestart("doctor", "raw-ingest", note="now"))
    (collected,) = json.loads(_json((finding,)))
    assert collected["next"] == "surestart doctor raw-ingest  # now"
    assert collected["severity"] == "unsafe"
