"""The options that every verb has, and what they mean together."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surestart.cli.pipelines import VARIABLE, load_pipeline
from surestart.environment import Environment, environment_from_settings
from surestart.errors import UsageError
from surestart.history.describe_run import settings_of
from surestart.stage import Pipeline, Stage
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.streams.project_file import ProjectFile

# Settings that people type often; a pipeline without one of them refuses it like any unknown setting.
SHORT = {"source": "files or kafka", "bootstrap": "Kafka's host:port", "topic": "the topic"}


class _Setting(argparse.Action):
    """--topic VALUE stands for --set topic=VALUE."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, "set", **{**kwargs, "default": []})
        self.name = dest

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.set = [*namespace.set, f"{self.name}={values}"]


class NotEmpty(argparse.Action):
    """A variable that is not set must not make the default of the place that was meant."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if not str(values).strip():
            parser.error(f"{option} is empty: without it the default place would be judged in its stead")
        setattr(namespace, self.dest, values)


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-e",
        "--env",
        default=None,
        action=NotEmpty,
        help="local, dev, staging or prod (default $SURESTART_ENV or local)",
    )
    parser.add_argument(
        "--root",
        default="",
        action=NotEmpty,
        help="where tables, checkpoints and landed files are kept, without a catalog",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the environment (catalog, schema, checkpoint_root, landing) or of the pipeline "
        "(`surestart run --help` lists those)",
    )
    for name, told in SHORT.items():
        parser.add_argument(f"--{name}", action=_Setting, metavar="VALUE", help=f"short for --set {name}=VALUE: {told}")
    parser.add_argument(
        "--pipeline", default=None, action=NotEmpty, help="module:attribute (default: as surestart.toml says)"
    )
    parser.add_argument(
        "--streams",
        default="",
        action=NotEmpty,
        metavar="FILE",
        help="the streams that this file declares (default surestart.toml)",
    )


def add_job_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--job-wait",
        type=float,
        default=15.0,
        metavar="MINUTES",
        help="how long to wait until cancelled runs of the Databricks jobs have ended (default 15)",
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=["OWNER_UNKNOWN"],
        help="you have looked: the driver that is silent has ended (docs/gate.md)",
    )


def read_given_settings(args: argparse.Namespace) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in args.set:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise UsageError(
                f"--set {pair!r} is not KEY=VALUE",
                meaning="A setting without a value would be taken for its default.",
                next=surestart("run", "all", "--set", "readings=10000"),
            )
        settings[key.strip()] = value
    if args.root:
        settings["root"] = args.root
    return settings


def read_given_environment(args: argparse.Namespace) -> tuple[Environment, Pipeline, dict[str, str]]:
    settings = read_given_settings(args)
    declared = _declared_streams(args)
    if declared is not None:
        return (*_of_streams(args, declared), settings)
    pipeline = load_pipeline(args.pipeline)
    known = {"root", "checkpoint_root", "catalog", "schema", "landing", *pipeline.settings}
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise UsageError(
            f"unknown setting {', '.join(unknown)}; known: {', '.join(sorted(known))}",
            meaning="A misspelt setting would silently have no effect.",
            next=surestart("run", "--help", note=f"settings of the pipeline {pipeline.name!r} are listed there"),
        )
    name = args.env or os.environ.get("SURESTART_ENV") or "local"
    environment = environment_from_settings(name, pipeline.name, settings)
    own = {key: value for key, value in settings.items() if key in pipeline.settings}
    typed = (*settings_of(own), *(("--pipeline", args.pipeline) if args.pipeline else ()))
    return replace(environment, typed=typed), pipeline, settings


def _declared_streams(args: argparse.Namespace) -> ProjectFile | None:
    """The file of declared streams that this call is about: the one that was named, else the nearest one, where it
    names no pipeline in code and nothing else does."""
    from surestart.streams.project_file import find_project_file, read_project_file

    named = getattr(args, "streams", "")
    if named:
        return read_project_file(Path(named))
    if args.pipeline or os.environ.get(VARIABLE):
        return None
    path = find_project_file()
    found = read_project_file(path) if path is not None else None
    return found if found is not None and found.streams and not found.pipeline else None


def _of_streams(args: argparse.Namespace, declared: ProjectFile) -> tuple[Environment, Pipeline]:
    from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams

    environment = environment_of_streams(declared, args.env or os.environ.get("SURESTART_ENV") or "local")
    typed = ("--streams", args.streams) if getattr(args, "streams", "") else ()
    return replace(environment, typed=typed), pipeline_of_streams(declared.streams)


def choose_stages(pipeline: Pipeline, settings: dict[str, str], wanted: str) -> tuple[Stage, ...]:
    """All stages for `all`, else the one of that name or query name."""
    stages = pipeline.build_stages(settings)
    names = [stage.name for stage in stages]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise UsageError(
            f"the pipeline {pipeline.name!r} has {names.count(doubled)} stages of the name {doubled!r}",
            meaning="They would share one checkpoint and overwrite each other's progress. Nothing was started.",
            next=surestart("status", note="once each Stage has a name of its own"),
            code="CheckpointPathRefused",
        )
    if wanted == "all":
        return stages
    name = wanted.removeprefix(f"{pipeline.name}-")
    chosen = tuple(stage for stage in stages if stage.name == name)
    if not chosen:
        raise UsageError(
            f"no stage {wanted!r}; stages: {', '.join(names)}, or all",
            meaning=f"The pipeline {pipeline.name!r} has {len(stages)} stages.",
            next=surestart("run", "all") if all(stage.ours for stage in stages) else surestart("doctor"),
        )
    return chosen
