"""A cron expression in words."""

from quartzpy.cron.parser import CronFields


def description(fields: CronFields) -> str:
    return fields.text
