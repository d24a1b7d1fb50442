"""A port of 127.0.0.1 that nothing listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Free a moment ago: somebody else may take it before its user does, who must then say so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
