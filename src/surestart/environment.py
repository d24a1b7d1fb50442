"""Where things live: table names and checkpoint paths of one environment, built here and nowhere else.

    <root>/tables/<table>            local tables, or <catalog>.<schema>.<table>
    <root>/landing                   where files to ingest arrive
    <checkpoint_root>/<query name>   one fixed path per query, the same at every run

A checkpoint path never contains a date, a run id, user input or another query's path. A path that changes at every run
never resumes; a path that two queries share corrupts both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from surestart.errors import UsageError
from surestart.typed import NextCommand, NextStep, Place, Words, in_the_code, surestart

ENVIRONMENTS = ("local", "dev", "staging", "prod")
# Those that have a root of their own in the folder in which a command is typed.
DEFAULT_ROOTS = ("local", "dev")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")

# Each entry is a way in which a path was seen to change from run to run in public repositories.
_RUN_SCOPED = (
    (re.compile(r"\{.*?\}|\$\(.*?\)|\$\w+|<[^>]*>"), "an unresolved template"),
    (re.compile(r"%[YmdHMSjfs]"), "a date format"),
    (re.compile(r"(?<!\d)20\d{2}[-_/.]?(?:0[1-9]|1[0-2])[-_/.]?(?:0[1-9]|[12]\d|3[01])(?!\d)"), "a date"),
    (re.compile(r"(?<!\d)\d{1,2}[-_/.]\d{1,2}[-_/.]20\d{2}(?!\d)"), "a date"),
    (re.compile(r"(?<!\d)(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])20\d{2}(?!\d)"), "a date"),
    (re.compile(r"(?<!\d)20\d{2}[-_/.](?:0[1-9]|1[0-2]|[wWqQ]\d{1,2})(?!\d)"), "a month, week or quarter"),
    (re.compile(r"(?:^|[/_.-])(?:year|month|week|day|date|hour|minute|dt|ds)=[^/]*", re.I), "a date partition"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I), "a UUID"),
    (re.compile(r"(?:^|[/_.=-])(?:run|job|app|attempt|cluster)[-_]?id(?:[/_.=-]|$)", re.I), "a run id"),
    (re.compile(r"application_\d+_\d+|app-\d{14}-\d{4}|local-\d{13}"), "a Spark application id"),
    (re.compile(r"(?<!\d)1[6-9]\d{8}(?:\d{3})?(?!\d)"), "a timestamp"),
)


@dataclass(frozen=True)
class Table:
    """A Delta table by path (local) or by three-level name (Unity Catalog)."""

    name: str
    path: str = ""
    qualified: str = ""

    @property
    def sql(self) -> str:
        """The name to put into SQL, quoted."""
        if self.path:
            return "delta.`" + self.path.replace("`", "``") + "`"
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.qualified.split("."))

    @property
    def label(self) -> str:
        return self.path or self.qualified


@dataclass(frozen=True)
class Environment:
    """One environment of one pipeline. Every name and path that a stage uses is built from it.

    typed: the options that named the pipeline and its settings, for the next command: without `--set
        source=kafka` it would speak of other stages."""

    name: str
    pipeline: str
    checkpoint_root: str
    root: str = ""
    catalog: str = ""
    schema: str = ""
    landing: str = ""
    typed: Words = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.name not in ENVIRONMENTS:
            raise UsageError(
                f"environment {self.name!r} is not one of {', '.join(ENVIRONMENTS)}",
                meaning="Tables and checkpoints are kept apart by environment; an unknown one starts from nothing.",
                next=surestart("status", "--env", ENVIRONMENTS[0]),
                do_not="invent an environment name per run or per person; use `dev` with a root of your own.",
            )
        if not _NAME.fullmatch(self.pipeline):
            raise UsageError(
                f"pipeline name {self.pipeline!r} is not lower-case letters, digits, '-' and '_'",
                meaning="The name becomes part of every query name and checkpoint path.",
                next=in_the_code("give the Pipeline a name such as 'sensor'"),
            )
        for label, value in (("catalog", self.catalog), ("schema", self.schema)):
            if value and not _IDENTIFIER.fullmatch(value):
                raise UsageError(
                    f"{label} {value!r} is not a plain identifier",
                    meaning="It is used in table names; quotes, dots and spaces would name another object.",
                    next=surestart("status", "--set", f"{label}=sensor", note="letters, digits and '_'"),
                )
        if not self.root and not (self.catalog and self.schema):
            raise UsageError(
                f"environment {self.name!r} has neither a root folder nor a catalog and schema",
                meaning="There is nowhere to keep its tables.",
                next=surestart("status", "--env", self.name, "--root", f"/data/{self.pipeline}"),
            )
        check_checkpoint_root(self.checkpoint_root)
        tables = f"{self.root}/tables" if self.root else ""
        if self.landing and _is_inside(self.checkpoint_root, self.landing):
            raise _bad_path(
                self.checkpoint_root,
                f"is inside the landing folder {self.landing}",
                "The raw stage reads every file below that folder: those of its own checkpoint would become records.",
            )
        if self.landing and tables and _is_inside(tables, self.landing):
            raise UsageError(
                f"the tables' folder {tables} is inside the landing folder {self.landing}",
                meaning="The raw stage reads every file below that folder: what it writes would be its next records.",
                next=surestart(
                    "status", "--env", self.name, "--root", self.root, "--set", f"landing={self.root}/landing"
                ),
            )
        if tables and _is_inside(self.checkpoint_root, tables):
            raise _bad_path(
                self.checkpoint_root,
                f"is inside the tables' folder {tables}",
                "VACUUM of a table deletes files it does not know, checkpoint files included.",
            )

    def begin_command(self, options: Words = ()) -> NextCommand:
        """What comes next where every stage may start."""
        return surestart("run", "all", place=Place(self.name, options))

    def accept_command(self, query: str, code: str, options: Words = ()) -> NextStep:
        """The start of this query for somebody who has looked at what the code is about."""
        stage = query.removeprefix(f"{self.pipeline}-")
        return surestart("run", stage, place=Place(self.name, options), more=("--accept", code))

    @property
    def in_one_folder(self) -> bool:
        """Tables and checkpoints lie in one root folder, so that whoever moves or copies it has moved both."""
        return bool(self.root) and self.checkpoint_root == f"{self.root}/checkpoints"

    def table(self, name: str) -> Table:
        if not _IDENTIFIER.fullmatch(name):
            raise UsageError(
                f"table name {name!r} is not a plain identifier",
                meaning="It would name another object once put into SQL or a path.",
                next=in_the_code("name the table with letters, digits and '_'"),
            )
        if self.root:
            return Table(name, path=f"{self.root}/tables/{name}")
        return Table(name, qualified=f"{self.catalog}.{self.schema}.{name}")

    def query_name(self, stage: str) -> str:
        return f"{self.pipeline}-{stage}"

    def root_beside(self, query: str) -> str:
        """The folder in which the query's checkpoint is put aside: on the storage that it lies on."""
        return self.checkpoint_root.rstrip("/")

    def with_checkpoint(self, stage: str, place: str) -> Environment:
        """The same environment, but for the place of that stage's checkpoint."""
        same = {one.name: getattr(self, one.name) for one in fields(Environment)}
        return _Elsewhere(**same, stage=stage, place=place)

    def checkpoint(self, stage: str) -> str:
        """The one fixed checkpoint path of a stage's query."""
        query = self.query_name(stage)
        if not _NAME.fullmatch(query):
            raise UsageError(
                f"query name {query!r} cannot be a folder of the checkpoint root",
                meaning="Separators or upper case in it would nest or alias another query's checkpoint.",
                next=in_the_code("name the stage with lower-case letters, digits and '-'"),
            )
        return f"{self.checkpoint_root.rstrip('/')}/{query}"


@dataclass(frozen=True)
class _Elsewhere(Environment):
    stage: str = ""
    place: str = ""

    def checkpoint(self, stage: str) -> str:
        return self.place if stage == self.stage else super().checkpoint(stage)


def check_checkpoint_root(path: str) -> None:
    """Raises unless the path is absolute and the same at every run."""
    if not path:
        raise _bad_path(path, "is empty", "Spark would put the checkpoint into a temporary folder and never resume.")
    if not is_absolute(path):
        raise _bad_path(path, "is relative", "Started from another folder, the query would begin anew, elsewhere.")
    if any(part in ("..", ".") for part in path.split("/")):
        raise _bad_path(path, "contains '.' or '..'", "Two spellings of one folder hide that two queries share it.")
    for pattern, what in _RUN_SCOPED:
        found = pattern.search(path)
        if found:
            raise _bad_path(
                path, f"contains {what} ({found.group(0)!r})", "The next run gets another path and starts from nothing."
            )


def check_distinct_checkpoints(paths: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """Raises when two queries share a checkpoint path or one lies inside another's. Pairs instead of a mapping: two
    queries of one name are two."""
    items = sorted(paths.items() if isinstance(paths, Mapping) else paths)
    for index, (query, path) in enumerate(items):
        for other, other_path in items[index + 1 :]:
            if path.rstrip("/") == other_path.rstrip("/"):
                raise _bad_path(
                    path,
                    f"is used by two queries{f', {query} and {other}' if query != other else f' of the name {query}'}",
                    "They overwrite each other's progress.",
                )
            for inner, outer, outer_query in ((path, other_path, other), (other_path, path, query)):
                if _is_inside(inner, outer):
                    raise _bad_path(
                        inner,
                        f"is inside the checkpoint of {outer_query} ({outer})",
                        "Moving or clearing the outer one takes the inner one with it.",
                    )


def whole_path(given: str | Path) -> Path:
    """The folder that somebody has typed. Raises UsageError for none, or for one of a user that nobody knows here."""
    if not str(given).strip():
        raise UsageError(
            "a place was given that is empty",
            meaning="It would be the folder that you work in. Nothing was read.",
            next=in_the_code("see that the variable with the place is set"),
        )
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(
            f"{str(given)!r} begins with the home of a user, and nobody of that name is known here",
            meaning="Which folder it means cannot be told. Nothing was read.",
            next=in_the_code("write the whole path"),
        ) from error


def is_absolute(path: str) -> bool:
    return path.startswith("/") or re.match(r"[a-z][a-z0-9+.-]*:/", path, re.I) is not None


def environment_from_settings(
    name: str, pipeline: str, settings: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> Environment:
    """Builds an environment from job parameters, widgets or command-line settings, then SURESTART_* variables, then
    local defaults. Keys: root, checkpoint_root, catalog, schema, landing. A root that is given wins over a catalog that
    only the variables name."""
    given = {key: value for key, value in (settings or {}).items() if value}
    variables = os.environ if environ is None else environ

    def setting(key: str, default: str = "") -> str:
        return given.get(key) or variables.get(f"SURESTART_{key.upper()}", "") or default

    other = " and ".join(key for key in ("catalog", "schema") if key in given)
    if (folder := given.get("root")) and other:
        raise UsageError(
            f"root {folder!r} is given, and {other} too",
            meaning="Tables are kept in a folder or in a catalog. surestart does not guess which of the two you mean.",
            next=surestart("status", "--env", name, "--root", folder),
            do_not="give both: a run would write into the place that was not meant.",
        )
    catalog, schema = ("", "") if "root" in given else (setting("catalog"), setting("schema"))
    root = "" if catalog and schema else setting("root", _local_root(name))
    if root and "://" not in root:
        root = str(whole_path(root))
    checkpoint_root = setting("checkpoint_root", f"{root}/checkpoints" if root else "")
    if not checkpoint_root and catalog and schema:
        checkpoint_root = f"/Volumes/{catalog}/{schema}/checkpoints"
    landing = setting("landing", f"{root}/landing" if root else f"/Volumes/{catalog}/{schema}/landing")
    return Environment(
        name=name,
        pipeline=pipeline,
        checkpoint_root=checkpoint_root,
        root=root.rstrip("/"),
        catalog=catalog,
        schema=schema,
        landing=landing,
    )


def _local_root(name: str) -> str:
    return str(Path.cwd() / ".surestart" / name) if name in DEFAULT_ROOTS else ""


def _is_inside(path: str, folder: str) -> bool:
    return path.rstrip("/").startswith(folder.rstrip("/") + "/") or path.rstrip("/") == folder.rstrip("/")


def _bad_path(path: str, what: str, meaning: str) -> UsageError:
    return UsageError(
        f"checkpoint path {path!r} {what}",
        meaning=meaning,
        next=surestart(
            "status",
            "--set",
            "checkpoint_root=/Volumes/main/sensor/checkpoints",
            note="one absolute folder for each environment",
        ),
        do_not="put a date, a run id or a user name into a checkpoint path.",
        code="CheckpointPathRefused",
    )
