"""The rows of a checkpoint's state, read without Spark."""
