"""One code of ours: what it is called, how bad it can be, what it means, and which command comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace

from surestart.typed import HERE, PLAN_FILE, NextCommand, Place, surestart

# Of a finding, the worst first.
UNSAFE, CANNOT_TELL, ATTENTION, INFO = "unsafe", "cannot tell", "attention", "info"
# Of an error, by its exit code.
USAGE, REFUSED, STOPPED, UNEXPECTED = "usage", "refused", "stopped half-way", "unexpected"

# Stands for the stage of a command, until it is known.
STAGE = "{stage}"
DOCTOR = surestart("doctor", STAGE)
RUN = surestart("run", STAGE)
RESUME = surestart("plan", "resume", STAGE, *PLAN_FILE)
REPLAY = surestart("plan", "replay", STAGE, "--from-output", *PLAN_FILE)
BACKFILL = surestart("plan", "backfill", STAGE, *PLAN_FILE)
RESET = surestart("plan", "reset", STAGE, *PLAN_FILE)
HISTORY = surestart("history", STAGE)
STATUS = surestart("status")
VERIFY = surestart("verify")
PRUNE = surestart("prune")
KAFKA = surestart("kafka", "status")


def of_stage(command: NextCommand, stage: str, place: Place = HERE) -> NextCommand:
    """The command about this stage; "" for all of them at once."""
    words = (stage if word == STAGE else word for word in command.words)
    return replace(command, words=tuple(filter(None, words)), place=place)


@dataclass(frozen=True)
class Code:
    """says: what is the case, in one or two sentences.
    kinds: every severity, or every kind of error, that it has.
    finding: whether the doctor finds it, or a call ends with it; a few are both."""

    name: str
    kinds: tuple[str, ...]
    says: str
    command: NextCommand
    finding: bool


def found(name: str, kinds: str, says: str, command: NextCommand = DOCTOR) -> Code:
    return Code(name, tuple(kinds.split(", ")), says, command, finding=True)


def raised(name: str, kinds: str, says: str, command: NextCommand = DOCTOR) -> Code:
    return Code(name, tuple(kinds.split(", ")), says, command, finding=False)
