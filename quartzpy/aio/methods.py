"""The methods of a node's scheduler, each of them awaitable."""

from __future__ import annotations

from typing import Any, TypeVar

from quartzpy.scheduler.awaitable.methods import AsyncSchedulingMethods
from quartzpy.scheduler.scheduler import BaseScheduler

_BehindT = TypeVar("_BehindT", bound=Any)


class AsyncSchedulerMethods(AsyncSchedulingMethods[_BehindT], behind=BaseScheduler):
    """The methods of `BaseScheduler`, each of them awaitable."""
