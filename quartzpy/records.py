"""What the methods of a scheduler return: the records of queries, and the state of a node."""

from __future__ import annotations

from quartzpy.node.health import HealthState, SchedulerHealth, ThreadHealth
from quartzpy.scheduler.querying import Page
from quartzpy.scheduler.scheduler import SchedulerMetadata
from quartzpy.scheduler.sync import SyncPlan
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import (
    ExecutionRecord,
    JobRecord,
    JoinRecord,
    LimitRecord,
    MisfireRecord,
    NodeRecord,
    Pauses,
    RunningRecord,
    TriggerRecord,
    WindowRecord,
)

__all__ = [
    "CheckIn",
    "ExecutionRecord",
    "HealthState",
    "JobRecord",
    "JoinRecord",
    "LimitRecord",
    "MisfireRecord",
    "NodeRecord",
    "Page",
    "Pauses",
    "RunningRecord",
    "SchedulerHealth",
    "SchedulerMetadata",
    "SyncPlan",
    "ThreadHealth",
    "TriggerRecord",
    "WindowRecord",
]
