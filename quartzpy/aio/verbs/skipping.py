"""The awaitable twin of `SkippingVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from quartzpy.aio.verbs.base import AsyncVerbs
from quartzpy.keys import TriggerRef
from quartzpy.scheduling.verbs.skipping import SkippingVerbs

_SkippingVerbsT = TypeVar("_SkippingVerbsT", bound=SkippingVerbs)


class AsyncSkippingVerbs(AsyncVerbs[_SkippingVerbsT]):
    """The methods of `SkippingVerbs`, each of them awaitable."""

    async def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None:
        """Skip the next `count` fires of a trigger, and return its next fire time after them.

        The schedule does not change: a trigger with a repeat count loses these fires. A fire that is overdue, or that a
        node has claimed, counts as the next one. An execution that has started continues, and a paused trigger stays
        paused. If no fire is left, the result is None, and the trigger becomes COMPLETE: it stays stored with its job,
        and listeners get `TriggerFinalized`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `count` is no number from 1 to 10,000.
            IllegalStateChangeError: the trigger fired at each of several tries, so that nothing was skipped.
        """
        return await self._run(lambda behind: behind.skip_next(key, count))

    async def skip_until(self, key: TriggerRef, instant: datetime) -> datetime | None:
        """Skip all fires of a trigger before `instant`, and return its next fire time, at `instant` or later.

        Nothing changes where the next fire time is not before `instant`. All else is as in `skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `instant` is no datetime with a time zone.
        """
        return await self._run(lambda behind: behind.skip_until(key, instant))
