"""The run history of an environment: one Delta table, written through Spark, read without it."""
