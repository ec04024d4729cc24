"""Replaces secrets in job data by a mark, by the names of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

REDACTED = "[redacted]"
SECRETS = ("*password*", "*passwd*", "*secret*", "*token*", "*api_key*", "*apikey*", "*credential*", "*private_key*")
"""The patterns of keys whose values are hidden unless others are given."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """Hides the values of keys that match a pattern, at any depth. Upper and lower case are the same."""

    patterns: tuple[str, ...] = SECRETS

    def of(self, data: Any) -> Any:
        """Return a copy of `data` in which the values of matching keys are `REDACTED`."""
        match data:
            case Mapping():
                return {key: REDACTED if self._hides(key) else self.of(value) for key, value in data.items()}
            case str() | bytes():
                return data
            case Sequence() | set() | frozenset():
                return [self.of(one) for one in data]
        return data

    def _hides(self, key: object) -> bool:
        name = str(key).lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.patterns)
