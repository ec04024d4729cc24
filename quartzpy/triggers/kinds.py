"""The kinds of triggers: importing this makes all of them known by the names that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.texts import quoted, reason
from quartzpy.triggers import calendar_interval, combined, cron, daily_time_interval, fixed_delay, recurrence, simple
from quartzpy.triggers.trigger import Trigger, trigger_kind

__all__ = [
    "calendar_interval",
    "combined",
    "cron",
    "daily_time_interval",
    "fixed_delay",
    "recurrence",
    "simple",
    "stored_schedule",
    "trigger_kind",
]


def stored_schedule(kind: str, schedule: Mapping[str, Any], **common: Any) -> Trigger:
    """The trigger of that kind whose `schedule()` was stored, with the common values given by name.

    Raises:
        InvalidValueError: a value is missing, or is what no trigger of the kind can have.
    """
    cls = trigger_kind(kind)
    try:
        return cls.from_schedule(schedule, **common)
    except InvalidValueError:
        raise
    except KeyError as missing:
        raise InvalidTriggerError(f"{kind} trigger: {quoted(missing.args[0])} is missing in its schedule") from None
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise InvalidTriggerError(f"{kind} trigger: its schedule cannot be read: {reason(error)}") from error
