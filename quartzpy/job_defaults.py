"""A scheduler's defaults for its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quartzpy.errors import InvalidJobError, InvalidValueError
from quartzpy.job import DEFAULTABLE, JobDetail
from quartzpy.texts import did_you_mean, quoted


def checked_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Validate and return a scheduler's defaults for jobs.

    Raises:
        InvalidJobError: a value is wrong, or a name cannot have a default.
    """
    if defaults is None:
        return {}
    if not isinstance(defaults, Mapping):
        raise InvalidJobError(f"job_defaults: a mapping of values of JobDetail is needed (got {quoted(defaults)})")
    for name in defaults:
        if name not in DEFAULTABLE:
            hint = did_you_mean(str(name), DEFAULTABLE, "names")
            raise InvalidJobError(f"job_defaults: {quoted(name)} cannot have a default; {hint}")
    try:
        JobDetail("job-defaults", "job-defaults", **defaults)
    except InvalidValueError as error:
        raise InvalidJobError(f"job_defaults: {error}") from error
    return dict(defaults)
