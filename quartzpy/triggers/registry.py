"""The kinds of triggers. Importing this module registers all of them under their stored names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.texts import quoted, reason
from quartzpy.triggers import (
    business_days,
    calendar_interval,
    combined,
    cron,
    daily_time_interval,
    fixed_delay,
    recurrence,
    simple,
)
from quartzpy.triggers.trigger import Trigger, trigger_kind

__all__ = [
    "business_days",
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
    """Return the trigger of a kind from its stored `schedule()`, with the values common to all kinds in `common`.

    Raises:
        InvalidValueError: A value is missing, or is invalid for this kind of trigger.
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
