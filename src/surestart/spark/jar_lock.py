"""Which jars are used, by content: a lock names each one with its SHA-256, and every use is held against it.

    jar_locks/spark-4.0.json     the connectors of a line of Spark, with all that they pull in
    jar_locks/kafka-broker.json  the local broker

    {"requested": ["io.delta:…:4.4.0", …], "jars": {"io.delta_delta-….jar": "<SHA-256>", …}}

Ivy and Maven find jars by name and version: in a cache of this machine, or wherever they are told to look. What they
bring is used only when it is byte for byte what was locked. `make lock` writes the locks.

A folder of jars in the cache: made beside its place and put there whole, so that two that resolve at the same time
do not write into each other's, and a session that runs always finds its jars."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import Refused
from surestart.typed import typed

FOLDER = Path(__file__).parent / "jar_locks"


@dataclass(frozen=True)
class JarLock:
    """requested: the coordinates that were resolved.
    jars: file name -> SHA-256."""

    name: str
    requested: tuple[str, ...]
    jars: Mapping[str, str]


def read_lock(name: str, requested: Sequence[str], module: str) -> JarLock:
    """The lock of that name; raises when there is none for what is requested. module: what resolves and locks."""
    path = FOLDER / f"{name}.json"
    try:
        body = json.loads(path.read_text())
        lock = JarLock(name, tuple(body["requested"]), dict(body["jars"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refused(name, f"has no lock that can be read ({type(error).__name__})", f"{module} --lock") from error
    if lock.requested != tuple(requested):
        other = sorted(set(lock.requested) ^ set(requested))
        raise _refused(name, f"is locked for other versions: {', '.join(other)}", f"{module} --lock")
    return lock


def write_lock(name: str, requested: Sequence[str], jars: Iterable[Path]) -> JarLock:
    lock = JarLock(name, tuple(requested), {jar.name: jar_digest(jar) for jar in sorted(jars)})
    FOLDER.mkdir(exist_ok=True)
    body = {"requested": list(lock.requested), "jars": dict(lock.jars)}
    (FOLDER / f"{name}.json").write_text(json.dumps(body, indent=1) + "\n")
    return lock


def check_jars(lock: JarLock, jars: Sequence[Path], module: str, *, more: bool = False) -> None:
    """Every locked jar is among them and is what was locked, and nothing else is there but what was asked for beside
    the lock (`more`). Raises Refused otherwise, before any of them is used."""
    found = {jar.name: jar for jar in jars}
    missing = sorted(lock.jars.keys() - found.keys())
    unknown = [] if more else sorted(found.keys() - lock.jars.keys())
    if missing or unknown:
        what = [f"lacks {', '.join(missing[:3])}"] if missing else []
        what += [f"has {', '.join(unknown[:3])}, which the lock does not name"] if unknown else []
        raise _refused(lock.name, " and ".join(what), f"{module} --again")
    for name, digest in lock.jars.items():
        actual = jar_digest(found[name])
        if actual != digest:
            raise _refused(
                lock.name,
                f"has another {name} than was locked: SHA-256 {actual[:16]}…, "
                f"locked {digest[:16]}…, in {found[name].parent}",
                f"{module} --again",
            )


def jar_digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refused(name: str, what: str, module: str) -> Refused:
    return Refused(
        f"the set of jars {name!r} {what}",
        meaning="A jar runs with all rights of this process. One that is not the locked one was damaged, exchanged, or "
        "comes from another repository; none of them was used.",
        next=typed(sys.executable, "-m", *module.split()),
        do_not="copy a jar into the cache by hand, or lock it anew before it is known where it comes from.",
        code="JarNotAsLocked",
    )


# Written last: a folder without it is not complete.
STAMP = "resolved.json"


def fill_folder(folder: Path, fill: Callable[[Path], str], *, again: bool = False) -> None:
    """The folder is there whole. fill: puts everything into the folder that it gets, and returns the text of its stamp.
    again: also where it is complete; the former one stays in its place until then."""
    draft, former = (folder.with_name(f"{folder.name}.{os.getpid()}{end}") for end in ("", ".former"))
    try:
        stamp = fill(draft)
        (draft / STAMP).write_text(stamp)
        if again or not (folder / STAMP).exists():
            with suppress(FileNotFoundError):
                folder.rename(former)
        with suppress(OSError):  # Another process was quicker with the same jars.
            draft.rename(folder)
    finally:
        for rest in (draft, former):
            shutil.rmtree(rest, ignore_errors=True)


def follow_download(lines: Iterable[str], say: Callable[[str], object]) -> list[str]:
    """All that a resolver prints; `say` gets a line for each jar that it downloads."""
    seen: list[str] = []
    for line in lines:
        seen.append(line.rstrip())
        if line.startswith("downloading"):
            count = sum(text.startswith("downloading") for text in seen)
            say(f"  downloading jar {count}: {line.split()[1].rsplit('/', 1)[-1]}")
    return seen


def last_problem(lines: Sequence[str]) -> str:
    problems = [text for text in lines if any(word in text.lower() for word in ("unresolved", "error", "not found"))]
    return (problems or lines or ["no output"])[-1].strip()
