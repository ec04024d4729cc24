"""The kinds of triggers: importing this makes all of them known by the names that are stored."""

from __future__ import annotations

from quartzpy.triggers import calendar_interval, combined, cron, daily_time_interval, recurrence, simple
from quartzpy.triggers.trigger import trigger_kind

__all__ = ["calendar_interval", "combined", "cron", "daily_time_interval", "recurrence", "simple", "trigger_kind"]
