"""A real Kafka broker on this machine, on 127.0.0.1: for a laptop, the tests and the benchmarks."""
