"""Cron expressions in Quartz's dialect and in crontab's. Pure functions and values."""
