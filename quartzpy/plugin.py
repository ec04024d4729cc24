"""What a plugin is: something that lives with a scheduler (Quartz's `SchedulerPlugin`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from quartzpy.scheduler import BaseScheduler


@runtime_checkable
class Plugin(Protocol):
    """Given to a scheduler as `plugins=[...]`, or named there and found by its entry point in "quartzpy.plugins"."""

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Called when the scheduler is made, before anything is connected. What it raises, making it raises."""
        ...

    def start(self) -> None:
        """Called once, when the scheduler has started. What it raises is logged."""
        ...

    def shutdown(self) -> None:
        """Called when the scheduler shuts down. What it raises is logged."""
        ...
