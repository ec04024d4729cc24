"""Stores of jobs and triggers: the protocol, the values that pass through it, and two implementations."""
