"""Queries that are awaited.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from quartzpy.scheduler.async_calls import AsyncLazyMirror
from quartzpy.scheduler.paging import DEFAULT_LIMIT, Page, Query

_T = TypeVar("_T")


class AsyncQuery(AsyncLazyMirror[Query[_T]], Generic[_T]):
    """The methods of `Query`, each of them awaitable."""

    def __aiter__(self) -> AsyncIterator[_T]:
        return self._items(lambda behind: behind)

    async def page(self, limit: int = DEFAULT_LIMIT, after: str | None = None) -> Page[_T]:
        """Return at most `limit` records: the first ones, or those after the cursor `after`.

        A cursor is the `next_cursor` of a page of the same query. It contains no secrets, is safe in a URL, and stays
        valid as long as the store exists.

        Raises:
            InvalidValueError: `limit` is not a whole number from 1 to 1,000,000, or `after` is not a cursor of this
                query.
        """
        return await self._run(lambda behind: behind.page(limit, after))

    async def first(self) -> _T | None:
        """Return the first record, or None if the query selects nothing."""
        return await self._run(lambda behind: behind.first())

    async def count(self) -> int:
        """Return the number of records that the query selects."""
        return await self._run(lambda behind: behind.count())
