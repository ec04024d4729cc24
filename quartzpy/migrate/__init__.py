"""Imports the schedules of other programs: readers, one neutral plan, and the function that applies it.

Each reader returns an `ImportPlan`, which describes jobs, triggers, calendars and pauses as quartzpy would store them,
with notes about everything that changes or cannot come over. `apply` stores a plan in one transaction.
"""

from quartzpy.migrate.apply import ImportOutcome, apply
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, Severity

__all__ = ["ImportOutcome", "ImportPlan", "ImportedJob", "ImportedTrigger", "Note", "Severity", "apply"]
