"""Finds the pipeline that the command line serves: surestart knows none by itself, and imports none by name.

    load_pipeline("pkg.mod:ATTR")    that attribute
    load_pipeline(None)              that of SURESTART_PIPELINE, else the one that the nearest surestart.toml names

Finding a pipeline imports the pipeline's own module: it must not import pyspark at module level, or the doctor would
need a JVM's Python on a machine that has none.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from surestart.errors import SurestartError, UsageError
from surestart.stage import Pipeline
from surestart.typed import surestart, typed

VARIABLE = "SURESTART_PIPELINE"
EXAMPLE = "your_package.stages:PIPELINE"


def load_pipeline(spec: str | None = None, environ: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline `module:attribute`; without one that of SURESTART_PIPELINE, or of surestart.toml here or above."""
    variables = os.environ if environ is None else environ
    named = spec or variables.get(VARIABLE, "")
    if named:
        return _from_spec(named, Path.cwd())
    from surestart.streams.project_file import FILE, find_project_file, read_project_file

    path = find_project_file()
    found = read_project_file(path) if path is not None else None
    if found is None or not found.pipeline:
        raise UsageError(
            f"no pipeline is known here: {f'{path} names none' if path else f'no {FILE} in {Path.cwd()} or above it'}",
            meaning="surestart serves a pipeline of yours and has none of its own, so nothing was judged or started. "
            f'{FILE} names it in one line: pipeline = "{EXAMPLE}". Streams that your own code starts are found by '
            "surestart adopt; a single checkpoint needs neither: surestart inspect.",
            next=surestart("status", "--pipeline", EXAMPLE, note="with the module and the name of your own"),
            do_not="name the pipeline of another project: its stages never ran in these checkpoints.",
            code="NoPipelineKnown",
        )
    return _from_spec(found.pipeline, found.path.absolute().parent)


def _from_spec(spec: str, folder: Path) -> Pipeline:
    """folder: where its module is looked for after the installed ones."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UsageError(
            f"pipeline {spec!r} is not module:attribute",
            meaning="A pipeline is a value in a Python module, and both have names.",
            next=surestart("status", "--pipeline", EXAMPLE, note="with the module and the name of your own"),
        )
    if str(folder) not in sys.path:
        # `surestart` is an installed script: unlike `python -m`, it does not look into the folder it is called from.
        sys.path.append(str(folder))
    try:
        target: object = importlib.import_module(module_name)
    except SurestartError:
        raise
    except (Exception, SystemExit) as error:
        from surestart.words.unexpected import message_of

        # One that ends the process would otherwise end it with the exit code of a safe stage.
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise UsageError(
            f"pipeline {spec!r} cannot be imported: {kind}{message_of(error)}",
            meaning="Its module, or something that the module imports, is not there or fails. Nothing was judged.",
            next=typed("python", "-c", f"import {module_name}"),
        ) from error
    for part in attribute.split("."):
        target = getattr(target, part, None)
    if not isinstance(target, Pipeline):
        raise UsageError(
            f"{spec!r} is {type(target).__name__}, not a surestart.Pipeline",
            meaning="The command line needs the pipeline's name and stages.",
            next=typed("python", "-c", f"import {module_name}; print({module_name}.{attribute})"),
        )
    return target
