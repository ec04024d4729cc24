"""The views for operators: their names, meanings and columns. The migrations contain their queries.

The scheduler itself reads no view, so a release with changed views runs next to an older one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view: one sentence about its rows, and the meanings of the columns that need one."""

    rows: str
    columns: Mapping[str, str]


_TRIGGER = {"sched_name": "", "trigger_group": "", "trigger_name": "", "job_group": "", "job_name": "", "job_type": ""}

VIEWS: Mapping[str, View] = {
    "qrtz_full_jobs": View(
        "A job, and one of its concurrency keys, at its limit. Its triggers wait until an execution ends: a scheduler"
        " calls them BLOCKED or PAUSED_BLOCKED, whatever their rows say.",
        {
            "sched_name": "",
            "job_group": "",
            "job_name": "",
            "concurrency_key": "",
            "max_concurrent": "",
            "executing": "The number of executions that run.",
        },
    ),
    "qrtz_limit_usage": View(
        "A limit that jobs share. `is_used_up` says that it admits no fire now.",
        {
            "sched_name": "",
            "limit_name": "",
            "max_concurrent": "",
            "rate_limit": "",
            "in_use": "The number of executions that use it.",
            "is_used_up": "",
        },
    ),
    "qrtz_due_now": View(
        "A trigger that could fire now: it waits, its fire time has come, its job is below its limit, and neither a"
        " rate limit nor a limit that jobs share holds it back.",
        {
            **_TRIGGER,
            "placement": "",
            "priority": "",
            "next_fire_time": "The fire time that has come.",
            "due_for": "The time since then.",
        },
    ),
    "qrtz_running": View(
        "An execution that a node is running.",
        {
            "fire_id": "",
            **_TRIGGER,
            "instance_id": "",
            "node_is_alive": "False if the node has been silent for its failure window; another node will recover it.",
            "scheduled_time": "",
            "fired_time": "",
            "fired_late_by": "The time from its scheduled time to its fire.",
            "running_for": "The time since its fire.",
            "attempt": "",
            "cancel_requested": "",
            "progress": "",
            "progress_message": "",
            "submission": "The number of its submission to an engine; NULL if it needs no ticket.",
            "worker": "The worker of the engine that has begun it; NULL if none has.",
            "worker_since": "",
        },
    ),
    "qrtz_late": View(
        "A trigger that is not paused, and whose fire time passed more than five seconds ago.",
        {
            **_TRIGGER,
            "trigger_state": "WAITING or BLOCKED, as a scheduler tells it.",
            "next_fire_time": "The fire time that has passed.",
            "late_by": "The time since then.",
            "reason": "The cause in words: a limit, or a lack of nodes or workers.",
        },
    ),
    "qrtz_errors": View(
        "A trigger that is in ERROR, or an execution that failed or whose node died in the last 24 hours.",
        {
            "kind": "TRIGGER or EXECUTION.",
            "sched_name": "",
            "trigger_group": "",
            "trigger_name": "",
            "job_group": "",
            "job_name": "",
            "fire_id": "NULL for a trigger, as the following columns except error.",
            "ended_at": "",
            "outcome": "FAILED, or TERMINATED if the node died.",
            "instance_id": "",
            "attempt": "",
            "retry_at": "The time of the next attempt; NULL if there is none.",
            "error": "",
        },
    ),
    "qrtz_next_24h": View(
        "A fire time within the next 24 hours that the database holds. A trigger has its next few fire times only.",
        {
            **_TRIGGER,
            "fire_time": "",
            "priority": "",
            "more_follow": "True for the last known fire time of a trigger, if later ones are not computed yet.",
        },
    ),
    "qrtz_node_health": View(
        "A node that is registered.",
        {
            "sched_name": "",
            "instance_id": "",
            "status": "ALIVE; OVERDUE after two intervals without a check-in; DEAD after the failure window.",
            "host": "",
            "pid": "",
            "release": "",
            "started_at": "",
            "last_checkin": "",
            "checkin_age": "The time since the last check-in.",
            "checkin_interval": "",
            "failure_window": "",
            "workers": "The number of workers of all its executors.",
            "claimed": "The number of fires that it has taken and whose instants are a few milliseconds away.",
            "executing": "The number of executions that it is running.",
            "clock_ahead": "The seconds by which its clock was ahead of the database's when it last compared them.",
            "problems": "What it found wrong with itself before its last check-in; NULL if nothing.",
        },
    ),
}
