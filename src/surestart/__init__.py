"""Streaming jobs that restart correctly however they stopped, and the tooling for a safe way back."""

__version__ = "0.1.0"
