"""Years as people write them: one, a range, or a list."""

from __future__ import annotations

import re

from quartzpy.errors import InvalidValueError
from quartzpy.texts import quoted

MAX_YEARS = 100
_PART = re.compile(r"\s*([0-9]{4})(?:\s*-\s*([0-9]{4}))?\s*", re.ASCII)


def years_in(text: object) -> list[int]:
    """Return the years of a text such as "2027", "2027-2029" or "2026,2027", in order.

    Raises:
        InvalidValueError: it is none of these, or they are more than 100.
    """
    years: set[int] = set()
    for part in text.split(",") if isinstance(text, str) else ("",):
        match = _PART.fullmatch(part)
        if match is None or not 0 <= int(match[2] or match[1]) - int(match[1]) < MAX_YEARS:
            raise InvalidValueError(f"years: such as 2027, 2027-2029 or 2026,2027 (got {quoted(text)})")
        years.update(range(int(match[1]), int(match[2] or match[1]) + 1))
        if len(years) > MAX_YEARS:
            raise InvalidValueError(f"years: at most {MAX_YEARS} (got {quoted(text)})")
    return sorted(years)
