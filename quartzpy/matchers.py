"""Which groups or keys a request is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quartzpy.errors import InvalidMatcherError


class MatchOperator(StrEnum):
    """How a group is compared (Quartz's `StringMatcher.StringOperatorName`)."""

    EQUALS = "equals"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class GroupMatcher:
    """Chooses groups: `GroupMatcher.starts_with("billing-")`. All characters are literal."""

    operator: MatchOperator
    value: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise InvalidMatcherError(f"matcher: the group must be str (got {self.value!r})")
        if self.operator is MatchOperator.EQUALS and not self.value:
            raise InvalidMatcherError("matcher: no group's name is empty; GroupMatcher.anything() matches all")

    @classmethod
    def equals(cls, group: str) -> GroupMatcher:
        return cls(MatchOperator.EQUALS, group)

    @classmethod
    def starts_with(cls, prefix: str) -> GroupMatcher:
        return cls(MatchOperator.STARTS_WITH, prefix)

    @classmethod
    def ends_with(cls, suffix: str) -> GroupMatcher:
        return cls(MatchOperator.ENDS_WITH, suffix)

    @classmethod
    def contains(cls, part: str) -> GroupMatcher:
        return cls(MatchOperator.CONTAINS, part)

    @classmethod
    def anything(cls) -> GroupMatcher:
        return cls(MatchOperator.ANYTHING)

    def matches(self, group: str) -> bool:
        match self.operator:
            case MatchOperator.EQUALS:
                return group == self.value
            case MatchOperator.STARTS_WITH:
                return group.startswith(self.value)
            case MatchOperator.ENDS_WITH:
                return group.endswith(self.value)
            case MatchOperator.CONTAINS:
                return self.value in group
            case MatchOperator.ANYTHING:
                return True


def as_group_matcher(group: str | GroupMatcher) -> GroupMatcher:
    """A group's name stands for the matcher that equals it.

    Raises:
        InvalidMatcherError: neither a name nor a matcher.
    """
    if isinstance(group, GroupMatcher):
        return group
    if isinstance(group, str):
        return GroupMatcher.equals(group)
    raise InvalidMatcherError(f"group: a name or a GroupMatcher (got {group!r})")
