"""Imports the schedules of other programs: readers, one neutral plan, and the function that applies it.

Each reader returns an `ImportPlan`, which describes jobs, triggers, calendars and pauses as quartzpy would store them,
with notes about everything that changes or cannot come over. `apply` stores a plan in one transaction.
"""

from quartzpy.migrate.apply import apply
from quartzpy.migrate.apscheduler import read_apscheduler
from quartzpy.migrate.celery_beat import read_celery_beat
from quartzpy.migrate.class_map import ClassMap, load_class_map
from quartzpy.migrate.crontab import read_crontab
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan, Note, NoteSeverity
from quartzpy.migrate.quartz import read_quartz
from quartzpy.migrate.slices import ImportOutcome

__all__ = [
    "ClassMap",
    "ImportOutcome",
    "ImportPlan",
    "ImportedJob",
    "ImportedTrigger",
    "Note",
    "NoteSeverity",
    "apply",
    "load_class_map",
    "read_apscheduler",
    "read_celery_beat",
    "read_crontab",
    "read_quartz",
]
