"""What `surestart.once` leaves in a table names its query by the id alone: it may be any stream's, this one's too."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.cli.stage_answers import ask_stages
from surestart.declaration import StageDeclaration
from surestart.facts.delta import Commit, CommitMark, Transaction
from surestart.facts.evidence.sink_evidence import LEDGER, SinkEvidence
from surestart.sinks.delta.transaction import commit_note
from surestart.streams.adopt.adopt import adopt
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import declare_stream, parse_project_text
from surestart.verdict.acceptance import diagnose_acceptance
from surestart.verdict.acceptance_case import NextBatch
from surestart.words.finding import Acceptance, Verdict
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.diagnosis.stage_values import NOW, QUERY_ID, write_checkpoint

OTHER_ID = str(uuid.UUID(int=7))
SINKS = ('{ append = "TABLE" }', '{ delta = "TABLE" }', '{ append = "TABLE", shared = true }')


def write_batch(table: Path, version: int, batch: int, query_id: str, marked: bool) -> None:
    note = {"userMetadata": commit_note("", query_id, batch, "", "")} if marked else {}
    said = info("WRITE", operationParameters={"mode": "Append"}, **{**note, "timestamp": NOW + version})
    begin = create()[1:] if version == 0 else []
    write_commit(table, version, said, *begin, txn(query_id, batch, NOW + version), add(f"part-{version}.parquet"))


def lay_out(root: Path, *, marked: bool) -> tuple[Path, Path]:
    """A checkpoint at batch 4, and the table that its function has written from its first commit on."""
    for batch in range(5):
        write_batch(root / "table", batch, batch, QUERY_ID, marked)
    topic = '{"t":{"0":5}}'
    return write_checkpoint(root / "chk", planned=4, committed=4, offset=topic), root / "table"


def verdict_of(root: Path, sink: str) -> tuple[Verdict, set[str]]:
    said = f'[stream.orders]\ncheckpoint = "{root / "chk"}"\nsink = {sink.replace("TABLE", str(root / "table"))}\n'
    project = parse_project_text(root / "surestart.toml", said)
    stages = pipeline_of_streams(project.streams).build_stages({})
    (found,) = ask_stages(environment_of_streams(project), stages)
    return found.verdict, {finding.code for finding in found.findings}


@pytest.mark.parametrize("marked", [True, False], ids=["once", "pair"])
@pytest.mark.parametrize("sink", SINKS)
def test_a_deleted_checkpoint_is_no_first_start_over_its_own_rows(tmp_path: Path, sink: str, marked: bool) -> None:
    checkpoint, _ = lay_out(tmp_path, marked=marked)
    assert verdict_of(tmp_path, sink)[0] in (Verdict.SAFE, Verdict.ATTENTION)
    shutil.rmtree(checkpoint)

    assert verdict_of(tmp_path, sink)[0] is Verdict.CANNOT_TELL


def test_a_lost_id_is_found_by_the_times_of_its_batches(tmp_path: Path) -> None:
    checkpoint, _ = lay_out(tmp_path, marked=True)
    (checkpoint / "metadata").unlink()
    (checkpoint / "commits/4").unlink()

    assert verdict_of(tmp_path, SINKS[1])[0] in (Verdict.UNSAFE, Verdict.CANNOT_TELL)


@pytest.mark.parametrize("marked", [True, False], ids=["once", "pair"])
def test_another_id_that_has_written_since_is_not_passed_over(tmp_path: Path, marked: bool) -> None:
    """The checkpoint was begun anew, ran on, and the older one was put back."""
    _, table = lay_out(tmp_path, marked=marked)
    for batch in range(3):
        write_batch(table, 5 + batch, batch, OTHER_ID, marked)

    verdict, codes = verdict_of(tmp_path, SINKS[0])
    assert (verdict, "SINK_OTHER_WRITER" in codes) == (Verdict.CANNOT_TELL, True)


def test_status_says_what_wrote_where_no_stage_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(tmp_path, marked=True)
    path = tmp_path / "surestart.toml"
    path.write_text(
        f'[stream.orders]\ncheckpoint = "{tmp_path / "chk"}"\nsink = {{ delta = "{tmp_path / "table"}" }}\n'
    )

    main(["status", "--streams", str(path)])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("table ")]
    assert row.split()[-1] == "WRITE"


@pytest.mark.parametrize("shared", [True, None])
def test_a_ledger_that_names_no_query_is_no_proof_of_other_queries(shared: bool | None) -> None:
    """`surestart.once_in` writes a ledger row by the query id alone; the checkpoint of that query was deleted."""
    said = {"postgres": "public.orders", **({"shared": True} if shared else {})}
    stream = declare_stream("orders", "/chk/orders", sink=said)
    mark = CommitMark("", QUERY_ID, 4, "")
    ledger = SinkEvidence(
        source=LEDGER,
        transactions={QUERY_ID: Transaction(4, NOW)},
        commits=(Commit(0, NOW, LEDGER, mark=mark),),
        has_rows=True,
    )
    declaration = StageDeclaration("orders", "orders", stream.checkpoint, (), sinks=stream.sinks, foreign=True)
    (answer,) = diagnose_acceptance(declaration, NextBatch(0, None), {"public.orders": ledger}, NOW)

    assert answer.acceptance is Acceptance.CANNOT_TELL


@pytest.mark.parametrize("marked", [True, False], ids=["once", "pair"])
def test_a_function_may_write_elsewhere_until_somebody_has_read_it(tmp_path: Path, marked: bool) -> None:
    """Its table recognises the batch in flight. Another one, without the pair, would get it twice, and nothing that
    could be read says that there is none."""
    checkpoint, table = lay_out(tmp_path, marked=marked)
    (told,) = (one.told for one in adopt([str(tmp_path)]).adopted)
    assert ('other_sinks = "unknown"' in told) is not marked
    project = parse_project_text(tmp_path / "surestart.toml", told)
    (stream,) = project.streams
    assert (stream.open_sinks, [sink.path for sink in stream.sinks]) == (not marked, [str(table)])

    def found() -> tuple[Verdict, set[str]]:
        stages = pipeline_of_streams(project.streams).build_stages({})
        (diagnosis,) = ask_stages(environment_of_streams(project), stages)
        return diagnosis.verdict, {one.code for one in diagnosis.findings}

    assert "SINKS_NOT_ALL_KNOWN" not in found()[1]
    at_rest = found()[0]
    (checkpoint / "commits" / "4").unlink()
    assert ("SINKS_NOT_ALL_KNOWN" in found()[1]) is not marked
    assert found()[0] is (at_rest if marked else Verdict.CANNOT_TELL)
    # Somebody has read the function.
    project = parse_project_text(tmp_path / "surestart.toml", told.replace('"unknown"', '"none"'))
    assert found()[0] is at_rest
