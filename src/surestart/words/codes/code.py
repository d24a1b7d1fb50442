"""One code of ours: what it is called, how bad it can be, what it means, and which command comes next."""

from __future__ import annotations

from dataclasses import dataclass

# Of a finding, the worst first.
UNSAFE, CANNOT_TELL, ATTENTION, INFO = "unsafe", "cannot tell", "attention", "info"
# Of an error, by its exit code.
USAGE, REFUSED, HALF_WAY, UNEXPECTED = "usage", "refused", "stopped half-way", "unexpected"

# {stage} is filled in where it is known.
DOCTOR = "surestart doctor {stage}"
RUN = "surestart run {stage}"
RESUME = "surestart plan resume {stage} -o plan.json"
REPLAY = "surestart plan replay {stage} --from-output -o plan.json"
BACKFILL = "surestart plan backfill {stage} -o plan.json"
RESET = "surestart plan reset {stage} -o plan.json"
HISTORY = "surestart history {stage}"
STATUS = "surestart status"
VERIFY = "surestart verify"
PRUNE = "surestart prune"
KAFKA = "surestart kafka status"


@dataclass(frozen=True)
class Code:
    """says: what is the case, in one or two sentences.
    kinds: every severity, or every kind of error, that it has.
    finding: whether the doctor finds it, or a call ends with it; a few are both."""

    name: str
    kinds: tuple[str, ...]
    says: str
    command: str
    finding: bool


def found(name: str, kinds: str, says: str, command: str = DOCTOR) -> Code:
    return Code(name, tuple(kinds.split(", ")), says, command, finding=True)


def raised(name: str, kinds: str, says: str, command: str = DOCTOR) -> Code:
    return Code(name, tuple(kinds.split(", ")), says, command, finding=False)
