"""Times, spans, sizes and batches as they are printed: UTC, to the minute or exact, the same on every machine."""

from __future__ import annotations

from datetime import UTC, datetime

# Numbers in a checkpoint may be damaged or hostile; Python's calendar ends with the year 9999.
YEAR_10000 = 253_402_300_800_000


def time_text(milliseconds: float) -> str:
    if not -YEAR_10000 / 8 < milliseconds < YEAR_10000:
        return "an impossible time"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def exact_time(milliseconds: int) -> str:
    """To the millisecond: where a border lies between two of them."""
    if not -YEAR_10000 / 8 < milliseconds < YEAR_10000:
        return "an impossible time"
    when = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d} UTC"


def span_text(milliseconds: float) -> str:
    minutes = max(int(milliseconds // 60_000), 0)
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"


def age_text(now: int, then: int | None) -> str:
    """How long ago, in one unit; a time that is still to come is somebody's wrong clock."""
    if then is None:
        return "-"
    if then > now + 60_000:
        return "in future"
    seconds = max((now - then) // 1000, 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:,} {unit}"
    return f"{seconds} s"


def batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first}..{last}"


def size_text(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def sum_of(total: int | None, rows: int | None) -> int | None:
    """Of what is known; None where nothing is."""
    return total if rows is None else (total or 0) + rows


def rows_or_unknown(rows: int | None) -> str:
    """Where nobody says how many there are, no number."""
    return "?" if rows is None else f"{rows:,}"
