"""Law 9: ignorance never reassures. Whatever answer fails, the verdict stays, is worse, or is "cannot tell". And nobody
is told of harm because a question was refused."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.stage_answers import ask_stages
from surestart.environment import Environment, environment_from_settings
from surestart.facts.delta import CommitMark
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.claim_file import take_claim
from surestart.history.log_runs import FOLD, SUMMARY, fold_log_runs
from surestart.history.run_record import ENDED, FINISHED, RunRecord
from surestart.history.run_table import NOTE
from surestart.journal.unfinished import refuse_unfinished
from surestart.runs.judge_start import judge_stage, read_history_or_tell, refuse_or_accept
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from surestart.words.next_commands import Commands
from tests.checkpoint.checkpoint_maker import QUERY_ID, add_crcs, delta, files, make_checkpoint, make_state
from tests.checkpoint.make_rocksdb import ARCHIVE as ROCKSDB
from tests.checkpoint.make_rocksdb import cut_rows, delete_rows
from tests.deltalog.handmade import SCHEMA, add, create, info, remove, txn, write_commit
from tests.diagnosis.answers import RANK, Answers, Ask, ask_with, find_cases, judged, listening
from tests.diagnosis.environment_by_hand import IDS, checkpoint, lay_out, table, write_batch
from tests.diagnosis.stage_values import DAY, FORMER_ID, NOW
from tests.diagnosis.test_file_sink import make_folder
from tests.diagnosis.test_inspect import make_table
from tests.fleet.test_iceberg_sink import batch as iceberg_batch
from tests.fleet.test_iceberg_sink import write_table as write_iceberg
from tests.remedies.journal_by_hand import write_journal


def drop(root: Path, stage: str, *paths: str) -> None:
    for path in paths:
        (checkpoint(root, stage) / path).unlink()


def rewound(root: Path) -> None:
    drop(root, "deserialize", "offsets/4", "commits/4", "offsets/3", "commits/3")


def in_flight(root: Path) -> None:
    drop(root, "deserialize", "commits/4")


def restored(root: Path) -> None:
    in_flight(root)
    write_commit(table(root, "sensor_quarantine"), 6, info("RESTORE", operationParameters={"version": "3"}))


def deleted(root: Path) -> None:
    shutil.rmtree(checkpoint(root, "deserialize"))


def renewed(root: Path) -> None:
    in_flight(root)
    drop(root, "deserialize", "metadata")


def behind(root: Path) -> None:
    for name in ("sensor_quarantine", "sensor_readings_deserialized"):
        for version in (4, 5):
            (table(root, name) / f"_delta_log/{version:020d}.json").unlink()


def superseded(root: Path) -> None:
    mark = CommitMark("sensor-deserialize", FORMER_ID, 9, "deserialize")
    note = info("WRITE", userMetadata=mark.as_json())
    write_commit(table(root, "sensor_quarantine"), 6, note, txn(FORMER_ID, 9), add("x.parquet"))


def source_rewritten(root: Path) -> None:
    write_commit(table(root, "sensor_raw"), 6, info("UPDATE"), remove("part-1.parquet"), add("y.parquet"))


def source_schema_changed(root: Path) -> None:
    """A column is gone after version 6: what the columns were before, only version 5 tells."""
    narrow = json.dumps({"type": "struct", "fields": json.loads(SCHEMA)["fields"][:1]})
    (metadata,) = (action for action in create(table_id="id-sensor_raw", schema=narrow) if "metaData" in action)
    write_commit(table(root, "sensor_raw"), 6, info("WRITE"), metadata, add("n.parquet"))


def source_replaced(root: Path) -> None:
    shutil.rmtree(table(root, "sensor_raw"))
    write_commit(table(root, "sensor_raw"), 0, *create(table_id="another"))
    for batch in range(8):
        write_batch(root, "sensor_raw", batch, IDS["raw-ingest"])


def torn(root: Path) -> None:
    (checkpoint(root, "deserialize") / "commits/4").write_bytes(b"")


def hole(root: Path) -> None:
    drop(root, "deserialize", "offsets/3")


def forgets(root: Path) -> None:
    """The table forgets a writer after an hour; the batch in flight is in it, and was written a day ago."""
    in_flight(root)
    folder = table(root, "sensor_quarantine")
    shutil.rmtree(folder)
    write_commit(folder, 0, *create({"delta.setTransactionRetentionDuration": "interval 1 hours"}, "id"))
    for batch in range(5):
        mark = CommitMark("sensor-deserialize", IDS["deserialize"], batch, "deserialize")
        write_commit(
            folder,
            batch + 1,
            info("WRITE", userMetadata=mark.as_json()),
            txn(IDS["deserialize"], batch, NOW - DAY),
            add(f"part-{batch}.parquet"),
        )


def runs(root: Path, stage: str = "deserialize", query_id: str = "", **more: Any) -> None:
    query = f"sensor-{stage}"
    record = RunRecord(
        "run-1",
        ENDED,
        environment="local",
        stage=stage,
        query=query,
        checkpoint=str(checkpoint(root, stage)),
        place=checkpoint_place(str(checkpoint(root, stage))),
        query_id=query_id or IDS[stage],
        started_at=NOW - DAY,
        ended_at=NOW - DAY + 1,
        outcome=FINISHED,
        first_batch=0,
        last_batch=4,
        **more,
    )
    note = info("WRITE", userMetadata=json.dumps({NOTE: [record.as_note()]}))
    write_commit(root / "tables/surestart_runs", 0, note, *create()[1:])


def deleted_with_its_output(root: Path) -> None:
    runs(root)
    deleted(root)
    for name in ("sensor_quarantine", "sensor_readings_deserialized"):
        shutil.rmtree(table(root, name))
        write_commit(table(root, name), 0, *create(table_id="new"))


def swapped(root: Path) -> None:
    runs(root, query_id=FORMER_ID)
    write_commit(table(root, "sensor_quarantine"), 6, info("WRITE"), txn(FORMER_ID, 3), add("z.parquet"))


def swapped_of_late(root: Path) -> None:
    """A long history, whose summary knows nothing of the last run."""
    swapped(root)
    log = root / "tables/surestart_runs"
    last = (log / "_delta_log" / f"{0:020d}.json").read_bytes()
    for version in range(1, FOLD + 1):
        write_commit(log, version, info("WRITE"))
    shutil.copy(log / "_delta_log" / f"{1:020d}.json", log / "_delta_log" / f"{0:020d}.json")
    fold_log_runs(str(log))
    assert (log / SUMMARY).exists()
    (log / "_delta_log" / f"{FOLD + 1:020d}.json").write_bytes(last)


def died(root: Path) -> None:
    """The run that was killed had another id, and its batches are in the table: only its claim says so."""
    record = RunRecord(
        "run-1",
        environment="local",
        stage="deserialize",
        query="sensor-deserialize",
        checkpoint=str(checkpoint(root, "deserialize")),
        place=checkpoint_place(str(checkpoint(root, "deserialize"))),
        query_id=FORMER_ID,
        started_at=NOW - DAY,
        last_batch=3,
    )
    write_commit(table(root, "sensor_quarantine"), 6, info("WRITE"), txn(FORMER_ID, 3), add("z.parquet"))
    claim = take_claim(root / "claims/sensor-deserialize.lock")
    assert claim is not None
    claim.write(record)
    claim.release(clear=False)


def remedy_begun(root: Path) -> None:
    write_journal(local(root), "d" * 64, "begun", query="sensor-deserialize")


def landed_file_gone(root: Path) -> None:
    """The batch in flight reads three files, and the last of them is gone."""
    drop(root, "raw-ingest", "commits/4")
    for batch in range(4):
        before = checkpoint(root, "raw-ingest") / f"offsets/{batch}"
        before.write_text(before.read_text().replace('"logOffset": 4', f'"logOffset": {batch}'))
    listed = checkpoint(root, "raw-ingest") / "sources/0/4"
    lines = listed.read_text().splitlines()
    for number in range(2):
        path = root / f"landing/more-{number}.jsonl"
        path.write_text("{}\n")
        lines.append(json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": 4}))
    listed.write_text("\n".join(lines))
    (root / "landing/more-1.jsonl").unlink()


def landing_moved(root: Path) -> None:
    for path in (checkpoint(root, "raw-ingest") / "sources/0").iterdir():
        path.write_text(path.read_text().replace("/landing/", "/former/"))


def checksum_stale(root: Path) -> None:
    for stage in ("raw-ingest", "deserialize"):
        add_crcs(checkpoint(root, stage))
        newest = checkpoint(root, stage) / "commits/4"
        newest.write_text(newest.read_text() + " ")


WORLDS: dict[str, Callable[[Path], None]] = {
    "healthy": lambda root: None,
    "history": runs,
    "rewound": rewound,
    "in flight": in_flight,
    "restored": restored,
    "deleted": deleted,
    "renewed": renewed,
    "behind": behind,
    "superseded": superseded,
    "source rewritten": source_rewritten,
    "source replaced": source_replaced,
    "source schema changed": source_schema_changed,
    "torn": torn,
    "hole": hole,
    "forgets": forgets,
    "deleted with its output": deleted_with_its_output,
    "swapped": swapped,
    "swapped of late": swapped_of_late,
    "died": died,
    "remedy begun": remedy_begun,
    "a landed file gone": landed_file_gone,
    "landing folder moved": landing_moved,
    "checksum stale": checksum_stale,
}
RAW = ("healthy", "a landed file gone", "landing folder moved", "checksum stale")


def local(root: Path) -> Environment:
    return environment_from_settings("local", "sensor", {"root": str(root)}, environ={})


def doctor(root: Path, name: str) -> Ask:
    stage = next(one for one in build_stages({}) if one.name == name)

    def ask(answers: Answers) -> Verdict:
        with listening(answers, root):
            return judged(lambda: ask_stages(local(root), [stage])[0].verdict)

    return ask


def gate(root: Path, name: str) -> Ask:
    """What open_gate asks before Spark opens anything; the session that it has reads nothing of files with a path."""
    stage = next(one for one in build_stages({}) if one.name == name)
    environment = local(root)
    query, folder = f"sensor-{name}", str(checkpoint(root, name))
    record = RunRecord("run-2", environment="local", query=query, stage=name, place=checkpoint_place(folder))
    commands = Commands(name, "local")

    def start() -> Verdict:
        refuse_unfinished(environment, query, None)
        former = read_history_or_tell(environment, None, commands)  # type: ignore[arg-type]
        diagnosed = judge_stage(environment, stage, former, commands)
        refuse_or_accept(diagnosed, record, (), commands)
        return Verdict.SAFE

    def ask(answers: Answers) -> Verdict:
        with listening(answers, root):
            return judged(start)

    return ask


# One checkpoint, looked at by `inspect`: what the stages of the sensor pipeline have not, state and other sinks.
def rocksdb(root: Path, damage: Callable[[Path], object] = lambda checkpoint: None, kind: str = "log") -> str:
    with zipfile.ZipFile(ROCKSDB) as archive:
        archive.extractall(root, [name for name in archive.namelist() if name.startswith(f"{kind}/")])
    damage(root / kind)
    make_table(root / "table", *range(12), query_id=json.loads((root / kind / "metadata").read_text())["id"])
    return f"{root / kind} {root / 'table'}"


def hdfs(root: Path, lacking: int = 0) -> str:
    make_state(make_checkpoint(root / "ck"), [version for version in range(1, 6) if version != lacking])
    return f"{root / 'ck'} {make_table(root / 'table', *range(5))}"


def without_partition(root: Path, line: str, name: str) -> str:
    with zipfile.ZipFile(CHECKPOINTS) as archive:
        archive.extractall(root, [one for one in archive.namelist() if one.startswith(f"{line}/{name}/")])
    place = root / line / name
    shutil.rmtree(place / "state/0/1")
    batches = [int(path.name) for path in (place / "commits").glob("[0-9]*")]
    query_id = json.loads((place / "metadata").read_text())["id"]
    return f"{place} {make_table(root / 'table', *sorted(batches), query_id=query_id)}"


def table_at(root: Path, batches: int, planned: int = 5, committed: int = 5) -> str:
    make_checkpoint(root / "ck", planned=range(planned), committed=range(committed), source=delta)
    return f"{root / 'ck'} {make_table(root / 'table', *range(batches))}"


def folded(root: Path, batches: int, planned: int = 5) -> str:
    """The older commits of the table are in a checkpoint of its log, and gone."""
    place = table_at(root, batches, planned, planned)
    log = root / "table/_delta_log"
    state = [*create()[1:], txn(QUERY_ID, batches - 2)]
    name = f"{batches - 1:020d}.checkpoint.12345678-0000-4000-8000-000000000000.json"
    (log / name).write_text("".join(json.dumps(action) + "\n" for action in state))
    (log / "_last_checkpoint").write_text(json.dumps({"version": batches - 1, "size": 3}))
    for version in range(batches):
        (log / f"{version:020d}.json").unlink()
    return place


def parquet(root: Path, last: int, planned: int = 5, committed: int = 5) -> str:
    make_checkpoint(root / "ck", planned=range(planned), committed=range(committed), source=files)
    return f"{root / 'ck'} parquet:{make_folder(root / 'out', last)}"


def parquet_without(root: Path, name: str) -> str:
    place = parquet(root, 4)
    (root / "out/_spark_metadata" / name).unlink()
    return place


def iceberg(root: Path, last: int, planned: int = 5, committed: int = 5, catalog: bool = False) -> str:
    """A table of a folder or of a catalog, whose older metadata files lie beside the newest."""
    make_checkpoint(root / "ck", planned=range(planned), committed=range(committed), source=files)
    for version in range(1, last + 2):
        name = f"{version:05d}-{UUID(int=version)}.metadata.json" if catalog else f"v{version}.metadata.json"
        write_iceberg(root / "t", [iceberg_batch(one, one - 1) for one in range(1, version + 1)], name)
    if not catalog:
        (root / "t/metadata/version-hint.text").write_text(str(last + 1))
    return f"{root / 'ck'} iceberg:{root / 't'}"


PLACES: dict[str, Callable[[Path], str]] = {
    "table": lambda root: table_at(root, 5),
    "table ahead": lambda root: table_at(root, 9),
    "table one ahead": lambda root: table_at(root, 6),
    "table behind": lambda root: table_at(root, 2),
    "table, in flight": lambda root: table_at(root, 5, 5, 4),
    "table, begins anew": lambda root: table_at(root, 5, 0, 0),
    "folded": lambda root: folded(root, 5),
    "folded, ahead": lambda root: folded(root, 9),
    "folded, behind": lambda root: folded(root, 3),
    "state": hdfs,
    "state lacks a version": lambda root: hdfs(root, 3),
    "state lacks a partition": lambda root: without_partition(root, "4.0", "deduplication"),
    "older state lacks a partition": lambda root: without_partition(root, "3.5", "deduplication"),
    "RocksDB": rocksdb,
    "RocksDB without rows": lambda root: rocksdb(root, delete_rows),
    "RocksDB cut": lambda root: rocksdb(root, cut_rows, "v2"),
    "files": lambda root: parquet(root, 4),
    "files ahead": lambda root: parquet(root, 9),
    "files behind": lambda root: parquet(root, 2),
    "files, in flight": lambda root: parquet(root, 4, 5, 4),
    "files over old ones": lambda root: parquet(root, 12, 0, 0),
    "files with a hole": lambda root: parquet_without(root, "2"),
    "iceberg": lambda root: iceberg(root, 4),
    "iceberg ahead": lambda root: iceberg(root, 9),
    "iceberg of a catalog": lambda root: iceberg(root, 4, catalog=True),
    "iceberg of a catalog, ahead": lambda root: iceberg(root, 9, catalog=True),
    "iceberg one ahead": lambda root: iceberg(root, 5),
    "iceberg behind": lambda root: iceberg(root, 2),
    "iceberg, in flight": lambda root: iceberg(root, 4, 5, 4),
    "iceberg, begins anew": lambda root: iceberg(root, 4, 0, 0),
    "foreach": lambda root: f"{make_checkpoint(root / 'ck')} foreach:http://sink",
}


def inspect(place: str) -> Ask:
    folder, sink = place.split(" ")

    def ask(answers: Answers) -> Verdict:
        with listening(answers, Path(folder).parent):
            return judged(lambda: inspect_checkpoint(folder, sinks=(sink,), now=NOW).verdict)

    return ask


REFUSED = ("error", "time-out", "refused")


def find_broken(ask: Ask, few: int | None, kinds: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """How many cases were tried, and each that made the verdict safer, or ended in an error of ours; and each that was
    refused and made a healthy stream unsafe.

    few: that many cases, always the same ones.
    kinds: only answers of these kinds fail."""
    base, cases = find_cases(ask)
    cases = [case for case in cases if not kinds or case.question.kind in kinds]
    if few is not None and len(cases) > few:
        cases = random.Random(len(cases)).sample(cases, few)
    broken = []
    for case in cases:
        told = f"{case.question.kind} {case.question.about} ({case.question.nth}): {case.fault}: {base} -> "
        try:
            found = ask_with(ask, case)
        except Exception as error:  # noqa: BLE001  Which error it is does not matter: none may come out.
            broken.append(f"{told}{type(error).__name__}: {error}")
            continue
        safer = RANK[found] < RANK[base] and found is not Verdict.CANNOT_TELL
        # What was refused shows no harm to a healthy stream. An empty or a cut-off answer may look like damage.
        healthy = RANK[base] <= RANK[Verdict.ATTENTION]
        alarmed = found is Verdict.UNSAFE and healthy and case.fault in REFUSED
        if safer or alarmed:
            broken.append(f"{told}{found}")
    return len(cases), broken


CHECKPOINTS = ROCKSDB.with_name("checkpoints.zip")
FEW = pytest.param(60, id="few")
ALL = pytest.param(None, id="all", marks=pytest.mark.chaos)


@pytest.mark.parametrize("few", [FEW, ALL])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("asker", [doctor, gate])
def test_no_answer_that_fails_makes_a_stage_safer(
    asker: Callable[[Path, str], Ask], world: str, few: int | None, tmp_path: Path
) -> None:
    root = lay_out(tmp_path)
    WORLDS[world](root)
    stages = ["raw-ingest" if world in RAW else "deserialize"] if few else ["raw-ingest", "deserialize", "merge-gold"]

    for stage in stages:
        assert find_broken(asker(root, stage), few)[1] == []


@pytest.mark.parametrize("few", [FEW, ALL])
@pytest.mark.parametrize("place", PLACES)
def test_no_answer_that_fails_makes_a_checkpoint_safer(place: str, few: int | None, tmp_path: Path) -> None:
    assert find_broken(inspect(PLACES[place](tmp_path)), few)[1] == []


def test_a_listing_that_breaks_off_takes_nothing_away(tmp_path: Path) -> None:
    """Each of them, in each way: among sixty of all answers there may be none of these."""
    tried, broken = find_broken(inspect(PLACES["state lacks a version"](tmp_path)), None, ("list",))
    assert (tried > 50, broken) == (True, [])


def test_more_than_two_thousand_answers_fail_in_every_run_of_the_tests() -> None:
    assert 60 * (2 * len(WORLDS) + len(PLACES)) > 2_000
