"""The source of jitter, apart from the generator that the `random` module shares.

A program that seeds the shared generator alike on all nodes would otherwise make the nodes wait in step.
"""

from __future__ import annotations

from random import SystemRandom

uniform = SystemRandom().uniform
"""Return a random number between two bounds, as `random.uniform` does."""
