"""What `databricks bundle validate --strict` lets through and a deployed stream would pay for, found offline.

    check_bundle(bundle)  ->  Fault(check, target, where, text), for the files and for every target

Each check is one small function from a target (or the files) to faults; test_bundle_check.py breaks the bundle once
for each and sees it named. The list of what the CLI misses was measured: docs/decisions/0007-bundle.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bundle.bundle_files import MAIN, Bundle, resolve_target
from tests.bundle.job_checks import JOB_CHECKS, walk
from tests.bundle.storage_checks import STORAGE_CHECKS, shared_checkpoints

_KINDS = {"jobs": "job", "schemas": "schema", "volumes": "volume"}
_SECRET_NAME = re.compile(r"password|passwd|token|api_?key|(?<!service_)credential|secret(?!_scope)", re.I)


@dataclass(frozen=True)
class Fault:
    check: str
    target: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.target or 'files'}: {self.where}: {self.text}"


Found = Iterator[tuple[str, str]]


def check_bundle(bundle: Bundle) -> tuple[Fault, ...]:
    """Every fault of the files and of every target; empty when the bundle may be deployed."""
    faults = [Fault(name, "", where, text) for name, check in FILE_CHECKS.items() for where, text in check(bundle)]
    for target_name in bundle.targets:
        target = resolve_target(bundle, target_name)
        for name, check in {**JOB_CHECKS, **STORAGE_CHECKS}.items():
            faults += [Fault(name, target_name, where, text) for where, text in check(bundle, target)]
    return tuple(faults)


def _one_resource_per_file(bundle: Bundle) -> Found:
    for path, content in bundle.files.items():
        resources = [(kind, key) for kind, keys in (content.get("resources") or {}).items() for key in keys]
        if path == MAIN:
            if resources:
                yield path, "declares resources; each belongs into a file of its own below resources/"
            continue
        if len(resources) != 1:
            yield path, f"declares {len(resources)} resources"
            continue
        kind, key = resources[0]
        expected = f"resources/{key}.{_KINDS.get(kind, kind.rstrip('s'))}.yml"
        if path != expected:
            yield path, f"should be named {expected}"


def _pause_status(bundle: Bundle) -> Found:
    for path, content in bundle.files.items():
        for where, key, _ in walk(content.get("resources") or {}):
            if key == "pause_status":
                yield f"{path}: {where}", "dev pauses only what does not say; leave it to the target"


def _variables(bundle: Bundle) -> Found:
    for name, variable in (bundle.main.get("variables") or {}).items():
        if not (variable or {}).get("description"):
            yield name, "has no description"
        if _SECRET_NAME.search(name):
            yield name, "looks like a secret; pass the name of a secret scope"


def _default_target(bundle: Bundle) -> Found:
    targets = bundle.main.get("targets") or {}
    defaults = [name for name, target in targets.items() if (target or {}).get("default")]
    if defaults != ["dev"]:
        yield "targets", f"default is {defaults}; a bare `bundle deploy` has to be the harmless one, dev"
    for name, target in targets.items():
        mode = (target or {}).get("mode")
        if mode != ("development" if name.partition("_")[0] == "dev" else "production"):
            yield name, f"has mode {mode}"


FILE_CHECKS: dict[str, Callable[[Bundle], Found]] = {
    "one-resource-per-file": _one_resource_per_file,
    "pause-status": _pause_status,
    "variable": _variables,
    "target-mode": _default_target,
    "shared-checkpoint": shared_checkpoints,
}
