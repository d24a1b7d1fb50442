"""Measurements: `python -m benchmarks [names…] [--quick]` prints one table. docs/benchmarks.md says how to read it."""
