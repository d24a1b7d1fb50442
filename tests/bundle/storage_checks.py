"""Checks of what the streams depend on: checkpoint paths, the volumes they lie in, the schema, the source.

A checkpoint path is right when it is the same at every run and for everyone who deploys, differs between targets and
jobs, lies in a protected volume, and can be read in the job's description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.bundle.bundle_files import Bundle, Target, resolve_target
from tests.bundle.checkpoints import read_claims

Found = Iterator[tuple[str, str]]


def shared_checkpoints(bundle: Bundle) -> Found:
    owners: dict[str, str] = {}
    for name in bundle.targets:
        for job, use in read_claims(bundle, resolve_target(bundle, name)).uses:
            here, path = f"{name}/{job}/{use.task}", use.path.rstrip("/")
            for other, owner in owners.items():
                if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
                    yield here, f"{path} is, contains or is inside the checkpoint of {owner}"
            owners.setdefault(path, here)


def _checkpoint_paths(bundle: Bundle, target: Target) -> Found:
    claims = read_claims(bundle, target)
    yield from claims.refused
    volumes = target.resources("volumes").values()
    protected = [v["volume_path"] for v in volumes if (v.get("lifecycle") or {}).get("prevent_destroy") is True]
    for key, use in claims.uses:
        if "{{" in use.path or "$" in use.path:
            yield key, f"checkpoint {use.path} is decided at run time"
        if not any(use.path.startswith(f"{volume}/") for volume in protected):
            yield key, f"checkpoint {use.path} is in no volume of this bundle with prevent_destroy"
        if use.path not in str(target.jobs[key].get("description")):
            yield key, f"description does not show the checkpoint {use.path}"


def _same_for_everyone(bundle: Bundle, target: Target) -> Found:
    """In dev everyone has their own checkpoints, on purpose; staging and prod are one, whoever deploys."""
    if target.config.get("mode") == "development":
        return
    mine, theirs = (resolve_target(bundle, target.name, user) for user in ("alice", "bob"))
    for (key, use), (_, other) in zip(read_claims(bundle, mine).uses, read_claims(bundle, theirs).uses, strict=True):
        if use != other:
            yield key, f"{use.path} depends on who deploys"
    if mine.config["workspace"]["root_path"] != theirs.config["workspace"]["root_path"]:
        yield "workspace.root_path", "depends on who deploys: two copies of every job on the same checkpoints"


def _storage(bundle: Bundle, target: Target) -> Found:
    for kind in ("schemas", "volumes"):
        for key, resource in target.resources(kind).items():
            if (resource.get("lifecycle") or {}).get("prevent_destroy") is not True:
                yield f"{kind}.{key}", "has no lifecycle.prevent_destroy: a renamed schema would take it along"
    for key, volume in (target.raw["resources"].get("volumes") or {}).items():
        if not re.fullmatch(r"\$\{resources\.schemas\.\w+\.name\}", str(volume.get("schema_name"))):
            yield f"volumes.{key}", "schema_name is not a reference: dev prefixes the schema and not the volume"
    schemas = {(schema["catalog_name"], schema["name"]) for schema in target.resources("schemas").values()}
    for key, use in read_claims(bundle, target).uses:
        place = (use.settings.get("catalog"), use.settings.get("schema"))
        if use.stage and place not in schemas:
            yield key, f"writes to {'.'.join(map(str, place))}, which is not the schema of this target"


def _source(bundle: Bundle, target: Target) -> Found:
    for key, use in read_claims(bundle, target).uses:
        source = use.settings.get("source", "files")
        if source not in ("files", "kafka"):
            yield key, f"source {source!r} is neither kafka nor files"
        for name in ("bootstrap", "topic"):
            if source == "kafka" and not use.settings.get(name):
                yield key, f"source is kafka and {name} is empty"


STORAGE_CHECKS: dict[str, Callable[[Bundle, Target], Found]] = {
    "checkpoint-path": _checkpoint_paths,
    "same-for-everyone": _same_for_everyone,
    "storage": _storage,
    "source": _source,
}
