"""Imports from the tables of Quartz 2.x."""

from quartzpy.migrate.quartz.reader import read_quartz, scheduler_names

__all__ = ["read_quartz", "scheduler_names"]
