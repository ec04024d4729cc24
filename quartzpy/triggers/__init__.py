"""Triggers: immutable values that compute fire times. Pure functions without clock, threads or I/O."""
