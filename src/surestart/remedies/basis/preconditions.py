"""What a plan rests on: each touched stage's checkpoint, byte for byte, and each table's id and version.

Read once when planning and again when applying; what differs is named, and the plan refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surestart.environment import Table
from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.manifest import Manifest, local_folder, read_manifest
from surestart.facts.checkpoint.snapshot import Checkpoint, is_checkpoint, read_checkpoint
from surestart.facts.delta import read_active_files, read_delta_log
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.log import deleted_file_retention, log_retention
from surestart.facts.delta.schema_change import generated_columns, identity_columns, may_number_rows
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.database_facts import as_database_preconditions
from surestart.remedies.basis.plan import Plan, plan_again
from surestart.spark.session import runs_on_databricks, spark_version
from surestart.spark.spark_lines import find_line, get_line
from surestart.typed import spark_sql, surestart


@dataclass(frozen=True)
class TableFacts:
    """What a plan rests on in one table.

    version: -1 where there is no such table.
    rows: None where not every file says how many it has.
    undo_retention: for how many milliseconds its present version can be restored once it is a former one.
    append_only: Delta refuses to remove a row of it.
    identity: columns that no write may name; of a catalog's table also those that some may.
    generated: columns that the table computes, as far as they are known.
    replaceable: this session can overwrite rows of it."""

    table: Table
    table_id: str = ""
    version: int = -1
    rows: int | None = 0
    files: int = 0
    size: int = 0
    earliest_version: int = 0
    undo_retention: int = 0
    append_only: bool = False
    identity: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    replaceable: bool = True

    @property
    def exists(self) -> bool:
        return self.version >= 0


@dataclass(frozen=True)
class LinkFacts:
    link: Link
    checkpoint: Checkpoint
    manifest: Manifest
    tables: Mapping[str, TableFacts]


def read_link(
    link: Link, spark: SparkSession | None, *, with_files: bool = True, with_tables: bool = True
) -> LinkFacts:
    """with_files False: its checkpoint's files are not read one by one; the stage may be writing them.
    with_tables False: the plan does not rest on what its tables are."""
    checkpoint = read_checkpoint(link.checkpoint, entries=2)
    return LinkFacts(
        link=link,
        checkpoint=checkpoint,
        manifest=read_what_moves(link, checkpoint) if with_files else Manifest({}),
        tables={output.table.name: read_table_facts(spark, output.table) for output in link.outputs if with_tables},
    )


def read_table_facts(spark: SparkSession | None, table: Table) -> TableFacts:
    if not table.path:
        return _by_session(spark, table)
    try:
        log = read_delta_log(table.path)
    except NoDeltaLog:
        return TableFacts(table)
    files = read_active_files(table.path, log.latest_version)
    counts = [file.rows for file in files]
    known = [count - file.deleted_rows for count, file in zip(counts, files, strict=True) if count is not None]
    return TableFacts(
        table=table,
        table_id=log.table_id,
        version=log.latest_version,
        rows=sum(known) if len(known) == len(counts) else None,
        files=len(files),
        size=sum(file.size for file in files),
        earliest_version=log.earliest_version,
        undo_retention=min(log.log_retention, log.deleted_file_retention),
        append_only=_is_append_only(log.properties),
        identity=identity_columns(log.schema_text),
        generated=generated_columns(log.schema_text),
    )


def _by_session(spark: SparkSession | None, table: Table) -> TableFacts:
    if spark is None:
        raise CannotTell(
            f"{table.qualified} is in a catalog and no session was given",
            meaning="Its version and size are known to the catalog only.",
            next=surestart("plan", "--help", note="on the cluster, or through Databricks Connect"),
            code="TableOutOfReach",
        )
    from surestart.spark.delta_table import read_columns, read_table

    if read_columns(spark, table) is None:
        return TableFacts(table)
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0].asDict()
    newest = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()[0].asDict()
    properties = {str(key): str(value) for key, value in (detail.get("properties") or {}).items()}
    return TableFacts(
        table=table,
        table_id=str(detail["id"]),
        version=int(newest["version"]),
        rows=read_table(spark, table).count(),
        files=int(detail["numFiles"] or 0),
        size=int(detail["sizeInBytes"] or 0),
        undo_retention=min(log_retention(properties), deleted_file_retention(properties)),
        append_only=_is_append_only(properties),
        # Which column it is, and whether it may be given a value, no session says.
        identity=("of its own",) if may_number_rows(detail) else (),
        replaceable=replaces_by_name(spark_version(spark), on_databricks=runs_on_databricks()),
    )


def replaces_by_name(version: str, *, on_databricks: bool) -> bool:
    """Whether a session of this Spark can overwrite rows of a table that it knows by name. Spark 3.5 takes each such
    write for a TRUNCATE, which Delta 3.3 refuses; seen on that line, and not tried on Databricks' own."""
    return on_databricks or find_line(version) != get_line("3.5")


def _is_append_only(properties: Mapping[str, str]) -> bool:
    return properties.get("delta.appendOnly", "").lower() == "true"


def refuse_unwritable(facts: Sequence[LinkFacts]) -> None:
    """Raises where rows of a table could not be removed or written again. If only the step found that out, the plan
    would stand half-way."""
    tables = [table for one in facts for table in one.tables.values()]
    for table in [table for table in tables if table.identity]:
        raise Refused(
            f"{table.table.label} has a column {' and '.join(table.identity)} GENERATED AS IDENTITY",
            meaning="Delta lets nobody write a row of it again with the number that it has, so the remedy could "
            "neither clear the table nor put a former reading back. Nothing was planned.",
            next=spark_sql(f"DESCRIBE EXTENDED {table.table.sql}"),
            do_not="delete the rows or the checkpoint by hand: number the rows in a table that is made from this one.",
            code="TableNumbersRows",
        )
    for table in [table for table in tables if not table.replaceable]:
        raise Refused(
            f"{table.table.label} is known by name, and this Spark cannot overwrite rows of such a table",
            meaning="Spark 3.5 takes it for a TRUNCATE, which Delta refuses, so the remedy would stop half-way. "
            "Nothing was planned.",
            next=surestart("plan", "--help", note="on Spark 4.0 or newer, which reads these tables and checkpoints"),
            do_not="delete the rows or the checkpoint by hand.",
            code="TableNotReplaceable",
        )
    for table in [table for table in tables if table.append_only]:
        raise Refused(
            f"{table.table.label} has the property delta.appendOnly = true",
            meaning="Delta lets nobody remove a row of it, so the remedy could not clear it. Nothing was planned.",
            next=spark_sql(f"ALTER TABLE {table.table.sql} UNSET TBLPROPERTIES ('delta.appendOnly')"),
            do_not="unset it without asking whoever has set it.",
            code="TableAppendOnly",
        )


def as_preconditions(facts: Sequence[LinkFacts]) -> dict[str, Any]:
    """What the plan keeps of it: enough to see that anything has changed, and what."""
    return {
        one.link.name: {
            "checkpoint": one.link.checkpoint,
            **({} if one.link.query.endswith(f"-{one.link.name}") else {"query": one.link.query}),
            "query_id": one.checkpoint.query_id,
            "planned": one.checkpoint.latest_planned,
            "committed": one.checkpoint.latest_committed,
            "manifest": one.manifest.digest,
            "files": len(one.manifest.files),
            "size": one.manifest.size,
            "tables": {
                name: {"id": table.table_id, "version": table.version, "label": table.table.label}
                for name, table in one.tables.items()
            },
            **({"databases": as_database_preconditions(one.link)} if one.link.databases else {}),
            **({"sinks": _as_sinks_told(one.link)} if one.link.own_sinks else {}),
        }
        for one in facts
    }


def _as_sinks_told(link: Link) -> dict[str, dict[str, str]]:
    held = {own.target: (own, own.sink.read_holdings(own.environment)) for own in link.own_sinks}
    return {
        target: {"id": found.id, "version": found.version, "label": own.label} for target, (own, found) in held.items()
    }


def check_preconditions(spark: SparkSession, chain: Chain, plan: Plan) -> None:
    """Raises Refused when a checkpoint or a table is not as it was when the plan was made."""
    if not plan.preconditions:
        return
    # Where the plan does not speak of the checkpoint's files, the stage may be writing them.
    facts = [
        read_link(
            chain.link(name),
            spark,
            with_files="manifest" in said,
            with_tables=bool(said.get("tables", True)),
        )
        for name, said in plan.preconditions.items()
    ]
    moves = describe_moves(plan.preconditions, as_preconditions(facts))
    if moves:
        shown = "; ".join(moves[:4]) + (f"; and {len(moves) - 4} more" if len(moves) > 4 else "")
        raise Refused(
            f"the plan is stale: {shown}",
            meaning="What it would remove, and where the stages would begin, was computed for another state. "
            "Nothing was changed.",
            next=plan_again(plan),
            do_not="edit the plan to fit.",
            code="PlanStale",
        )


def as_identities(facts: Sequence[LinkFacts]) -> dict[str, Any]:
    """Which query and which tables they are, but not how far they have come: for a plan whose stages go on
    meanwhile."""
    return {
        name: {
            "checkpoint": stage["checkpoint"],
            "query_id": stage["query_id"],
            **{
                kind: {name: {"id": found["id"], "label": found["label"]} for name, found in stage[kind].items()}
                for kind in ("tables", "databases", "sinks")
                if kind in stage
            },
        }
        for name, stage in as_preconditions(facts).items()
    }


def describe_moves(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each thing that is not as it was; empty when the plan still fits."""
    moves = []
    for stage in planned:
        before, after = planned[stage], now.get(stage, {})
        told: list[str] = []
        for key, what in (
            ("checkpoint", "place of its checkpoint"),
            ("query_id", "query id"),
            ("planned", "last planned batch"),
            ("committed", "last batch"),
        ):
            if key in before and before[key] != after.get(key):
                told.append(f"{stage}: {what} was {before.get(key)}, is {after.get(key)}")
        if "manifest" in before and before["manifest"] != after.get("manifest") and not told:
            told.append(f"{stage}: files of the checkpoint changed ({before.get('files')} then, {after.get('files')})")
        moves += told
        found = _by_name(after)
        for name, table in _by_name(before).items():
            there = found.get(name, {})
            if table.get("id") != there.get("id"):
                moves.append(
                    f"{name}: is another table now ({there.get('id') or 'none'}, was {table.get('id') or 'none'})"
                )
            elif "version" in table and table["version"] != there.get("version"):
                moves.append(f"{name}: was at version {table.get('version')}, is at {there.get('version')}")
    return moves


def _by_name(stage: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Everything that the stage writes to, as a reader calls it."""
    databases = {f"postgres {name}": one for name, one in stage.get("databases", {}).items()}
    own_sinks = {str(one["label"]): one for one in stage.get("sinks", {}).values()}
    return {**stage.get("tables", {}), **databases, **own_sinks}


def read_what_moves(link: Link, checkpoint: Checkpoint) -> Manifest:
    """What is moved with the checkpoint's folder. Raises where something else would go with it."""
    folder = local_folder(link.checkpoint)
    if checkpoint.exists is None:
        raise CannotTell(
            f"{link.checkpoint} cannot be read: {'; '.join(fault.detail for fault in checkpoint.other_faults[:1])}",
            meaning="What would be moved aside is not known. Nothing was planned.",
            next=surestart("inspect", link.checkpoint),
            code="CheckpointNotMounted",
        )
    found = "nothing that a checkpoint has" if checkpoint.exists and not is_checkpoint(checkpoint) else ""
    manifest = read_manifest(folder) if not found else Manifest({})
    found = found or next(filter(None, map(_of_another, manifest.files)), "")
    if not found:
        return manifest
    raise Refused(
        f"the checkpoint of {link.name} is said to be {link.checkpoint}, and that folder holds {found}",
        meaning="A remedy moves the whole folder aside: a table, or the checkpoints of other streams, would go with "
        "it. Nothing was changed.",
        next=surestart("inspect", "--all", link.checkpoint, note="what is in it; then correct where it is declared"),
        code="NotOneCheckpoint",
    )


def _of_another(file: str) -> str:
    """The table or the other checkpoint below a checkpoint's folder that this file is of, or ""."""
    folders = file.split("/")[:-1]
    if "_delta_log" in folders or "_spark_metadata" in folders:
        return f"a table: {file}"
    # What a source or a state store keeps there belongs to the checkpoint.
    others = folders[1:] if folders[:1] not in (["sources"], ["state"]) else []
    return f"another checkpoint: {file}" if "offsets" in others else ""
