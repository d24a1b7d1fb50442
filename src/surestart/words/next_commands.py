"""The next command for a stage of an environment, by who starts it: surestart, or its owner.

What to type where a package is missing: the packages of an extra of ours, each by its own name.

The name `surestart` stands on no index: whoever typed it with an extra behind it would get nothing, or somebody else's
package of that name. What an extra brings stands in the metadata of the installed wheel."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from surestart.environment import Environment
from surestart.stage import Stage
from surestart.typed import PLAN_FILE, NextCommand, NextStep, Place, Verbatim, Words, surestart, typed, word

# Where the reader has to put in what nobody has told: taken for a table's name, it is none, and nothing is called safe.
THE_TABLE = "PATH_OF_THE_TABLE"
THE_CHECKPOINT = "PATH_OF_THE_CHECKPOINT"
_MAY_START = "it may be started; this looks again"
# What a remedy does, for somebody who has to do it without one.
_BY_HAND = {
    "resume": "once you have looked for the rows of the batch in flight in the sink, and removed those that are there",
    "replay": "once its owner has moved the whole checkpoint aside, and begun a new one where the output ends",
    "backfill": "once a query of its own has written the rows that are missing",
    "reset": "once its owner has moved the whole checkpoint aside, emptied the output and begun anew",
}
# What a person says of a sink with each of these; only they can know.
_SAID = {
    "shared": "it is known that others write there too",
    "new": "it is known that this query has never written there",
    "keys": "COLUMN is what the MERGE matches by, and the MERGE adds to no value",
}
# The same of a sink that keeps no record: as the file has it, as `inspect` has it, and what comes of it.
_TELLS = {
    "": ("", "", ""),
    "keys": ('keys = ["COLUMN"]', "--keys COLUMN", "where each row takes the place of the one with its key"),
    "bootstrap": ('bootstrap = "host:port"', "--sink kafka://HOST:PORT/TOPIC", "so that its brokers are asked"),
}


@dataclass(frozen=True)
class Commands:
    """options: what else this call was given and the next one needs (--root, --set, --pipeline).
    of_a_remedy: whoever reads it is not starting the stage, and must not be told to."""

    stage: str
    environment: str = ""
    options: Words = ()
    of_a_remedy: bool = False

    def plan(self, remedy: str) -> NextStep:
        # Where to begin again is computed from the output: the checkpoint that a finding is about cannot be asked.
        begin = ("--from-output",) if remedy == "replay" else ()
        return surestart("plan", remedy, self.stage, place=self.place, more=(*begin, *PLAN_FILE))

    def run(self, note: str = "") -> NextStep:
        return surestart("run", self.stage, place=self.place, note=note)

    def accept(self, *codes: str) -> NextStep:
        if self.of_a_remedy:
            known = ", with --accept OWNER_UNKNOWN" if "OWNER_UNKNOWN" in codes else ""
            return self.history().noting(f"end that driver; once it is gone, the same command again{known}")
        accepted = [word for code in codes for word in ("--accept", code)]
        return surestart("run", self.stage, place=self.place, more=accepted)

    def settle(self, code: str, said: str) -> NextStep:
        """For a question that a person answers: said is what they say of the sink, where a command takes it."""
        return self.accept(code)

    def tell(self, what: str) -> NextStep:
        """For a sink that keeps no record: what its owner may say of it, or "" where nothing helps."""
        return self.doctor()

    def doctor(self, note: str = "") -> NextCommand:
        return surestart("doctor", self.stage, place=self.place, note=note)

    def history(self) -> NextCommand:
        return surestart("history", self.stage, place=self.place)

    @property
    def place(self) -> Place:
        return Place(self.environment, self.options)


@dataclass(frozen=True)
class OwnersCommands(Commands):
    """For a declared stream: surestart judges it, and its owner's code starts it."""

    def plan(self, remedy: str) -> NextStep:
        return self.doctor(_BY_HAND[remedy])

    def run(self, note: str = "") -> NextStep:
        return replace(self.doctor(note or _MAY_START), instead_of_start=True)

    def accept(self, *codes: str) -> NextStep:
        return self.doctor(f"it may be started by whoever has settled {' and '.join(codes)}")

    def settle(self, code: str, said: str) -> NextStep:
        name, _, value = said.partition("=")
        told = f'{name} = ["{value}"]' if value else f"{name} = true"
        return self.doctor(f"with {told} in the sink of surestart.toml, where {_SAID[name]}")

    def tell(self, what: str) -> NextStep:
        told, _, why = _TELLS[what]
        return self.doctor(f"with {told} in the sink of surestart.toml, {why}" if told else "")

    def instead(self, step: NextStep) -> NextStep:
        """The step for a declared stream, where this one is for a stage that surestart runs."""
        if isinstance(step, NextCommand) and step.verb == "plan" and step.words[0] in _BY_HAND:
            return self.plan(step.words[0])
        return self.run() if isinstance(step, NextCommand) and step.verb == "run" else step


def commands_for(stage: Stage, environment: Environment, options: Words = ()) -> Commands:
    return (Commands if stage.ours else OwnersCommands)(stage.name, environment.name, options)


@dataclass(frozen=True)
class ForeignCommands(Commands):
    """For a stream that surestart does not run: no other command knows of its checkpoint, and its owner acts. options:
    the sinks and the Spark line that this call was given."""

    location: str = ""

    @classmethod
    def of(cls, location: str, sinks: tuple[str, ...] = (), options: Words = ()) -> ForeignCommands:
        named = [word for sink in sinks or (THE_TABLE,) for word in ("--sink", sink)]
        return cls("", options=(*named, *options), location=location)

    def plan(self, remedy: str) -> NextStep:
        return self._look(_BY_HAND[remedy])

    def run(self, note: str = "") -> NextStep:
        return replace(self._look(note or _MAY_START), instead_of_start=True)

    def accept(self, *codes: str) -> NextStep:
        return self._look(f"it may be started by whoever has settled {' and '.join(codes)}")

    def settle(self, code: str, said: str) -> NextStep:
        name, _, value = said.partition("=")
        return self._look(f"where {_SAID[name]}").adding(f"--{name}", *filter(None, (value,)))

    def tell(self, what: str) -> NextStep:
        _, told, why = _TELLS[what]
        return self.doctor(f"with {told}, {why}" if told else "")

    def doctor(self, note: str = "") -> NextCommand:
        return self._look(note or "again, once that is settled")

    def history(self) -> NextCommand:
        return self._look("once it is known which other run writes here, and that it has ended")

    def _look(self, note: str) -> NextCommand:
        return surestart("inspect", self.location, place=self.place, note=note)


def program() -> Verbatim:
    """`surestart`, or where it lies when the shell would not find it by that name, as under `make run`."""
    import shutil

    if shutil.which("surestart"):
        return Verbatim("surestart")
    script = Path(sys.executable).with_name("surestart")
    if not script.exists():
        return Verbatim(f"{word(sys.executable)} -m surestart")
    here = Path.cwd()
    return Verbatim(word(script.relative_to(here) if script.is_relative_to(here) else script))


_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def install_extra(*extras: str) -> NextCommand:
    """One line that installs what these extras bring into this Python."""
    brought = [package for extra in extras for package in packages_of(extra)]
    named = f"surestart[{','.join(extras)}]"
    # Of sources that nobody has installed nothing is known but the extra's name.
    return install(*(brought or [named]), note=f"what the extra {named} brings")


def install(*packages: str, note: str = "") -> NextCommand:
    """One line that installs these packages into this Python."""
    return typed(sys.executable, "-m", "pip", "install", *packages, note=note)


def packages_of(extra: str) -> list[str]:
    """The requirements of the extra, as the installed package's metadata has them; empty where it has none."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        said = requires("surestart") or []
    except PackageNotFoundError:
        return []
    parts = [line.partition(";") for line in said]
    return [package.strip() for package, _, marker in parts if extra in _EXTRA.findall(marker)]
