"""The search for keys by a part of them, page by page: what both stores share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from quartzpy.errors import InvalidKeyError
from quartzpy.keys import JobKey, Key, TriggerKey, key_readings
from quartzpy.store.queries import Position, folded

BEGINNING: Position = ("", "")
"""The position before all keys."""
_Key = TypeVar("_Key", bound=Key)


@dataclass(frozen=True, slots=True)
class KeySearch:
    """Selects the jobs and the triggers whose name or group contains a text; the case of ASCII letters is ignored."""

    text: str
    limit: int
    """The largest number of jobs, and of triggers, on a page."""
    among: int
    """The number of jobs, and of triggers, that a page examines at most."""

    @property
    def exact(self) -> list[tuple[str, str]]:
        """The group and the name of each key that the text may be."""
        try:
            return [(key.group, key.name) for key in key_readings(self.text, JobKey)]
        except InvalidKeyError:
            return []

    @property
    def walked(self) -> int:
        """The number of matching keys that a page reads at most: more than it has room for beside those in `near`."""
        return 2 * self.limit + 1


@dataclass(frozen=True, slots=True)
class SearchPosition:
    """The place at which a page of a search ends. None in place of a position means that there are no more of them."""

    jobs: Position | None
    triggers: Position | None


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The keys on a page of a search: the key that is the text, those whose names begin with it, and the others."""

    jobs: Sequence[JobKey]
    triggers: Sequence[TriggerKey]
    next: SearchPosition | None
    """The place from which the next page goes on; None if this is the last page."""


def found_keys(
    jobs: tuple[list[JobKey], Position | None], triggers: tuple[list[TriggerKey], Position | None]
) -> FoundKeys:
    """Return the page of some jobs and triggers, each with the position at which they end."""
    ends = SearchPosition(jobs[1], triggers[1])
    return FoundKeys(jobs[0], triggers[0], None if ends == SearchPosition(None, None) else ends)


def page_of_keys(
    search: KeySearch, near: Iterable[_Key], matching: Sequence[_Key], after: Position, last: Position | None
) -> tuple[list[_Key], Position | None]:
    """Return the keys of one kind on a page, and the position at which it ends.

    Args:
        search: the search.
        near: the keys that the first page has in any case, at most `limit` of which it shows. A later page has them
            once more, in their places.
        matching: the first keys after `after` that match, among those that are examined; at most `search.walked`.
        after: the position from which the page goes on.
        last: the position of the last key that is examined; None if the store has no more.
    """
    page = dict.fromkeys(sorted(near, key=lambda key: _place(key, search))[: search.limit])
    end: Position | None = after
    for key in matching:
        if key not in page:
            if len(page) == search.limit:
                break
            page[key] = None
        end = key.group, key.name
    else:
        end = last
    return sorted(page, key=lambda key: _place(key, search)), end


def _place(key: Key, search: KeySearch) -> tuple[bool, bool, str, str]:
    is_exact = (key.group, key.name) in search.exact
    return not is_exact, not folded(key.name).startswith(folded(search.text)), key.group, key.name
