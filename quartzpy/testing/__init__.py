"""For tests of one's own jobs and schedules: a scheduler whose clock the test moves."""

from quartzpy.testing.clock import ManualClock
from quartzpy.testing.scheduler import SchedulerHarness
from quartzpy.testing.transactions import JobTransaction

__all__ = ["JobTransaction", "ManualClock", "SchedulerHarness"]
