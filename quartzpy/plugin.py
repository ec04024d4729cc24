"""Plugins: objects that start and stop with a scheduler (Quartz's `SchedulerPlugin`)."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from quartzpy.errors import PluginStartError

if TYPE_CHECKING:
    from quartzpy.scheduler import BaseScheduler

logger = logging.getLogger(__name__)

SLOW_AFTER = 1.0
"""Seconds after which a plugin that still starts, or still shuts down, is reported."""


@runtime_checkable
class Plugin(Protocol):
    """Given to a scheduler as `plugins=[...]`, or named there and found by its entry point in "quartzpy.plugins"."""

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Called when the scheduler is made, before anything is connected. What it raises, making it raises."""
        ...

    def start(self) -> None:
        """Called once, when the scheduler has started. What it raises is logged.

        Raises:
            PluginStartError: the scheduler must not run without what the plugin failed to do: it is shut down, and
                `Scheduler.start` raises the error.
        """
        ...

    def shutdown(self) -> None:
        """Called when the scheduler shuts down. What it raises is logged."""
        ...


def call_plugin(plugin: Plugin, method: str) -> None:
    """Call a method of a plugin; log whatever it raises, and that it takes long.

    Raises:
        PluginStartError: the plugin raised it.
    """
    name = type(plugin).__qualname__
    slow = threading.Timer(
        SLOW_AFTER, logger.warning, ("plugin %s: %s still runs after %s s", name, method, SLOW_AFTER)
    )
    slow.daemon = True
    with suppress(RuntimeError):  # Where no thread can be started, nobody reports it.
        slow.start()
    try:
        getattr(plugin, method)()
    except PluginStartError:
        raise
    except KeyboardInterrupt:
        # Perhaps the user's own, who waits for the call that this is part of.
        raise
    except BaseException:
        logger.exception("plugin %s: %s failed", name, method)
    finally:
        slow.cancel()
