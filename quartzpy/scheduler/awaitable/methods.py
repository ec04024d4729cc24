"""The methods of a scheduler, which are awaited: an awaitable form of each class from which it inherits them."""

from __future__ import annotations

from typing import Any, TypeVar

# The methods return their classes.
import quartzpy.scheduler.awaitable.results  # noqa: F401
from quartzpy.scheduler.async_calls import AsyncFacade
from quartzpy.scheduler.awaitable.derived import Derived
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.pausing import PausingMethods
from quartzpy.scheduler.methods.quartz import QuartzMethods
from quartzpy.scheduler.methods.queries import QueryMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.methods.storing import StoringMethods
from quartzpy.scheduler.methods.triggering import TriggeringMethods

_BehindT = TypeVar("_BehindT", bound=Any)


class AsyncMethods(Derived, AsyncFacade[_BehindT], behind=Methods):
    """The methods of `Methods`, each of them awaitable."""


class AsyncPausingMethods(AsyncMethods[_BehindT], behind=PausingMethods):
    """The methods of `PausingMethods`, each of them awaitable."""


class AsyncQueryMethods(AsyncMethods[_BehindT], behind=QueryMethods):
    """The methods of `QueryMethods`, each of them awaitable."""


class AsyncStoringMethods(AsyncMethods[_BehindT], behind=StoringMethods):
    """The methods of `StoringMethods`, each of them awaitable."""


class AsyncTriggeringMethods(AsyncStoringMethods[_BehindT], AsyncQueryMethods[_BehindT], behind=TriggeringMethods):
    """The methods of `TriggeringMethods`, each of them awaitable."""


class AsyncQuartzMethods(AsyncTriggeringMethods[_BehindT], AsyncPausingMethods[_BehindT], behind=QuartzMethods):
    """The methods of `QuartzMethods`, each of them awaitable."""


class AsyncSchedulingMethods(AsyncQuartzMethods[_BehindT], behind=SchedulingMethods):
    """The methods of `SchedulingMethods`, each of them awaitable."""
