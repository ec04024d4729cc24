"""The public names of `quartzpy.operations`, which a node that judges its cluster does not need."""

from quartzpy.operations.actions import Actions
from quartzpy.operations.actions.action import Actor, Grant, Role
from quartzpy.operations.actions.audit_log import AuditEntry
from quartzpy.operations.actions.log import ActionFailure, ActionProgress, ActionResult
from quartzpy.operations.definition_records import AppliedFile, Definition, DefinitionResult, Expected
from quartzpy.operations.definitions import Definitions
from quartzpy.operations.incidents.cluster_diagnosis import Incidents
from quartzpy.operations.incidents.incident import Incident, Remedy
from quartzpy.operations.incidents.late_triggers import LateTrigger
from quartzpy.operations.incidents.recorded import RecordedIncident
from quartzpy.operations.operations import Operations
from quartzpy.operations.overview import MinuteLateness, MinuteThroughput, Overview
from quartzpy.operations.read_context import Count
from quartzpy.operations.selection import Selection
from quartzpy.operations.views.agenda import PlannedRun
from quartzpy.operations.views.calendars import CalendarSummary, CalendarYear
from quartzpy.operations.views.cluster import Cluster, Difference, NodeEnd, NodeView
from quartzpy.operations.views.executions import ExecutionSummary, ExecutionView, MisfireView, RunningView
from quartzpy.operations.views.jobs import JobSummary, JobView
from quartzpy.operations.views.limits import GroupLimit, Groups, GroupView, JobLimit, Limits, PoolUsage, RateLimitView
from quartzpy.operations.views.schedules import PlannedTime, SchedulePreview
from quartzpy.operations.views.search import SearchResults
from quartzpy.operations.views.system import System
from quartzpy.operations.views.timeline import Bar, Cell, Lane, Timeline
from quartzpy.operations.views.triggers import TriggerSummary, TriggerView
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
