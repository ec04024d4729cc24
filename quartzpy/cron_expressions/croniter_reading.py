"""A comparison with croniter's interpretation of a crontab line, for lines shared with programs that use croniter."""

from __future__ import annotations

from datetime import UTC, datetime

from croniter import CroniterBadDateError, CroniterError, croniter

from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.field_parser import uses_hash

_START = datetime(2026, 1, 1, tzinfo=UTC)
_COMPARED = 60
"""The number of fire times that are compared: some weeks of a daily line, an hour of one that fires every minute."""


def croniter_times(line: str, start: datetime, count: int, *, day_or: bool = True) -> list[datetime]:
    """Return the next `count` times in UTC that croniter finds strictly after `start`, or fewer if it finds no more.

    Raises:
        ValueError: croniter does not accept the line.
    """
    has_seconds = len(line.split()) == 6
    iterator = croniter(line, start, ret_type=datetime, day_or=day_or, second_at_beginning=has_seconds)
    times: list[datetime] = []
    try:
        while len(times) < count:
            times.append(iterator.get_next())
    except CroniterBadDateError:
        # It looks no further than 50 years.
        pass
    return times


def read_otherwise_by_croniter(line: str, *, day_or: bool = True) -> str | None:
    """Return a sentence about the first fire time on which croniter differs; None where it agrees or `H` is used.

    Times are compared in UTC: the meaning of the line counts, not the treatment of changes of the clock.

    Raises:
        InvalidCronError: The line is wrong.
    """
    if uses_hash(line):
        return None
    ours = CrontabExpression(line, day_or=day_or).upcoming(_START, _COMPARED)
    try:
        theirs = croniter_times(line, _START, _COMPARED, day_or=day_or)
    except CroniterError as error:
        return f"croniter does not accept this line: {error}"
    if not theirs:
        return "croniter finds no time at all for this line"
    for our, their in zip(ours, theirs, strict=False):
        if our != their:
            return f"croniter reads this line differently: it has {_shown(their)} where quartzpy has {_shown(our)}"
    return None


def _shown(at: datetime) -> str:
    return f"{at:%a %Y-%m-%d %H:%M:%S}"
