"""A file may name a pipeline in code and declare streams: which of the two a call is about.

    a name         the one that has a stage or a stream of this name; in both: refused
    a plan         the one that it was made for
    neither        both, one after the other, where a verb only shows; else the pipeline

--streams and --pipeline say it in advance.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.cli.arguments import read_given_environment
from surestart.cli.pipelines import VARIABLE
from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE, EXIT_REFUSED, SurestartError, UsageError
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.streams.project_file import ProjectFile

# What shows and changes nothing.
_SHOWING = ("doctor", "status", "history")
_ONE_FILE = ("json", "html", "bundle")
_WORST = (EXIT_REFUSED, EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE)


def calls_of(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The same call, for each of the two that it is about."""
    if not hasattr(args, "streams") or args.streams or args.pipeline or os.environ.get(VARIABLE):
        return [args]
    project = _find_both()
    if project is None:
        return [args]
    path = str(project.path)
    declared = argparse.Namespace(**{**vars(args), "streams": path})
    wanted = getattr(args, "stage", "") or ""
    if wanted not in ("", "all"):
        return [_of_name(args, declared, project, wanted)]
    if hasattr(args, "plan"):
        return [declared if _is_of_streams(args.plan, declared) else args]
    if args.verb not in _SHOWING:
        return [args]
    given = next((name for name in _ONE_FILE if getattr(args, name, None)), "")
    if given:
        raise UsageError(
            f"--{given} is about one of the two: {path} names a pipeline and declares streams",
            meaning="Both would be written into one. Nothing was read.",
            next=surestart(args.verb, "--streams", path, f"--{given}", *_value(getattr(args, given))),
            code="PipelineOrStreams",
        )
    return [args, declared]


def worst_of(codes: list[int]) -> int:
    """The exit code of several answers; another error than a verdict comes first."""
    others = [code for code in codes if code not in _WORST]
    return others[0] if others else next(code for code in _WORST if code in codes)


def _find_both() -> ProjectFile | None:
    from surestart.streams.project_file import find_project_file, read_project_file

    path = find_project_file()
    found = read_project_file(path) if path is not None else None
    return found if found is not None and found.streams and found.pipeline else None


def _of_name(
    args: argparse.Namespace, declared: argparse.Namespace, project: ProjectFile, wanted: str
) -> argparse.Namespace:
    if wanted not in {stream.name for stream in project.streams}:
        return args
    try:
        _, pipeline, settings = read_given_environment(args)
        stages = {stage.name for stage in pipeline.build_stages(settings)}
    except SurestartError:
        # The code of the pipeline is not here; the streams' file is.
        return declared
    if wanted in stages:
        raise UsageError(
            f"{wanted!r} is a stage of {project.pipeline} and a stream of {project.path}",
            meaning="surestart does not guess which of the two you mean. Nothing was read.",
            next=surestart("doctor", wanted, "--streams", project.path, note="or --pipeline, for the stage"),
            code="PipelineOrStreams",
        )
    return declared


# As much of a plan as is read anywhere; a device has no end.
_MOST = 16 << 20


def _is_of_streams(plan: str, declared: argparse.Namespace) -> bool:
    """By the environment that the plan names; of a digest, by the journal of the streams."""
    path = Path(plan)
    if path.exists():
        try:
            with path.open("rb") as file:
                return bool(json.loads(file.read(_MOST))["environment"]["pipeline"] == "streams")
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False
    from surestart.journal.journal import read_journals

    environment, _, _ = read_given_environment(declared)
    if not environment.root or len(plan) < 8:
        return False
    try:
        return any(journal.digest.startswith(plan.lower()) for journal in read_journals(environment))
    except SurestartError:
        return False


def _value(given: object) -> list[str]:
    return [given] if isinstance(given, str) else []
