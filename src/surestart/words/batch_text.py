"""Batches as a person says them: one is "batch 0", never "0..0"."""

from __future__ import annotations


def batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first}..{last}"
