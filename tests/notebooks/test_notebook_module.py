"""Widgets, settings and tables of a notebook, without a kernel and without Spark."""

from __future__ import annotations

import pytest

from surestart.errors import UsageError
from surestart.notebooks.notebook import (
    LocalWidgets,
    Widget,
    read_environment,
    read_settings,
    stages_of,
    table_html,
    widgets_of,
)
from surestart.stage import Pipeline

SOURCE = Widget("source", "files", "Read from", ("files", "kafka"))
EMPTY = Pipeline("sensor", lambda settings: ())


def local(**environ: str) -> LocalWidgets:
    return LocalWidgets({f"SURESTART_{name.upper()}": value for name, value in environ.items()})


class JobWidgets(LocalWidgets):
    """As on Databricks: a job parameter wins over the widget's default, also over the choices of a drop-down."""

    def __init__(self, **parameters: str) -> None:
        super().__init__({f"SURESTART_{name.upper()}": value for name, value in parameters.items()})


def test_without_any_setting_a_notebook_is_local_and_harmless():
    assert read_settings(SOURCE, of=local(), databricks=False) == {
        "environment": "local",
        "catalog": "",
        "schema": "",
        "source": "files",
    }


def test_a_variable_of_the_environment_stands_in_for_a_widget():
    settings = read_settings(SOURCE, of=local(source="kafka", root="/data/x"), databricks=False)

    assert settings["source"] == "kafka"


def test_job_parameters_reach_the_settings_and_decide_the_checkpoint():
    parameters = JobWidgets(environment="prod", catalog="main", schema="sensor")
    environment = read_environment(EMPTY, read_settings(of=parameters, databricks=True))

    assert environment.checkpoint("raw-ingest") == "/Volumes/main/sensor/checkpoints/sensor-raw-ingest"
    assert environment.table("sensor_raw").sql == "`main`.`sensor`.`sensor_raw`"


@pytest.mark.parametrize("given", [{}, {"catalog": "main"}, {"schema": "sensor"}, {"catalog": " ", "schema": "sensor"}])
def test_on_databricks_nothing_starts_without_catalog_and_schema(given):
    with pytest.raises(UsageError, match="catalog and schema are empty"):
        read_settings(of=JobWidgets(**given), databricks=True)


def test_a_value_outside_the_choices_is_refused_by_name():
    with pytest.raises(UsageError, match="widget source is 'Kafka', not one of files, kafka"):
        read_settings(SOURCE, of=JobWidgets(source="Kafka"), databricks=False)


def test_an_empty_value_of_a_job_is_the_default():
    given = read_settings(SOURCE, Widget("readings", "20000", ""), of=JobWidgets(source=" "), databricks=False)

    assert (given["source"], given["readings"]) == ("files", "20000")


@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        ("postgresql://user:c4n4ry@host/db", "env:SURESTART_POSTGRES_URL"),
        ("host=h password=c4n4ry", "env:SURESTART_POSTGRES_URL"),
        ("secret:sensor/postgres-url", "secret:sensor/postgres-url"),
        ("", ""),
    ],
)
def test_a_variable_that_holds_a_url_is_named_by_the_setting_and_not_shown(variable, shown):
    pipeline = Pipeline("sensor", lambda settings: (), settings={"postgres_url": "where the URL is kept", "other": ""})

    settings = read_settings(*widgets_of(pipeline, "postgres_url"), of=local(postgres_url=variable), databricks=False)

    assert settings["postgres_url"] == shown
    assert [widget.name for widget in widgets_of(pipeline, but=("other",))] == ["postgres_url"]


def test_a_dropdown_whose_default_is_no_choice_is_refused_as_on_databricks():
    with pytest.raises(ValueError, match="not one of"):
        local().dropdown("mode", "apply", ["plan"], "Mode")


def test_no_widget_moves_a_checkpoint():
    settings = read_settings(SOURCE, of=local(checkpoint_root="/tmp/other"), databricks=False)

    assert not [name for name in settings if "checkpoint" in name]


def test_outside_a_databricks_notebook_the_missing_dbutils_is_named():
    with pytest.raises(UsageError, match="dbutils"):
        read_settings(databricks=True)


def test_stages_are_found_by_name():
    assert stages_of(EMPTY, {}) == {}


def test_bytes_from_a_sensor_cannot_become_markup():
    table = table_html(("payload", "n"), [(b"<script>\xff", None), (bytearray(b"x" * 500), 1)], caption="a<b")

    assert "<script>" not in table
    assert "&lt;script&gt;\\xff" in table
    assert "<caption>a&lt;b</caption>" in table
    assert "x" * 81 not in table
    assert '<th scope="col">payload</th>' in table
