"""The start gate: an unsafe start is refused before Spark opens the checkpoint, and a query has one owner."""
