"""Instants in options: `--since 2h`, `--until tomorrow`, `--since 2026-12-24T18:00`."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.cli.cells import Cells
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.instants import as_span
from quartzpy.texts import quoted

PAST, FUTURE = -1, 1
FORMS = "an instant such as 2026-12-24T18:00, a time of today such as 18:00, or a length of time such as 2h"


def instant(text: str | None, option: str, cells: Cells, now: datetime, *, direction: int = PAST) -> datetime | None:
    """Return the instant that an option gives; None for None.

    An instant or a time without an offset is in the zone of `cells`. A length of time counts from `now`: back, or
    forward if `direction` is FUTURE; a sign before it decides by itself.

    Raises:
        SettingsError: the text has none of these forms.
    """
    if text is None:
        return None
    given = text.strip()
    local = cells.local(now)
    if given == "now":
        return now
    if given in ("today", "tomorrow", "yesterday"):
        days = {"yesterday": -1, "today": 0, "tomorrow": 1}[given]
        midnight = (local + timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)
        return _aware(midnight.replace(tzinfo=None), cells)
    sign = {"-": PAST, "+": FUTURE}.get(given[:1])
    try:
        span = as_span(given[1:] if sign else given, option)
    except InvalidValueError:
        pass
    else:
        try:
            return now + span * (sign or direction)
        except OverflowError:
            raise SettingsError(f"{option}: {quoted(text)} is beyond the years 1 to 9999") from None
    try:
        if len(given) <= len("18:00:00") and ":" in given:
            given = f"{local.date()}T{given}"
        found = datetime.fromisoformat(given)
    except ValueError:
        raise SettingsError(f"{option}: must be {FORMS} (got {quoted(text)})") from None
    return found if found.tzinfo is not None else _aware(found, cells)


def _aware(naive: datetime, cells: Cells) -> datetime:
    return naive.astimezone() if cells.zone is None else naive.replace(tzinfo=cells.zone)
