"""What a notebook needs, the same on Databricks and in Jupyter: settings from widgets, a session, a look at rows.

                 on Databricks                     elsewhere
    widgets      dbutils.widgets, job parameters   LocalWidgets: SURESTART_<NAME> variables, then the default
    session      the notebook's `spark`            a local Spark
    show         an HTML table                     an HTML table
    show_page    displayHTML                       a frame in the output

No notebook that runs a stage has a widget for a checkpoint path: a person could change it for one run, which would then
start from nothing. It follows from environment, catalog and schema.
"""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from surestart.environment import ENVIRONMENTS, Environment, environment_from_settings
from surestart.errors import SurestartError, UsageError
from surestart.history.describe_run import options_of
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.session import obtain_session as existing_or_local_session
from surestart.spark.session import runs_on_databricks
from surestart.stage import Pipeline, Stage
from surestart.typed import in_the_notebook, surestart, typed
from surestart.words.amounts import rows_or_unknown

if TYPE_CHECKING:
    from surestart.runs.runner import StageRun

LONGEST_CELL = 80
LONGEST_PATH = 1000
_DATABASE_URL = re.compile(r"\s*postgres(ql)?://|.*\bpassword\s*=", re.I)


@dataclass(frozen=True)
class Widget:
    """A named setting of a notebook.

    choices: the values it may have; free text when empty."""

    name: str
    default: str
    label: str
    choices: tuple[str, ...] = ()


def widgets_of(pipeline: Pipeline, *names: str, but: Sequence[str] = ()) -> tuple[Widget, ...]:
    """A widget for each of these settings of the pipeline, or for all of them `but` these; empty means the default."""
    chosen = names or tuple(name for name in pipeline.settings if name not in but)
    return tuple(Widget(name, "", f"{name}: {pipeline.settings[name]}") for name in chosen)


class Widgets(Protocol):
    """The part of `dbutils.widgets` that is used here."""

    def text(self, name: str, defaultValue: str, label: str = "") -> None: ...

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str = "") -> None: ...

    def get(self, name: str) -> str: ...


@dataclass
class LocalWidgets:
    """Stands in for `dbutils.widgets` where there is no Databricks: a value comes from SURESTART_<NAME>."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _values: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, defaultValue: str, label: str = "") -> None:
        variable = f"SURESTART_{name.upper()}"
        value = self.environ.get(variable) or defaultValue
        # Settings are shown below the cell: of a database's URL only the place, which is what the setting wants.
        self._values[name] = f"env:{variable}" if _DATABASE_URL.match(value) else value

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str = "") -> None:
        if defaultValue not in choices:
            raise ValueError(f"default {defaultValue!r} of widget {name!r} is not one of {list(choices)}")
        self.text(name, defaultValue, label)

    def get(self, name: str) -> str:
        return self._values[name]


def read_settings(
    *widgets: Widget, of: Widgets | None = None, databricks: bool | None = None, place_unless: str = ""
) -> dict[str, str]:
    """Every widget exists and its value is returned, after `environment`, `catalog` and `schema`, which all have.

    On Databricks a run without catalog and schema is refused: it would keep its tables in the notebook's folder.
    place_unless: a widget that says by itself where to look; filled in, it makes catalog and schema unnecessary.
    """
    databricks = runs_on_databricks() if databricks is None else databricks
    source = of if of is not None else (_databricks_widgets() if databricks else LocalWidgets())
    settings: dict[str, str] = {}
    for widget in (*_standard(databricks), *widgets):
        if widget.choices:
            source.dropdown(widget.name, widget.default, list(widget.choices), widget.label)
        else:
            source.text(widget.name, widget.default, widget.label)
        # A job whose variable is not set passes an empty text.
        value = source.get(widget.name).strip() or widget.default
        if widget.choices and value not in widget.choices:
            # A job parameter may carry any text, also into a drop-down.
            raise UsageError(
                f"widget {widget.name} is {value!r}, not one of {', '.join(widget.choices)}",
                meaning="Nothing has been started.",
                next=in_the_notebook(f"choose one of them in the widget {widget.name!r} and run the cell again"),
            )
        settings[widget.name] = value
    if databricks and not (settings["catalog"] and settings["schema"]) and not settings.get(place_unless):
        raise UsageError(
            "the widgets catalog and schema are empty",
            meaning="Tables and checkpoints live in a Unity Catalog schema; without its name there is nowhere to go.",
            next=typed(
                "databricks",
                "bundle",
                "summary",
                "-t",
                "dev",
                note="shows both; fill in the widgets and run the cell again",
            ),
            do_not="use the schema of prod for a try; `bundle deploy -t dev` gives you one of your own.",
        )
    return settings


def _standard(databricks: bool) -> tuple[Widget, ...]:
    return (
        Widget("environment", "dev" if databricks else "local", "Environment", ENVIRONMENTS),
        Widget("catalog", "", "Catalog"),
        Widget("schema", "", "Schema"),
    )


def session() -> SparkSession:
    """The notebook's own session on Databricks, the local one elsewhere."""
    return existing_or_local_session("surestart notebook")


def databricks_session() -> SparkSession | None:
    """The notebook's own session on Databricks; None elsewhere, where files tell everything and no Spark is started."""
    return session() if runs_on_databricks() else None


def read_environment(pipeline: Pipeline, settings: Mapping[str, str]) -> Environment:
    return environment_from_settings(settings["environment"], pipeline.name, settings)


def stages_of(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, Stage]:
    return {stage.name: stage for stage in pipeline.build_stages(settings)}


def run_stage(spark: SparkSession, environment: Environment, stage: Stage) -> StageRun:
    """The stage has processed what was available. Whatever goes wrong ends in four parts, below its traceback."""
    from surestart.runs.runner import run_stage as run_behind_the_gate
    from surestart.words.unexpected import as_unexpected

    try:
        return run_behind_the_gate(spark, environment, stage)
    except SurestartError:
        raise
    except Exception as problem:
        raise as_unexpected(problem, ("run", stage.name, *options_of(environment))) from problem


def show_run(run: StageRun) -> None:
    """What a run did is on the screen, one line."""
    replayed = "" if run.replayed is None else f"batch {run.replayed}, planned by an earlier run"
    columns = ("stage", "batches", "rows", "seconds", "replayed", "checkpoint")
    row = (run.stage, run.batches, rows_or_unknown(run.rows), f"{run.seconds:.1f}", replayed, run.checkpoint)
    # A path is there to be copied: cut, it would be that of another folder.
    _display(table_html(columns, [row], longest=LONGEST_PATH))


def show(rows: DataFrame, caption: str = "", limit: int = 10) -> None:
    """The first rows are on the screen as a table; no more than `limit` were brought to the driver."""
    _display(table_html(rows.columns, rows.limit(limit).collect(), caption))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> None:
    """Plain values are on the screen as a table."""
    _display(table_html(columns, rows, caption))


def show_page(page: str, height: int = 900) -> None:
    """A whole HTML page is below the cell: by displayHTML where there is one, else in a frame.

    The frame is another origin to the notebook, so that nothing in the page can reach the notebook's own.
    """
    display_html = _notebook_variable("displayHTML")
    if display_html is not None:
        display_html(page)
        return
    frame = (
        f'sandbox="allow-scripts" width="100%" height="{height}" title="surestart report" srcdoc="{html.escape(page)}"'
    )
    _display(f"<div><iframe {frame}></iframe></div>")


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str = "",
    limit: int = 1000,
    longest: int = LONGEST_CELL,
) -> str:
    """One HTML table. Sensor bytes come from outside, so every cell is escaped and cut."""
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value, longest))}</td>" for value in row) + "</tr>"
        for row in islice(rows, limit)
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, longest: int) -> str:
    if value is None:
        return ""
    text = bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _display(text: str) -> None:
    from IPython import display

    display.display(display.HTML(text))  # type: ignore[no-untyped-call]


def _notebook_variable(name: str) -> Any:
    """`dbutils` and `displayHTML` are globals of the notebook, not of this module; None outside Databricks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.user_ns.get(name) if shell is not None else None


def _databricks_widgets() -> Widgets:
    dbutils = _notebook_variable("dbutils")
    if dbutils is None:
        raise UsageError(
            "this Python has no notebook variable 'dbutils'",
            meaning="A notebook on Databricks has it; a wheel task and a plain script do not: there are no widgets.",
            next=surestart("run", "--help", note="outside a notebook, use the command line"),
        )
    widgets: Widgets = dbutils.widgets
    return widgets
