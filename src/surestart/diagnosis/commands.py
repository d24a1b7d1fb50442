"""The exact next command for a stage of an environment, spelled in one place so that it stays runnable."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


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
        begin = " --from-output" if remedy == "replay" else ""
        return f"surestart plan {remedy} {shlex.quote(self.stage)}{self._environment}{begin} -o plan.json"

    def run(self) -> str:
        return f"surestart run {shlex.quote(self.stage)}{self._environment}"

    def accept(self, code: str) -> str:
        if self.of_a_remedy:
            return f"{self.history()}  # end that driver; once it is gone, the same command again"
        return f"{self.run()} --accept {code}"

    def doctor(self) -> str:
        return f"surestart doctor {shlex.quote(self.stage)}{self._environment}"

    def history(self) -> str:
        return f"surestart history {shlex.quote(self.stage)}{self._environment}"

    @property
    def _environment(self) -> str:
        named = f" -e {shlex.quote(self.environment)}" if self.environment else ""
        return f"{named} {self.options}".rstrip()
