"""Finds the pipeline that the command line serves, so that `surestart` never imports one by name.

    load_pipeline(None)              SURESTART_PIPELINE, else the one installed pipeline
    load_pipeline("sensor")          the entry point `sensor` of the group "surestart.pipelines"
    load_pipeline("pkg.mod:ATTR")    that attribute, for a pipeline that is not installed

Finding a pipeline imports the pipeline's own module: it must not import pyspark at module level, or the doctor would
need a JVM's Python on a machine that has none.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from surestart.errors import UsageError
from surestart.stage import Pipeline
from surestart.typed import surestart, typed

GROUP = "surestart.pipelines"
VARIABLE = "SURESTART_PIPELINE"


def load_pipeline(name_or_spec: str | None = None, environ: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of that name or `module:attribute`; without either, of SURESTART_PIPELINE or the only one."""
    variables = os.environ if environ is None else environ
    wanted = name_or_spec or variables.get(VARIABLE, "")
    if ":" in wanted:
        return _from_spec(wanted)
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if wanted:
        if wanted not in installed:
            raise UsageError(
                f"no pipeline {wanted!r}; installed: {', '.join(sorted(installed)) or 'none'}",
                meaning=f"A pipeline is found by its entry point in the group {GROUP!r}, or as module:attribute.",
                next=surestart("status", "--pipeline", next(iter(sorted(installed)), "your_package.stages:PIPELINE")),
            )
        return _from_entry_point(installed[wanted])
    if not installed:
        raise UsageError(
            "no pipeline is installed",
            meaning="Nothing in this Python environment offers an entry point in the group 'surestart.pipelines'.",
            next="surestart status --pipeline your_package.stages:PIPELINE",
        )
    if len(installed) > 1:
        # Picking one would start or judge another pipeline's queries.
        first = min(installed)
        raise UsageError(
            f"{len(installed)} pipelines are installed: {', '.join(sorted(installed))}",
            meaning="Which of them is meant is not to be guessed.",
            next=surestart("status", "--pipeline", first),
        )
    return _from_entry_point(next(iter(installed.values())))


def _from_entry_point(point: EntryPoint) -> Pipeline:
    return _from_spec(point.value, f"entry point {point.name!r} ({point.value})")


def _from_spec(spec: str, label: str = "") -> Pipeline:
    label = label or repr(spec)
    module_name, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # `surestart` is an installed script: unlike `python -m`, it does not look into the folder it is called from.
        sys.path.append(here)
    try:
        target: object = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"pipeline {label} cannot be imported: {error}",
            meaning="Its module, or something that the module imports, is not there.",
            next=typed("python", "-c", f"import {module_name}"),
        ) from error
    for part in filter(None, attribute.split(".")):
        target = getattr(target, part, None)
    if not isinstance(target, Pipeline):
        raise UsageError(
            f"{label} is {type(target).__name__}, not a surestart.stage.Pipeline",
            meaning="The command line needs the pipeline's name and stages.",
            next=typed("python", "-c", f"import {module_name}; print({module_name}.{attribute or 'PIPELINE'})"),
        )
    return target
