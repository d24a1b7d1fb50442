"""Which operations of a table write rows."""

from __future__ import annotations

# Commands that add rows to a table or remove them. Maintenance, such as OPTIMIZE, is no batch.
WRITING = ("WRITE", "MERGE", "UPDATE", "DELETE", "COPY INTO", "STREAMING UPDATE")
