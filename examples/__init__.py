"""Streams of plain Spark, and the lines that guard each of them: examples/README.md."""
