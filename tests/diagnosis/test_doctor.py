"""`surestart doctor`: all stages of an environment judged from plain files, one verdict, one next command."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.storage import FolderEntry
from surestart.report.evidence_bundle import write_bundle
from surestart.verdict.ask_stages import ask_stage
from surestart.words.inert import MARK, redact, secret_values
from tests.diagnosis.called import surestart
from tests.diagnosis.environment_by_hand import IDS, checkpoint, lay_out, table, write_batch
from tests.diagnosis.stage_values import NOW


def doctor(root: Path, *arguments: str, verb: str = "doctor", **variables: str) -> subprocess.CompletedProcess[str]:
    return surestart(verb, *arguments, "--root", str(root), **variables)


def uncommit(root: Path, stage: str, *batches: int) -> None:
    for batch in batches:
        (checkpoint(root, stage) / "commits" / str(batch)).unlink()


def rewind(root: Path, stage: str, *batches: int) -> None:
    uncommit(root, stage, *batches)
    for batch in batches:
        (checkpoint(root, stage) / "offsets" / str(batch)).unlink()


def test_an_environment_where_nothing_ran_yet_may_start(tmp_path: Path) -> None:
    answer = doctor(tmp_path / "root")

    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.count("first start") == 3
    assert f"Next: surestart run all -e local --root {tmp_path}/root\n" in answer.stdout


def test_stages_that_ended_well_may_start(tmp_path: Path) -> None:
    answer = doctor(lay_out(tmp_path))

    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.count("SAFE         starts batch 5") == 3


def test_a_crash_after_the_sinks_commit_is_a_replay_that_is_known(tmp_path: Path) -> None:
    lay_out(tmp_path)
    uncommit(tmp_path, "merge-gold", 4)

    answer = doctor(tmp_path, "--json")

    gold = json.loads(answer.stdout)["stages"][2]["checkpoint"]
    assert answer.returncode in (0, 1)
    assert (gold["acceptance"], gold["batches"]["in_flight"]) == ("accepts", 4)
    assert "its replay is recognised" in gold["sinks"][0]["detail"]


def test_a_rewound_checkpoint_is_refused_with_the_numbers_and_the_command(tmp_path: Path) -> None:
    lay_out(tmp_path)
    rewind(tmp_path, "raw-ingest", 3, 4)

    answer = doctor(tmp_path)

    assert answer.returncode == 3
    assert "raw-ingest   UNSAFE" in answer.stdout
    assert "SKIPS" in answer.stdout
    assert "SINK_AHEAD_OF_CHECKPOINT" in answer.stdout
    last = answer.stdout.rstrip().splitlines()[-1]
    assert last == f"Next: surestart plan replay raw-ingest -e local --root {tmp_path} --from-output -o plan.json"


def test_a_deleted_checkpoint_over_kept_output_is_refused_for_append_and_said_for_merge(tmp_path: Path) -> None:
    lay_out(tmp_path)
    for stage in ("raw-ingest", "merge-gold"):
        shutil.rmtree(checkpoint(tmp_path, stage))

    stages = json.loads(doctor(tmp_path, "--json").stdout)["stages"]

    said = {stage["stage"]: (stage["checkpoint"]["verdict"], stage["checkpoint"]["acceptance"]) for stage in stages}
    assert said == {
        "raw-ingest": ("unsafe", "duplicates"),
        "deserialize": ("safe", "accepts"),
        "merge-gold": ("attention", "accepts"),
    }


def test_one_of_two_sinks_behind_the_other_is_found(tmp_path: Path) -> None:
    lay_out(tmp_path)
    uncommit(tmp_path, "deserialize", 4)
    folder = table(tmp_path, "sensor_readings_deserialized") / "_delta_log"
    (folder / f"{5:020d}.json").unlink()
    # The next stage has not read it yet.
    shutil.rmtree(checkpoint(tmp_path, "merge-gold"))
    shutil.rmtree(table(tmp_path, "sensor_gold"))

    sinks = json.loads(doctor(tmp_path, "deserialize", "--json").stdout)["stages"][0]["checkpoint"]["sinks"]

    assert [(sink["acceptance"], sink["table_batch"]) for sink in sinks] == [("accepts", 4), ("accepts", 3)]


def test_a_recreated_upstream_table_refuses_the_stage_below_it_and_not_the_one_above(tmp_path: Path) -> None:
    lay_out(tmp_path)
    path = table(tmp_path, "sensor_readings_deserialized") / "_delta_log" / f"{0:020d}.json"
    path.write_text(path.read_text().replace("id-sensor_readings_deserialized", "id-another"))

    answer = doctor(tmp_path)

    assert answer.returncode == 3
    assert "SOURCE_TABLE_REPLACED" in answer.stdout
    assert "deserialize  SAFE" in answer.stdout


def test_a_table_that_cannot_be_read_is_never_safe(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (table(tmp_path, "sensor_gold") / "_delta_log" / f"{5:020d}.json").write_text('{"txn":')

    answer = doctor(tmp_path, "merge-gold")

    assert answer.returncode == 4
    assert "CANNOT TELL" in answer.stdout


def test_a_second_identity_that_took_over_refuses_the_old_checkpoint(tmp_path: Path) -> None:
    lay_out(tmp_path)
    write_batch(tmp_path, "sensor_raw", 0, "bbbbbbbb-0000-4000-8000-000000000009")

    answer = doctor(tmp_path, "raw-ingest")

    assert answer.returncode == 3
    assert "SINK_IDENTITY_SUPERSEDED" in answer.stdout


@pytest.mark.parametrize("damage", ["none", "rewound", "torn", "long"])
def test_every_line_fits_eighty_columns(tmp_path: Path, damage: str) -> None:
    root = lay_out(tmp_path / ("a-rather-long-folder-name-" * 4 if damage == "long" else "root"))
    if damage != "none":
        rewind(root, "raw-ingest", 4)
    if damage == "torn":
        (checkpoint(root, "deserialize") / "offsets" / "4").write_text("")

    lines = doctor(root).stdout.splitlines()

    commands = [line for line in lines if line.lstrip().startswith("Next: ")]
    assert max(len(line) for line in lines if line not in commands) <= 80


def test_json_is_one_object_with_every_stage_and_every_finding(tmp_path: Path) -> None:
    lay_out(tmp_path)
    rewind(tmp_path, "raw-ingest", 4)

    answer = doctor(tmp_path, "--json")

    shown = json.loads(answer.stdout)
    assert (shown["schema_version"], shown["verdict"], answer.stderr) == (1, "unsafe", "")
    assert [stage["stage"] for stage in shown["stages"]] == list(IDS)
    raw = shown["stages"][0]
    assert raw["declaration"]["query"] == "sensor-raw-ingest"
    for finding in raw["checkpoint"]["findings"]:
        assert set(finding) == {"code", "severity", "evidence", "meaning", "next", "do_not"}
        assert finding["next"]


def test_the_doctor_starts_no_spark_and_changes_nothing(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root")
    before = fingerprint(root)
    script = (
        "import sys; from surestart.cli.main import main\n"
        f"main(['doctor', '--root', {str(root)!r}])\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'py4j'} & set(sys.modules)), file=sys.stderr)"
    )

    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stderr.strip() == "[]"
    assert fingerprint(root) == before


def fingerprint(root: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(root.rglob("*"))
    }


def test_an_unknown_stage_is_a_usage_error(tmp_path: Path) -> None:
    answer = doctor(tmp_path, "gold")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert "deserialize" in answer.stderr


CANARIES = ("hunter2-canary-1", "c4nary-two-zzz", "c4naryThree", "dapi0123456789abcdef0123456789abcdef", "c4nary-5-sig")


def test_the_bundle_holds_the_evidence_and_no_secret(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root")
    offsets = checkpoint(root, "raw-ingest") / "offsets" / "4"
    offsets.write_text(offsets.read_text().replace('"conf": {', f'"conf": {{"spark.ssl.password": "{CANARIES[1]}", '))
    note = table(root, "sensor_raw") / "_delta_log" / f"{6:020d}.json"
    said = f"by postgresql://me:{CANARIES[0]}@db/x with token={CANARIES[2]} {CANARIES[3]} https://s/?sv=1&sig={CANARIES[4]}"
    note.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE", "userMetadata": said}}))

    answer = doctor(
        root, "--bundle", str(tmp_path / "out"), SURESTART_POSTGRES_URL=f"postgresql://u:{CANARIES[0]}@h:5432/d"
    )

    (archive,) = (tmp_path / "out").iterdir()
    assert str(archive) in answer.stderr
    content = read_archive(archive)
    everything = "\n".join(content.values())
    for canary in CANARIES:
        assert canary not in everything
    assert MARK in everything
    assert {"README.txt", "evidence.txt", "doctor.txt", "doctor.json", "versions.json"} <= set(content)
    for stage, query_id in IDS.items():
        assert f"query id               {query_id}" in content["evidence.txt"]
        assert content[f"{stage}/checkpoint/offsets/3"] == (checkpoint(root, stage) / "offsets" / "3").read_text()
        assert "offsets/4" in content[f"{stage}/listing.txt"]
        assert json.loads(content[f"{stage}/declaration.json"])["stage"] == stage
    for label in ("checkpoint", "source 0 offsets", "output mode", "stateful operators", "state store provider"):
        assert f"\n{label} " in content["evidence.txt"]
    assert "restart history        unknown" in content["evidence.txt"]


def read_archive(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        members = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read().decode("utf-8", "replace") for name, file in members.items() if file}


def test_a_second_bundle_of_the_same_second_does_not_overwrite_the_first(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root")
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    stages = build_stages({})
    diagnoses = [ask_stage(environment, stage, now=NOW) for stage in stages[:1]]

    paths = [write_bundle(tmp_path / "out", environment, diagnoses) for _ in range(3)]

    assert len(set(paths)) == 3
    assert sorted(paths) == sorted((tmp_path / "out").iterdir())


def test_a_damaged_file_is_in_the_bundle_byte_for_byte(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root")
    torn = b"v1\n\xff\xfe\x00{" + bytes(range(128, 160))
    (checkpoint(root, "raw-ingest") / "offsets" / "4").write_bytes(torn)

    doctor(root, "raw-ingest", "--bundle", str(tmp_path / "out"))

    (path,) = (tmp_path / "out").iterdir()
    with tarfile.open(path) as archive:
        (member,) = [item for item in archive.getmembers() if item.name.endswith("/checkpoint/offsets/4")]
        file = archive.extractfile(member)
        assert file
        assert file.read() == torn


@pytest.mark.parametrize(
    "text",
    [
        "kafka.sasl.jaas.config=X9secretX required",
        '"password": "X9secretX"',
        '{"client_secret":"X9secretX"}',
        "('kafka.ssl.keystore.password', 'X9secretX')",
        '["api-key", "X9secretX"]',
        "https://acc.blob/?sv=2&sig=X9secretX&se=1",
        "postgresql://me:X9secretX@host/db",
        "Authorization: Bearer X9secretX",
        "eyJhbGciOiJIUzI1NiJ9.eyJYOXNlY3JldFgiOjF9.X9secretX",
        '\\"accountKey\\":\\"X9secretX\\"',
    ],
)
def test_a_secret_is_known_by_its_name_or_its_form(text: str) -> None:
    assert "X9secretX" not in redact(text)
    assert MARK in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "SINK_AHEAD_OF_CHECKPOINT",
        f"query id {IDS['raw-ingest']}",
        '{"orders":{"0":9120455}}',
        "s3://bucket/path/offsets/4",
        '"tokenized": true',
    ],
)
def test_evidence_is_not_redacted_away(text: str) -> None:
    assert redact(text) == text


def test_values_of_secret_looking_variables_are_found_wherever_they_stand() -> None:
    folders = {"PWD": "/home/me/work", "OLDPWD": "/home/me/work"}
    values = secret_values(
        {"DB_PASSWORD": "p%rt/one", "PATH": "/bin", "PIN": "1", "URL": "amqp://u:sesame-9@h", **folders}
    )

    assert redact("x p%rt/one y p%25rt%2Fone z sesame-9 /bin", values) == f"x {MARK} y {MARK} z {MARK} /bin"
    assert redact("surestart inspect /home/me/work/ck", values) == "surestart inspect /home/me/work/ck"


def test_status_shows_what_is_where_and_judges_nothing(tmp_path: Path) -> None:
    lay_out(tmp_path)
    uncommit(tmp_path, "deserialize", 4)

    answer = doctor(tmp_path, verb="status")

    assert answer.returncode == 0
    assert "sensor_raw                             50        5" in answer.stdout
    assert "batch 4 IN FLIGHT" in answer.stdout
    assert max(len(line) for line in answer.stdout.splitlines()[:-1]) <= 80
    shown = json.loads(doctor(tmp_path, "--json", verb="status").stdout)
    assert [item["rows"] for item in shown["tables"]] == [50, 50, 50, 50]
    assert shown["queries"][1]["batches"]["committed"] == 3


def test_status_of_nothing_says_so(tmp_path: Path) -> None:
    answer = doctor(tmp_path / "root", verb="status")

    assert answer.returncode == 0
    assert answer.stdout.count("not there yet") == 4
    assert answer.stdout.count("never started") == 3


def test_every_finding_of_sinks_sources_and_changes_has_its_section_and_a_test_that_provokes_it() -> None:
    here = Path(__file__).parent
    source = here.parents[1] / "src" / "surestart" / "verdict"
    written = "".join((source / f"{name}.py").read_text() for name in MODULES)
    codes = set(re.findall(r'"((?:SINK|SOURCE|CHANGE)_[A-Z_]+)"', written))
    sections = set(re.findall(r"^### ([A-Z_]+)$", (here.parents[1] / "docs" / "findings.md").read_text(), re.M))
    tests = "".join(path.read_text() for room in (here, here.parent / "fleet") for path in room.glob("test_*.py"))

    assert len(codes) > 40
    assert codes - sections == set()
    assert {code for code in codes if f'"{code}"' not in tests} == set()


MODULES = ("acceptance_findings", "writer_findings", "lost_output", "sink_audit", "ask_kafka", "change_safety")
MODULES += ("source_findings", "delta_source_findings")


def test_the_page_holds_every_stage_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root")
    rewind(root, "raw-ingest", 4)

    answer = doctor(root, "--html", str(tmp_path / "page.html"))

    page = (tmp_path / "page.html").read_text()
    assert answer.returncode == 3
    for stage in IDS:
        assert stage in page
    assert "SINK_AHEAD_OF_CHECKPOINT" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)


@pytest.mark.parametrize("option", ["--root", "-e", "--pipeline", "--streams"])
def test_a_place_that_a_variable_should_have_named_is_not_the_default_one(option: str) -> None:
    answer = surestart("doctor", option, "")

    assert answer.returncode == 2, answer.stdout
    assert "is empty" in answer.stderr


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("put", [Path.touch, loop], ids=["a file", "a link to itself"])
@pytest.mark.parametrize("name", ["tables/surestart_remedies", "tables/surestart_runs", "landing", "claims"])
def test_what_stands_where_a_folder_should_is_never_safe(
    tmp_path: Path, name: str, put: Callable[[Path], None]
) -> None:
    place = lay_out(tmp_path) / name
    shutil.rmtree(place, ignore_errors=True)
    put(place)

    answer = doctor(tmp_path)

    assert answer.returncode in (3, 4), answer.stdout + answer.stderr


def test_a_landing_folder_that_may_not_be_listed_is_never_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_from_settings("local", "p", {"root": str(lay_out(tmp_path))}, environ={})
    (stage, *_) = build_stages({})
    inner = LocalStorage.list_matching

    def refused(self: LocalStorage, path: str, wanted: Callable[[str], bool]) -> Iterator[FolderEntry]:
        if self.location.endswith("/landing"):
            raise PermissionError(13, "Permission denied")
        return inner(self, path, wanted)

    monkeypatch.setattr(LocalStorage, "list_matching", refused)
    assert ask_stage(environment, stage, now=NOW).verdict == "cannot tell"
