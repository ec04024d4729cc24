"""What users type on the command line about jobs, triggers and executions, read by `quartzpy.scheduler.typed_text`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.methods.queries import checked_fire_id
from quartzpy.scheduler.typed_text import likely_key, read_group, read_key
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.scheduler.scheduler import BaseScheduler


def job_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> JobKey:
    """Return the key of the stored job that a text names; see `read_key`."""
    return read_key(scheduler, text, JobKey, group)


def trigger_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> TriggerKey:
    """Return the key of the stored trigger that a text names; see `read_key`."""
    return read_key(scheduler, text, TriggerKey, group)


def likely_trigger_key(scheduler: BaseScheduler, text: str, group: str | None = None) -> TriggerKey:
    """Return the key of a trigger that may have ended; see `likely_key`."""
    return likely_key(scheduler, text, TriggerKey, group)


def execution_id(text: str) -> int:
    """Return the id of an execution.

    Raises:
        SettingsError: no execution can have this id.
    """
    try:
        return checked_fire_id(text)
    except InvalidValueError:
        raise SettingsError(
            f"FIRE_ID: the number of an execution, as `quartzpy executions` lists it (got {quoted(text)})"
        ) from None


def group_matcher(text: str | None) -> GroupMatcher | None:
    """Return the matcher for the option `--group`; see `read_group`."""
    return None if text is None else read_group(text, "--group")
