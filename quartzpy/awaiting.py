"""Awaiting a call on another thread until it has ended, also in a task that is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import TypeVar

_R = TypeVar("_R")


async def result_at_the_end(call: asyncio.Future[_R]) -> _R:
    """Return the result of a call. A cancelled task continues only when the call has ended.

    This is for calls that use what nobody else may use meanwhile, such as a connection.
    """
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # Retrieve the exception, so that asyncio does not report it as never retrieved.
        call.exception()
        raise cancelled
    return call.result()
