"""Streams that surestart does not run, as their owner declares them."""
