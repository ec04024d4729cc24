"""The search for jobs and triggers by a part of their keys, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from quartzpy.keys import Key
from quartzpy.store.memory.tables import Tables
from quartzpy.store.queries import Position, folded
from quartzpy.store.searches import BEGINNING, FoundKeys, KeySearch, SearchPosition, found_keys, page_of_keys

_Key = TypeVar("_Key", bound=Key)


def find_keys(tables: Tables, search: KeySearch, after: SearchPosition | None) -> FoundKeys:
    """See `OperationsStore.find_keys`."""
    begin = after or SearchPosition(BEGINNING, BEGINNING)
    return found_keys(
        _page(tables.jobs, search, begin.jobs, is_first=after is None),
        _page(tables.triggers, search, begin.triggers, is_first=after is None),
    )


def _page(
    stored: Iterable[_Key], search: KeySearch, after: Position | None, *, is_first: bool
) -> tuple[list[_Key], Position | None]:
    if after is None:
        return [], None
    keys, part = sorted(stored), folded(search.text)
    examined = [key for key in keys if (key.group, key.name) > after][: search.among]
    last = (examined[-1].group, examined[-1].name) if len(examined) == search.among else None
    matching = [key for key in examined if part in folded(key.name) or part in folded(key.group)]
    near = _near(keys, search) if is_first else []
    return page_of_keys(search, near, matching[: search.walked], after, last)


def _near(keys: list[_Key], search: KeySearch) -> set[_Key]:
    exact = (key for key in keys if (key.group, key.name) == search.exact)
    of_group = (key for key in keys if folded(search.text) in folded(key.group))
    leading = (key for key in keys if key.name.startswith(search.text))
    return {*exact, *islice(of_group, search.limit), *islice(leading, search.limit)}
