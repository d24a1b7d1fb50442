"""All evidence of a diagnosis as one archive, to be kept before anybody reruns or deletes, and to be shown to others.

    surestart-evidence-<pipeline>-<environment>-<time>.tar.gz
        README.txt                   what this is, what was redacted
        evidence.txt                 the facts that must be on the table, stage by stage
        doctor.txt  doctor.json      the answer
        versions.json                Python, Spark, Delta, this tool
        <stage>/declaration.json     what the code would run
        <stage>/sink-N.json          which batches each sink says it holds, its last commits
        <stage>/source-N.json        what each source still has
        <stage>/history.json         former runs
        <stage>/listing.txt          the checkpoint's files with sizes and times
        <stage>/checkpoint/…         its newest log files, byte for byte unless a secret stood in them

No table data is in it. Text is redacted: surestart.words.inert.
"""

from __future__ import annotations

import io
import json
import platform
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from surestart.environment import Environment
from surestart.errors import UsageError
from surestart.facts.storage.open_storage import open_storage
from surestart.facts.storage.storage import FILE, FOLDER, Storage
from surestart.report.json.many import stages_json
from surestart.report.text.stage_table import render_stages
from surestart.typed import NextStep, surestart
from surestart.verdict.diagnose import Diagnosis
from surestart.words.inert import inert, redact, secret_values

_KEPT_ENTRIES = 12
_FILE_LIMIT = 256 << 10
_LISTED = 5_000
_PACKAGES = ("surestart", "pyspark", "delta-spark", "databricks-connect", "pyarrow", "confluent-kafka", "psycopg")


def write_bundle(folder: Path, environment: Environment, diagnoses: Sequence[Diagnosis]) -> Path:
    """The archive is in `folder`, which is made if it is missing; an archive is never overwritten."""
    time = datetime.fromtimestamp(diagnoses[0].asked_at / 1000, UTC) if diagnoses else datetime.now(UTC)
    stem = f"surestart-evidence-{environment.pipeline}-{environment.name}-{time:%Y%m%dT%H%M%SZ}"
    secrets = secret_values()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = _free_name(folder, stem)
        with tarfile.open(path, "x:gz") as archive:
            for name, text in _members(environment, diagnoses):
                content = redact(text, secrets).encode("utf-8", "surrogateescape")
                member = tarfile.TarInfo(f"{stem}/{name}")
                member.size, member.mtime, member.mode = len(content), int(time.timestamp()), 0o600
                archive.addfile(member, io.BytesIO(content))
    except OSError as error:
        raise UsageError(
            f"the bundle cannot be written to {folder}: {error.strerror or error}",
            meaning="The diagnosis above is right; only its copy is missing.",
            next=surestart("doctor", "--bundle", "/a/folder/you/may/write"),
            code="BundleNotWritten",
        ) from error
    return path


def _free_name(folder: Path, stem: str) -> Path:
    path, number = folder / f"{stem}.tar.gz", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.tar.gz"
    return path


def _members(environment: Environment, diagnoses: Sequence[Diagnosis]) -> Iterator[tuple[str, str]]:
    yield "README.txt", _README
    yield "evidence.txt", "\n\n".join(evidence_text(diagnosis) for diagnosis in diagnoses) + "\n"
    yield "doctor.txt", render_stages(environment, diagnoses)
    yield "doctor.json", stages_json(environment, diagnoses)
    yield "versions.json", json.dumps(_versions(), indent=2)
    for diagnosis in diagnoses:
        evidence, stage = diagnosis.evidence, diagnosis.stage
        yield f"{stage}/declaration.json", _json(evidence.declaration)
        for number, sink in enumerate(evidence.sinks.values()):
            yield f"{stage}/sink-{number}.json", _json(sink)
        for number, source in enumerate(evidence.sources):
            yield f"{stage}/source-{number}.json", _json(source)
        yield f"{stage}/history.json", _json(evidence.history)
        yield from _checkpoint(diagnosis)


def evidence_text(diagnosis: Diagnosis) -> str:
    """The facts that must be known before anybody reruns or deletes something. What is not known is said to be
    unknown."""
    evidence = diagnosis.evidence
    checkpoint, declaration = evidence.checkpoint, evidence.declaration
    operators = ", ".join(operator.name or f"operator {operator.id}" for operator in checkpoint.state.operators)
    rows = [
        ("stage", declaration.stage),
        ("checkpoint", checkpoint.location),
        ("query id", checkpoint.query_id or "unknown"),
        ("batches", f"planned {_known(checkpoint.latest_planned)}, committed {_known(checkpoint.latest_committed)}"),
        *(
            (f"source {source.id} offsets", source.end.describe() if source.end else "unknown")
            for source in checkpoint.sources
        ),
        *((f"sink {sink.kind}", f"{sink.target} (step {sink.step or 'none'})") for sink in declaration.sinks),
        *((f"{answer.sink.target}", f"{answer.acceptance.value}: {answer.detail}") for answer in diagnosis.sinks),
        ("output mode", declaration.output_mode),
        ("stateful operators", operators or "none"),
        ("state store provider", checkpoint.state.provider or "unknown"),
        ("written by Spark", checkpoint.spark_version or "unknown"),
        ("next start", f"Spark {diagnosis.start.spark} {diagnosis.start.sentence}"),
        ("restart history", f"{len(evidence.history)} runs, history.json" if evidence.history else "unknown"),
        ("verdict", diagnosis.verdict.value),
    ]
    return "\n".join(f"{label:<22} {inert(value, 400)}" for label, value in rows)


def _known(batch: int | None) -> str:
    return "none" if batch is None else str(batch)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _checkpoint(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    checkpoint, stage = diagnosis.evidence.checkpoint, diagnosis.stage
    storage = open_storage(diagnosis.evidence.declaration.checkpoint)
    listing: list[str] = []
    for path, size, modified in _walk(storage, "", 0):
        if len(listing) == _LISTED:
            listing.append("… and more")
            break
        listing.append(f"{size if size is not None else '?':>12}  {_time(modified)}  {inert(path, 400)}")
    yield f"{stage}/listing.txt", "\n".join(listing) + "\n"
    names = ["metadata"]
    names += [f"offsets/{batch}" for batch in checkpoint.offsets_folder.ids[-_KEPT_ENTRIES:]]
    names += [f"commits/{batch}" for batch in checkpoint.commits_folder.ids[-_KEPT_ENTRIES:]]
    names += [f"sources/{source.id}/0" for source in checkpoint.sources]
    for name in names:
        try:
            # surrogateescape: a damaged file's bytes arrive as they were.
            yield f"{stage}/checkpoint/{name}", storage.read_file(name, _FILE_LIMIT).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            continue
        except OSError as error:
            yield f"{stage}/checkpoint/{name}.unreadable", f"{type(error).__name__}: {error.strerror or error}\n"


def _walk(storage: Storage, folder: str, depth: int) -> Iterator[tuple[str, int | None, float | None]]:
    try:
        entries = sorted(storage.list_folder(folder))
    except OSError as error:
        yield f"{folder} ({type(error).__name__})", None, None
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.kind == FOLDER and depth < 6:
            yield from _walk(storage, path, depth + 1)
        else:
            yield path if entry.kind == FILE else f"{path} ({entry.kind})", entry.size, entry.modified


def _time(seconds: float | None) -> str:
    return "?" * 20 if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: object) -> str:
    return json.dumps(_plain(value), indent=1, default=str)


def _plain(value: object) -> Any:
    if isinstance(value, NextStep):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


_README = """\
Evidence collected by `surestart doctor --bundle`. Nothing was changed by collecting it.

Begin with evidence.txt and doctor.txt. The checkpoint's newest log files are in <stage>/checkpoint/; the whole
checkpoint is not, and no row of any table is.

Secrets were taken out by the name they stand under, by their form, and by the values of this machine's secret-looking
environment variables; they show as [redacted]. Look through the archive before you hand it on.
"""
