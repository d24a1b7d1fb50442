"""A clock that stands before what was written already: nothing that counts from now can be told by it."""

from __future__ import annotations

from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands
from surestart.words.time_text import span_text, time_text

# Clocks of one cluster differ by seconds. What counts by days is not changed by less than this.
TOLERATED = 3_600_000


def find_clock_behind(what: str, written_at: int | None, now: int, commands: Commands) -> tuple[Finding, ...]:
    """A finding, or nothing while the clock may be right. what: what is said to have been written at that time."""
    if written_at is None or written_at <= now + TOLERATED:
        return ()
    return (
        Finding(
            "CLOCK_BEHIND",
            Severity.CANNOT_TELL,
            f"this machine's clock says {time_text(now)}; {what} was written at {time_text(written_at)}, "
            f"{span_text(written_at - now)} later",
            "What has expired by now, and what will soon, cannot be told by a clock that is behind.",
            commands.doctor(),
            "take what has not expired by a wrong clock for something that is still there.",
        ),
    )
