"""Servers that a laptop, the tests and the benchmarks start for themselves, on 127.0.0.1."""
