"""Streams that their owner's code starts, behind the same gate as stages: one line in place of `writer.start()`."""
