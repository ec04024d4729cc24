"""Matchers, which select groups or keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from quartzpy.errors import InvalidMatcherError
from quartzpy.foreign_names import NamedByQuartz
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.texts import check_storable, quoted

Key = JobKey | TriggerKey


class MatchOperator(StrEnum):
    """The comparison of a matcher (Quartz's `StringMatcher.StringOperatorName`)."""

    EQUALS = "equals"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    ANYTHING = "anything"


def compare(operator: MatchOperator, text: str, value: str) -> bool:
    """Return True if `text` compares to `value` as the operator requires."""
    match operator:
        case MatchOperator.EQUALS:
            return text == value
        case MatchOperator.STARTS_WITH:
            return text.startswith(value)
        case MatchOperator.ENDS_WITH:
            return text.endswith(value)
        case MatchOperator.CONTAINS:
            return value in text
        case MatchOperator.ANYTHING:
            return True


@dataclass(frozen=True, slots=True)
class GroupMatcher(metaclass=NamedByQuartz):
    """Selects groups: `GroupMatcher.starts_with("billing-")`. All characters are literal: there are no wildcards."""

    operator: MatchOperator
    value: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise InvalidMatcherError(f"matcher: the group must be str (got {quoted(self.value)})")
        check_storable(self.value, "matcher: the group", InvalidMatcherError)
        if self.operator is MatchOperator.EQUALS and not self.value:
            raise InvalidMatcherError(
                "matcher: the name of a group must not be empty; GroupMatcher.anything() matches all groups"
            )

    @classmethod
    def equals(cls, group: str) -> GroupMatcher:
        """Match one group."""
        return cls(MatchOperator.EQUALS, group)

    @classmethod
    def starts_with(cls, prefix: str) -> GroupMatcher:
        """Match the groups whose name starts with a text."""
        return cls(MatchOperator.STARTS_WITH, prefix)

    @classmethod
    def ends_with(cls, suffix: str) -> GroupMatcher:
        """Match the groups whose name ends with a text."""
        return cls(MatchOperator.ENDS_WITH, suffix)

    @classmethod
    def contains(cls, part: str) -> GroupMatcher:
        """Match the groups whose name contains a text."""
        return cls(MatchOperator.CONTAINS, part)

    @classmethod
    def anything(cls) -> GroupMatcher:
        """Match every group."""
        return cls(MatchOperator.ANYTHING)

    def matches(self, group: str) -> bool:
        """Return True if the group is selected."""
        return compare(self.operator, group, self.value)


def as_group_matcher(group: str | GroupMatcher) -> GroupMatcher:
    """Return a matcher as it is, and for a name the matcher of that one group.

    Raises:
        InvalidMatcherError: `group` is neither a name nor a matcher.
    """
    if isinstance(group, GroupMatcher):
        return group
    if isinstance(group, str):
        return GroupMatcher.equals(group)
    raise InvalidMatcherError(f"group: must be a name or a GroupMatcher (got {quoted(group)})")


@dataclass(frozen=True, slots=True)
class KeyMatcher(metaclass=NamedByQuartz):
    """Selects jobs or triggers by their keys: `KeyMatcher.group("equals", "eu") & ~KeyMatcher.name("contains", "x")`.

    `&`, `|` and `~` combine matchers.
    """

    matches: Callable[[Key], bool]

    @classmethod
    def key(cls, key: Key) -> KeyMatcher:
        """Match one job or one trigger."""
        return cls(lambda other: other == key)

    @classmethod
    def anything(cls) -> KeyMatcher:
        """Match every key."""
        return cls(lambda key: True)

    @classmethod
    def name(cls, operator: str, value: str) -> KeyMatcher:
        """Match by name. `operator` is "equals", "starts_with", "ends_with" or "contains"."""
        how = _operator(operator, value)
        return cls(lambda key: compare(how, key.name, value))

    @classmethod
    def group(cls, operator: str, value: str) -> KeyMatcher:
        """Match by group. `operator` is "equals", "starts_with", "ends_with" or "contains"."""
        how = _operator(operator, value)
        return cls(lambda key: compare(how, key.group, value))

    def __and__(self, other: KeyMatcher) -> KeyMatcher:
        return KeyMatcher(lambda key: self.matches(key) and other.matches(key))

    def __or__(self, other: KeyMatcher) -> KeyMatcher:
        return KeyMatcher(lambda key: self.matches(key) or other.matches(key))

    def __invert__(self) -> KeyMatcher:
        return KeyMatcher(lambda key: not self.matches(key))


def _operator(operator: str, value: object) -> MatchOperator:
    if not isinstance(value, str):
        raise InvalidMatcherError(f"matcher: the value must be str (got {quoted(value)})")
    try:
        return MatchOperator(operator)
    except ValueError:
        operators = ", ".join(MatchOperator)
        raise InvalidMatcherError(
            f"matcher: the operator must be one of {operators} (got {quoted(operator)})"
        ) from None
