"""The target table as the database has it: where it lies, its columns, and what an upsert may rely on."""

from __future__ import annotations

from dataclasses import dataclass

from surestart.errors import UsageError
from surestart.facts.postgres.connection import name
from surestart.facts.postgres.types import StagedColumn, TargetColumn, loses_something
from surestart.facts.postgres.url import Secret
from surestart.library_types import PostgresConnection
from surestart.typed import in_the_code


@dataclass(frozen=True)
class Target:
    schema: str
    table: str
    columns: tuple[TargetColumn, ...]
    unique: tuple[frozenset[str], ...]
    primary: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def sql(self) -> str:
        return name(self.schema, self.table)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, wanted: str) -> TargetColumn:
        return next(column for column in self.columns if column.name == wanted)


def find_target(connection: PostgresConnection, target: str) -> Target:
    """The table that `target` ("table" or "schema.table") means to this user, found as SQL would find it."""
    quoted = name(*target.split("."))
    row = connection.execute(
        "SELECT n.nspname, c.relname, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p')",
        (quoted,),
    ).fetchone()
    if row is None:
        raise UsageError(
            f"table {target} is not in database {connection.info.dbname} for user {connection.info.user}",
            meaning="The sink has nowhere to put its rows. Nothing was written; the next start replays the batch.",
            next=in_the_code(
                "give the sink its `columns`, to create the table; or create it (docs/postgres.md has an example)"
            ),
            do_not="delete the checkpoint: it knows which batch is still to be written.",
            code="PostgresTargetMissing",
        )
    schema, table, oid = row
    columns = connection.execute(
        # Of a domain: the type that it stands for, by which values are rounded.
        "SELECT attname, format_type(CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END, NULL),"
        " format_type(atttypid, atttypmod), t.typcategory = 'S',"
        " CASE typtype WHEN 'd' THEN format_type(typbasetype, typtypmod) ELSE '' END"
        " FROM pg_attribute JOIN pg_type t ON t.oid = atttypid"
        " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (oid,),
    ).fetchall()
    # Partial and expression indexes cannot serve as the conflict target of an upsert by plain columns.
    unique = connection.execute(
        "SELECT array_agg(a.attname::text ORDER BY array_position(i.indkey::int2[], a.attnum)), i.indisprimary"
        " FROM pg_index i"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])"
        " WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate"
        " AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid, i.indisprimary",
        (oid,),
    ).fetchall()
    return Target(
        schema=schema,
        table=table,
        columns=tuple(TargetColumn(*column) for column in columns),
        unique=tuple(frozenset(names) for names, _ in unique),
        primary=next((tuple(names) for names, is_primary in unique if is_primary), ()),
    )


def check_columns(target: Target, staged: tuple[StagedColumn, ...]) -> None:
    """Raises when the batch has a column that the table lacks, one twice, or one that the table would round or cut."""
    columns = [column.name for column in staged]
    unknown = [column for column in columns if column not in target.names]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if unknown or twice:
        raise UsageError(
            f"the batch has {', '.join(unknown) or ', '.join(twice)} "
            f"{'twice' if twice and not unknown else f'and {target.label} does not'}"
            f" (it has {', '.join(target.names)})",
            meaning="Those values would have no place. Nothing was written; the next start replays the batch.",
            next=in_the_code(
                f"select the columns of {target.label} in the stage's transform, or add the missing ones to the table"
            ),
            code="PostgresColumnUnknown",
        )
    lossy = [column for column in staged if loses_something(column, target.column(column.name))]
    if lossy:
        pairs = ", ".join(
            f"{column.name} {column.shown} into {target.column(column.name).declared}" for column in lossy
        )
        raise UsageError(
            f"{target.label} would take {pairs}",
            meaning="PostgreSQL would round or cut the values without a word. Nothing was written; the next start "
            "replays the batch.",
            next=in_the_code("cast the column in the stage's transform, or change its type in the table"),
            code="PostgresTypeMismatch",
        )


def check_upsert(
    target: Target, keys: tuple[str, ...], order: tuple[str, ...], columns: tuple[str, ...], url: Secret
) -> None:
    """Raises unless the table can tell one key from another and the batch carries keys and order."""
    missing = [column for column in (*keys, *order) if column not in columns]
    if missing:
        raise UsageError(
            f"the batch lacks {', '.join(missing)}, which the upsert into {target.label} needs",
            meaning="Without key and order, newer rows cannot be told from older ones. Nothing was written.",
            next=in_the_code("select those columns in the stage's transform"),
            code="PostgresColumnUnknown",
        )
    if frozenset(keys) not in target.unique:
        raise UsageError(
            f"{target.label} has no primary key or unique index on exactly ({', '.join(keys)})",
            meaning="An upsert needs one; without it the same key would be stored twice. Nothing was written.",
            next=url.place.psql(f"CREATE UNIQUE INDEX ON {target.sql} ({name_list(keys)})"),
            code="PostgresKeyMissing",
        )


def name_list(columns: tuple[str, ...]) -> str:
    return ", ".join(name(column) for column in columns)
