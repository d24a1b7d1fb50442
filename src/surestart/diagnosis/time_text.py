"""Times and spans in findings: UTC, to the minute, the same on every machine."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def span_text(milliseconds: float) -> str:
    minutes = max(int(milliseconds // 60_000), 0)
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"
