"""The public names of `quartzpy.operations`, which a node that judges its cluster does not need."""

from quartzpy.operations.actions import Actions
from quartzpy.operations.actions.action import Actor, Grant, Role
from quartzpy.operations.actions.log import ActionFailure, ActionProgress, ActionResult
from quartzpy.operations.agenda import PlannedRun
from quartzpy.operations.audit_log import AuditEntry
from quartzpy.operations.calendars import CalendarSummary, CalendarYear
from quartzpy.operations.cluster import Cluster, Difference, NodeEnd, NodeView
from quartzpy.operations.definition_records import AppliedFile, Definition, DefinitionResult, Expected
from quartzpy.operations.definitions import Definitions
from quartzpy.operations.executions import ExecutionSummary, ExecutionView, MisfireView, RunningView
from quartzpy.operations.groups import GroupLimit, Groups, GroupView, JobLimit, Limits, PoolUsage, RateLimitView
from quartzpy.operations.incidents import Incident, Remedy
from quartzpy.operations.jobs import JobSummary, JobView
from quartzpy.operations.late import LateTrigger
from quartzpy.operations.operations import Operations
from quartzpy.operations.overview import MinuteLateness, MinuteThroughput, Overview
from quartzpy.operations.recorded_incidents import RecordedIncident
from quartzpy.operations.schedules import PlannedTime, SchedulePreview
from quartzpy.operations.search import SearchResults
from quartzpy.operations.selection import Selection
from quartzpy.operations.situation import Incidents
from quartzpy.operations.source import Count
from quartzpy.operations.system import System
from quartzpy.operations.timeline import Bar, Cell, Lane, Timeline
from quartzpy.operations.triggers import TriggerSummary, TriggerView
from quartzpy.store.node_states import NodeState
from quartzpy.store.postgresql.admin.records import Lanes

__all__ = [
    "ActionFailure",
    "ActionProgress",
    "ActionResult",
    "Actions",
    "Actor",
    "AppliedFile",
    "AuditEntry",
    "Bar",
    "CalendarSummary",
    "CalendarYear",
    "Cell",
    "Cluster",
    "Count",
    "Definition",
    "DefinitionResult",
    "Definitions",
    "Difference",
    "ExecutionSummary",
    "ExecutionView",
    "Expected",
    "Grant",
    "GroupLimit",
    "GroupView",
    "Groups",
    "Incident",
    "Incidents",
    "JobLimit",
    "JobSummary",
    "JobView",
    "Lane",
    "Lanes",
    "LateTrigger",
    "Limits",
    "MinuteLateness",
    "MinuteThroughput",
    "MisfireView",
    "NodeEnd",
    "NodeState",
    "NodeView",
    "Operations",
    "Overview",
    "PlannedRun",
    "PlannedTime",
    "PoolUsage",
    "RateLimitView",
    "RecordedIncident",
    "Remedy",
    "Role",
    "RunningView",
    "SchedulePreview",
    "SearchResults",
    "Selection",
    "System",
    "Timeline",
    "TriggerSummary",
    "TriggerView",
]
