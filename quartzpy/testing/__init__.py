"""A scheduler for tests of jobs and schedules, whose clock the test moves."""

from quartzpy.testing.clock import ManualClock
from quartzpy.testing.scheduler import SchedulerHarness
from quartzpy.testing.transactions import JobTransaction

__all__ = ["JobTransaction", "ManualClock", "SchedulerHarness"]
