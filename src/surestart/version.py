"""The version of this package, as its wheel has it."""

VERSION = "0.1.0"
