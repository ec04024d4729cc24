"""For users' tests: a scheduler whose time they move."""

from quartzpy.testing.scheduler import ManualClock, SchedulerHarness

__all__ = ["ManualClock", "SchedulerHarness"]
