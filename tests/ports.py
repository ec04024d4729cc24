"""Ports for programs that are told one and listen later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_RANGE = range(20_000, 30_000)
"""Below the ports that systems give to clients: until the program listens, any connection on this machine might take
one of those, and the tests open thousands."""


def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    while True:
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", random.choice(_RANGE)))
            return int(probe.getsockname()[1])
