"""Plugins: objects that start and stop together with a scheduler (Quartz's `SchedulerPlugin`)."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

from quartzpy.errors import PluginStartError

logger = logging.getLogger(__name__)

SLOW_AFTER = 1.0
"""The duration of a plugin's start or shutdown, in seconds, after which a warning is logged."""


_SchedulerT_contra = TypeVar("_SchedulerT_contra", contravariant=True)


@runtime_checkable
class Plugin(Protocol[_SchedulerT_contra]):
    """The interface of a plugin of a type of scheduler, usually `Plugin[Scheduler]`.

    Pass plugins to a scheduler as `plugins=[...]`: instances, or names of entry points in the group "quartzpy.plugins".
    """

    def initialize(self, scheduler: _SchedulerT_contra) -> None:
        """Set up the plugin. It is called when the scheduler is created, before it connects to its store.

        The constructor of the scheduler propagates its exceptions.
        """
        ...

    def start(self) -> None:
        """Start the plugin. It is called once, after the scheduler has started. Other exceptions are logged.

        Raises:
            PluginStartError: the scheduler must not run without this plugin. It is shut down, and `Scheduler.start`
                raises the error.
        """
        ...

    def shutdown(self) -> None:
        """Stop the plugin. It is called when the scheduler shuts down. Exceptions are logged."""
        ...


def call_plugin(plugin: Plugin[Any], method: str) -> None:
    """Call a method of a plugin. Log its exceptions, and log a warning while it is slow.

    Raises:
        PluginStartError: raised by the plugin.
    """
    name = type(plugin).__qualname__
    slow = threading.Timer(
        SLOW_AFTER, logger.warning, ("plugin %s: %s is still running after %s s", name, method, SLOW_AFTER)
    )
    slow.daemon = True
    with suppress(RuntimeError):  # The system may refuse another thread; the warning is then lost.
        slow.start()
    try:
        getattr(plugin, method)()
    except PluginStartError:
        raise
    except KeyboardInterrupt:
        # It may be the Ctrl-C of a user who waits for this call.
        raise
    except BaseException:
        logger.exception("plugin %s: %s raised an error", name, method)
    finally:
        slow.cancel()
