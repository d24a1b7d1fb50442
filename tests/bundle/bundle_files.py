"""A bundle as its files say it, and what one target makes of it, without the Databricks CLI and without a workspace.

    databricks.yml + resources/*.yml  --merge-->  target's overrides  --mode: development-->  prefixes, pauses
        --${var.x}, ${bundle.x}, ${workspace.x}, ${resources.kind.key.field}-->  Target.config

What `mode: development` and the computed fields do here was measured with the CLI (docs/decisions/0007-bundle.md).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.\-\[\]]*)\}")
MAIN = "databricks.yml"
# Lists whose entries are merged by this key when a target overrides them; other lists are appended to.
_KEYED = {
    "tasks": "task_key",
    "job_clusters": "job_cluster_key",
    "environments": "environment_key",
    "parameters": "name",
}


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys and says nothing: half of a job would silently vanish."""


def _mapping_without_duplicates(loader: _UniqueKeys, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    doubled = {key for key in keys if keys.count(key) > 1}
    if doubled:
        raise ValueError(f"{node.start_mark}: key written twice: {sorted(map(str, doubled))}")
    return loader.construct_mapping(node, deep=True)


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


@dataclass(frozen=True)
class Bundle:
    """root: the folder of databricks.yml. files: relative path -> parsed content, databricks.yml included."""

    root: Path
    files: Mapping[str, Any]

    @property
    def main(self) -> dict[str, Any]:
        return self.files[MAIN]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.main.get("targets") or {})

    def changed(self, change: Callable[[dict[str, Any]], object]) -> Bundle:
        """A copy after `change` was let loose on its files."""
        files = copy.deepcopy(dict(self.files))
        change(files)
        return replace(self, files=files)


@dataclass(frozen=True)
class Target:
    """A target with every reference replaced. undefined: references that lead nowhere, with where they stand."""

    name: str
    config: dict[str, Any]
    raw: dict[str, Any]
    undefined: tuple[tuple[str, str], ...] = ()
    origins: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def folder_of(self, kind: str, key: str) -> str:
        """The folder that relative paths of a resource start from."""
        return PurePosixPath(self.origins[(kind, key)]).parent.as_posix()

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.resources("jobs")

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        return (self.config.get("resources") or {}).get(kind) or {}


def read_bundle(root: Path) -> Bundle:
    main = _load(root / MAIN)
    files = {MAIN: main}
    for pattern in main.get("include") or []:
        found = sorted(root.glob(pattern))
        if not found:
            raise ValueError(f"include {pattern!r} matches no file")
        files.update({path.relative_to(root).as_posix(): _load(path) for path in found})
    return Bundle(root=root, files=files)


def _load(path: Path) -> Any:
    with path.open(encoding="utf-8") as stream:
        return yaml.load(stream, Loader=_UniqueKeys)


def resolve_target(bundle: Bundle, name: str, user: str = "alice") -> Target:
    """What `user` would deploy to the target `name`."""
    merged: dict[str, Any] = {}
    origins: dict[tuple[str, str], str] = {}
    for path, content in bundle.files.items():
        for kind, entries in (content.get("resources") or {}).items():
            origins.update({(kind, key): path for key in entries})
        merged = _merge(merged, {key: value for key, value in content.items() if key != "targets"})
    override = copy.deepcopy((bundle.main["targets"] or {})[name] or {})
    for variable, value in (override.pop("variables", None) or {}).items():
        entry = value if isinstance(value, dict) and "default" in value else {"default": value}
        merged.setdefault("variables", {}).setdefault(variable, {}).update(entry)
    merged = _merge(merged, override)
    merged.setdefault("bundle", {})["target"] = name
    workspace = merged.setdefault("workspace", {})
    workspace["current_user"] = {"userName": f"{user}@example.com", "short_name": user, "domain_friendly_name": user}
    workspace.setdefault("root_path", f"/Workspace/Users/{user}@example.com/.bundle/${{bundle.name}}/{name}")
    for part in ("file", "artifact", "state", "resource"):
        workspace.setdefault(f"{part}_path", f"${{workspace.root_path}}/{part}s")
    if merged.get("mode") == "development":
        _apply_development_mode(merged, user)
    for volume in ((merged.get("resources") or {}).get("volumes") or {}).values():
        volume["volume_path"] = "/Volumes/{catalog_name}/{schema_name}/{name}".format(**volume)
    undefined: list[tuple[str, str]] = []
    config = _interpolate(merged, merged, "", undefined)
    return Target(name, config, merged, tuple(undefined), origins)


def _apply_development_mode(config: dict[str, Any], user: str) -> None:
    """As measured: an explicit pause_status wins, max_concurrent_runs becomes 4 only when it is unset."""
    resources = config.get("resources") or {}
    for job in (resources.get("jobs") or {}).values():
        job["name"] = f"[dev {user}] {job['name']}"
        job.setdefault("max_concurrent_runs", 4)
        for trigger in ("schedule", "continuous", "trigger"):
            if isinstance(job.get(trigger), dict):
                job[trigger].setdefault("pause_status", "PAUSED")
    for schema in (resources.get("schemas") or {}).values():
        schema["name"] = f"dev_{user}_{schema['name']}"


def _merge(low: Any, high: Any, key: str = "") -> Any:
    if isinstance(low, dict) and isinstance(high, dict):
        merged = dict(low)
        for name, value in high.items():
            merged[name] = _merge(low[name], value, name) if name in low else copy.deepcopy(value)
        return merged
    if isinstance(low, list) and isinstance(high, list):
        identity = _KEYED.get(key)
        if identity is None or not all(isinstance(entry, dict) for entry in [*low, *high]):
            return [*low, *copy.deepcopy(high)]
        entries = {entry.get(identity): entry for entry in low}
        for entry in high:
            known = entries.get(entry.get(identity))
            entries[entry.get(identity)] = _merge(known, entry) if known else copy.deepcopy(entry)
        return list(entries.values())
    return copy.deepcopy(high)


def _interpolate(
    value: Any, config: dict[str, Any], where: str, undefined: list[tuple[str, str]], depth: int = 0
) -> Any:
    if isinstance(value, dict):
        return {k: _interpolate(v, config, f"{where}.{k}".lstrip("."), undefined, depth) for k, v in value.items()}
    if isinstance(value, list):
        return [_interpolate(v, config, f"{where}[{i}]", undefined, depth) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    alone = REFERENCE.fullmatch(value)
    if alone:
        return _look_up(alone.group(1), config, where, undefined, depth)
    return REFERENCE.sub(lambda found: str(_look_up(found.group(1), config, where, undefined, depth)), value)


def _look_up(reference: str, config: dict[str, Any], where: str, undefined: list[tuple[str, str]], depth: int) -> Any:
    parts = reference.split(".")
    if parts[0] == "var":
        parts = ["variables", *parts[1:2], "default", *parts[2:]]
    if parts[0] == "resources" and len(parts) == 4 and parts[3] in ("id", "url"):
        exists = parts[2] in ((config.get("resources") or {}).get(parts[1]) or {})
        parts = parts if not exists else ["bundle", "name"]
    found: Any = config
    for part in parts:
        found = found.get(part) if isinstance(found, dict) else None
        if found is None:
            break
    if found is None or depth > 20:
        undefined.append((where, "${" + reference + "}"))
        return "${" + reference + "}"
    return _interpolate(found, config, where, undefined, depth + 1)
