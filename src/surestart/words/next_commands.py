"""The exact next command for a stage of an environment, spelled in one place so that it stays runnable."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from surestart.typed import at, surestart, word

# Where the reader has to put in what nobody has told: taken for a table's name, it is none, and nothing is called safe.
THE_TABLE = "PATH_OF_THE_TABLE"
THE_CHECKPOINT = "PATH_OF_THE_CHECKPOINT"
_MAY_START = "it may be started; this looks again"
# What a remedy does, for somebody who has to do it without one.
_BY_HAND = {
    "resume": "once the rows of the batch in flight were looked for in the sink, and removed where they are there",
    "replay": "once its owner has moved the checkpoint aside whole, and begun a new one where the output ends",
    "backfill": "once a query of its own has written the rows that are missing",
    "reset": "once its owner has moved the checkpoint aside whole, emptied the output and begun anew",
}
# What a person says of a sink with each of these; only they can know.
_SAID = {
    "shared": "it is known that others write there too",
    "new": "it is known that this query has never written there",
    "keys": "COLUMN is what the MERGE matches by, and it adds to no value",
}


@dataclass(frozen=True)
class Commands:
    """options: what else this call was given and the next one needs (--root, --set, --pipeline), quoted already.
    of_a_remedy: whoever reads it is not starting the stage, and must not be told to."""

    stage: str
    environment: str = ""
    options: str = ""
    of_a_remedy: bool = False

    def plan(self, remedy: str) -> str:
        # Where to begin again is computed from the output: the checkpoint that a finding is about cannot be asked.
        begin = "--from-output " if remedy == "replay" else ""
        return surestart("plan", remedy, self.stage, place=f"{self._place} {begin}-o plan.json".lstrip())

    def run(self, note: str = "") -> str:
        return surestart("run", self.stage, place=self._place, note=note)

    def accept(self, *codes: str) -> str:
        if self.of_a_remedy:
            known = ", with --accept OWNER_UNKNOWN" if "OWNER_UNKNOWN" in codes else ""
            return f"{self.history()}  # end that driver; once it is gone, the same command again{known}"
        accepted = " ".join(f"--accept {word(code)}" for code in codes)
        return surestart("run", self.stage, place=f"{self._place} {accepted}".lstrip())

    def settle(self, code: str, said: str) -> str:
        """For a question that a person answers: said is what they say of the sink, where a command takes it."""
        return self.accept(code)

    def doctor(self, note: str = "") -> str:
        return surestart("doctor", self.stage, place=self._place, note=note)

    def history(self) -> str:
        return surestart("history", self.stage, place=self._place)

    @property
    def _place(self) -> str:
        return at(self.environment, self.options) if self.environment else self.options


@dataclass(frozen=True)
class OwnersCommands(Commands):
    """For a declared stream: surestart judges it, and its owner's code starts it."""

    def plan(self, remedy: str) -> str:
        return self.doctor(_BY_HAND[remedy])

    def run(self, note: str = "") -> str:
        return self.doctor(note or _MAY_START)

    def accept(self, *codes: str) -> str:
        return self.doctor(f"it may be started by whoever has settled {' and '.join(codes)}")

    def settle(self, code: str, said: str) -> str:
        name, _, value = said.partition("=")
        told = f'{name} = ["{value}"]' if value else f"{name} = true"
        return self.doctor(f"with {told} in the sink of surestart.toml, where {_SAID[name]}")

    def instead(self, command: str) -> str:
        """The command for a declared stream, where this one is for a stage that surestart runs."""
        words = command.split()
        if words[:2] == ["surestart", "plan"] and words[2:3] and words[2] in _BY_HAND:
            return self.plan(words[2])
        return self.run() if words[:2] == ["surestart", "run"] else command


def commands_for(stage: str, environment: str, options: str, *, ours: bool) -> Commands:
    return (Commands if ours else OwnersCommands)(stage, environment, options)


@dataclass(frozen=True)
class ForeignCommands(Commands):
    """For a stream that surestart does not run: no other command knows of its checkpoint, and its owner acts. options:
    the sinks and the Spark line that this call was given, quoted already."""

    location: str = ""

    @classmethod
    def of(cls, location: str, sinks: tuple[str, ...] = (), options: str = "") -> ForeignCommands:
        named = " ".join(f"--sink {word(sink)}" for sink in sinks or (THE_TABLE,))
        return cls("", options=f"{named} {options}".rstrip(), location=location)

    def plan(self, remedy: str) -> str:
        return self._look(_BY_HAND[remedy])

    def run(self, note: str = "") -> str:
        return self._look(note or _MAY_START)

    def accept(self, *codes: str) -> str:
        return self._look(f"it may be started by whoever has settled {' and '.join(codes)}")

    def settle(self, code: str, said: str) -> str:
        name, _, value = said.partition("=")
        option = f"--{name} {value}".rstrip()
        return surestart("inspect", self.location, place=f"{self.options} {option}", note=f"where {_SAID[name]}")

    def doctor(self, note: str = "") -> str:
        return self._look(note or "again, once that is settled")

    def history(self) -> str:
        return self._look("once it is known which other run writes here, and that it has ended")

    def _look(self, note: str) -> str:
        return surestart("inspect", self.location, place=self.options, note=note)


def says_start(line: str) -> bool:
    """Whether this next step is to start the query, and nothing has to be accepted for it."""
    return (line.startswith("surestart run ") and " --accept " not in line) or _MAY_START in line


def program() -> str:
    """`surestart`, or where it lies when the shell would not find it by that name, as under `make run`."""
    import shutil

    if shutil.which("surestart"):
        return "surestart"
    script = Path(sys.executable).with_name("surestart")
    if not script.exists():
        return f"{word(sys.executable)} -m surestart"
    here = Path.cwd()
    return word(script.relative_to(here) if script.is_relative_to(here) else script)
