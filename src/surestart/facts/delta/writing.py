"""Which operations of a table write rows."""

from __future__ import annotations

# Commands that give a table rows or take them; what only keeps house is no batch.
WRITING = ("WRITE", "MERGE", "UPDATE", "DELETE", "COPY INTO", "STREAMING UPDATE")
