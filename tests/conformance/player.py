"""Plays a recorded state scenario: real nodes, in this process, over one store.

A node that is "killed" is cut off from its store for good: to the others that is what death looks like.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import (
    IllegalStateChangeError,
    JobExecutionError,
    JobNotFoundError,
    ObjectAlreadyExistsError,
    QuartzpyError,
    StoreUnavailableError,
    TriggerNotFoundError,
)
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail, JobTypes
from quartzpy.keys import MANUAL_TRIGGERS, RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.simple import SimpleTrigger
from tests.conformance.loading import Case
from tests.conformance.trigger_builder import misfire_of

PLAYED, BROKEN = "played", "broken"
ALL_PAUSED = "_$_ALL_GROUPS_PAUSED_$_"
A_RECENT_NOW = "a recent now"
GENERATED = "(generated)"
AT_REST_WITHIN = 20.0
FAR = 600
"""Seconds: what is later never comes in a scenario."""


class Disagreement(AssertionError):
    """What the store shows is not what Quartz showed."""


class SwitchableTypes(JobTypes):
    """Job types that can be taken away and given back."""

    def __init__(self, types: dict[str, type[Job]]) -> None:
        super().__init__()
        self._known = types
        self.loadable = True

    def names(self) -> list[str]:
        return sorted(self._known) if self.loadable else []

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def find(self, name: str) -> type[Job]:
        return self._known[name]

    def load(self, name: str, allowed_modules: tuple[str, ...]) -> bool:
        return name in self


class Severable:
    """A store that can be cut off."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.severed = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*values: Any, **named: Any) -> Any:
            if self.severed:
                raise StoreUnavailableError("cut off")
            answer = method(*values, **named)
            if self.severed:
                # A connection that listens came too late for its node: nobody else would close it.
                if hasattr(answer, "close"):
                    answer.close()
                raise StoreUnavailableError("cut off")
            return answer

        return call


@dataclass
class PlayedNode:
    name: str
    store: Severable
    scheduler: BaseScheduler


@dataclass
class Player:
    """One scenario. `new_store` gives a node's own way to the shared store."""

    scenario: Case
    new_store: Callable[[SchedulerConfig], JobStore]
    scheduler_name: str
    nodes: dict[str, PlayedNode] = field(default_factory=dict)
    events: list[Case] = field(default_factory=list)
    behaviours: dict[JobKey, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._go_on: dict[JobKey, threading.Event] = {}
        self._types = SwitchableTypes({PLAYED: self._played(), BROKEN: self._broken()})
        self._zero = self._time_zero()
        self._differs_on_purpose = False
        self._everything_goes_on = threading.Event()

    # --- the whole

    def play(self) -> None:
        """Raises Disagreement at the first step that differs."""
        client = self._node("A")
        for number, step in enumerate(self.scenario["steps"]):
            if step.get("disputed"):
                return
            action = step["action"]
            try:
                self._act(client, step, dict(action))
                if "tables" in step:
                    self._come_to_rest(client, step)
            except Disagreement as error:
                raise Disagreement(f"{self.scenario['id']} step {number} {action}: {error}") from None

    def close(self) -> None:
        self._everything_goes_on.set()
        for event in list(self._go_on.values()):
            event.set()
        for node in self.nodes.values():
            # A dead one comes back to learn that it is dead: then its threads end.
            node.store.severed = False
            node.scheduler.shutdown(timeout=timedelta(seconds=5))

    def _time_zero(self) -> datetime:
        """A whole second: the last one, or the next where a second late would be a misfire."""
        steps = [step["action"] for step in self.scenario["steps"]]
        triggers = [t for a in steps for t in [*a.get("triggers", []), a.get("trigger")] if isinstance(t, dict)]
        near = [t["start"] for t in triggers if t["start"] < FAR]
        now = datetime.now(UTC)
        late_is_missed = self.scenario["misfire_threshold_ms"] < 10_000
        zero = now.replace(microsecond=0) + timedelta(seconds=1 if late_is_missed else 0)
        # Nobody needs to wait for the first instant of all.
        first = min(near, default=0)
        return zero - timedelta(seconds=max(0, first - 5)) if first > 5 else zero

    # --- nodes and jobs

    def _node(self, name: str) -> PlayedNode:
        if name in self.nodes:
            return self.nodes[name]
        config = SchedulerConfig(
            name=self.scheduler_name,
            instance_id=name,
            workers=self.scenario["workers"],
            misfire_threshold=timedelta(milliseconds=self.scenario["misfire_threshold_ms"]),
            idle_wait=timedelta(milliseconds=200),
            checkin_interval=timedelta(milliseconds=300),
            lock_timeout=timedelta(milliseconds=600),
            failure_window=timedelta(seconds=2),
        )
        store = Severable(self.new_store(config))
        scheduler = BaseScheduler(store, config, clock=SystemClock(), job_types=self._types, version="played")  # type: ignore[arg-type]
        self.nodes[name] = PlayedNode(name, store, scheduler)
        return self.nodes[name]

    def _node_of(self, scheduler: Any) -> PlayedNode:
        return next(node for node in self.nodes.values() if node.scheduler is scheduler)

    def _held(self, key: JobKey) -> threading.Event:
        with self._lock:
            return self._go_on.setdefault(key, threading.Event())

    def _record(self, event: Case) -> None:
        with self._lock:
            self.events.append(event)

    def _played(self) -> type[Job]:
        player = self

        class Played(Job):
            def execute(self, context: JobExecutionContext) -> None:
                player.run(context)

        return Played

    @staticmethod
    def _broken() -> type[Job]:
        class Broken(Job):
            def __init__(self) -> None:
                raise RuntimeError("cannot be instantiated")

            def execute(self, context: JobExecutionContext) -> None: ...

        return Broken

    def run(self, context: JobExecutionContext) -> None:
        """What a job does, by the behaviour that its scenario gives it."""
        node = self._node_of(context.scheduler)
        self._record(self._start_event(context, node))
        self._behave(context, self.behaviours.get(context.job_key, "noop"))
        if not node.store.severed:
            ended = {"event": "end", "job": str(context.job_key), "trigger": self._shown_key(context.trigger_key)}
            self._record(ended)

    def _start_event(self, context: JobExecutionContext, node: PlayedNode) -> Case:
        event: Case = {
            "event": "start",
            "node": node.name,
            "job": str(context.job_key),
            "trigger": self._shown_key(context.trigger_key),
            "refire_count": context.refire_count,
            "recovering": context.recovering,
            "data": {name: value for name, value in context.job_data.items() if not name.startswith("QRTZ_")},
        }
        if context.recovering:
            event |= {
                "recovering_trigger": str(context.recovering_trigger_key),
                "trigger_data_keys": sorted(context.trigger.data or {}),
                "priority": context.trigger.priority,
                "misfire_instruction": -1 if context.trigger.ignores_misfires else 0,
                "recovery_trigger_group": context.trigger_key.group,
                "original_scheduled_fire_time": self._shown(context.original_scheduled_fire_time),
            }
        return event

    def _behave(self, context: JobExecutionContext, behaviour: str) -> None:
        if behaviour.startswith("count"):
            context.job_detail_data["count"] = str(int(context.job_detail_data["count"]) + 1)
        match behaviour:
            case "noop" | "count":
                pass
            case "hold":
                self._held(context.job_key).wait()
            case "throw" | "count_then_throw":
                raise RuntimeError("thrown")
            case "raise" | "count_then_raise":
                raise JobExecutionError("raised")
            case "refire_twice":
                if context.refire_count < 2:
                    raise JobExecutionError("again", refire_immediately=True)
            case "unschedule_this":
                raise JobExecutionError("not this", unschedule_firing_trigger=True)
            case "unschedule_all":
                raise JobExecutionError("none of them", unschedule_all_triggers=True)
            case unknown:
                raise ValueError(f"behaviour {unknown!r}")

    # --- actions

    def _act(self, client: PlayedNode, step: Case, action: Case) -> None:
        do = action.pop("do")
        method = getattr(self, f"_do_{do}", None)
        if method is None:
            raise Disagreement(f"this player does not know how to {do}")
        try:
            result = method(client.scheduler, action)
        except QuartzpyError as error:
            if "raises" not in step:
                raise Disagreement(f"raised {error!r}") from error
            return
        if "raises" in step:
            raise Disagreement(f"did not raise: Quartz {step['raises']}")
        if "result" in step and not self._same(result, step["result"]) and not self._is_decided(step["result"]):
            raise Disagreement(f"answered {result!r}, Quartz {step['result']!r}")

    def _is_decided(self, state: Any) -> bool:
        """A type that no node knows stays WAITING for one that does: Quartz's ERROR, decided otherwise."""
        return self._differs_on_purpose and state == "ERROR"

    def _job(self, described: Case) -> JobDetail:
        group, name = described["job"].split(".")
        self.behaviours[JobKey(name, group)] = described.get("behaviour", "noop")
        return JobDetail(
            BROKEN if described.get("cannot_be_instantiated") else PLAYED,
            name,
            group,
            durable=described.get("durable", False),
            disallow_concurrent=described.get("disallow_concurrent", False),
            persist_data=described.get("persist_data", False),
            requests_recovery=described.get("requests_recovery", False),
            data=described.get("data"),
        )

    def _trigger(self, described: Case, job: str | None = None) -> SimpleTrigger:
        group, name = described["trigger"].split(".")
        every = described.get("every_s")
        repeats: dict[str, Any] = {}
        if every is not None:
            repeats = {"interval": timedelta(seconds=every), "repeat_count": described.get("repeat_count")}
        return SimpleTrigger(
            name,
            group,
            start_time=self._at(described["start"]),
            end_time=self._at(described["end"]) if "end" in described else None,
            priority=described.get("priority", 5),
            data=described.get("data"),
            misfire=misfire_of(described.get("misfire", "SMART_POLICY")),
            job_key=None if job is None else _job_key(job),
            **repeats,
        )

    @staticmethod
    def _matcher(action: Case) -> GroupMatcher:
        for name, value in action.items():
            if name.startswith("group_"):
                operator = name.removeprefix("group_")
                return GroupMatcher.anything() if operator == "anything" else getattr(GroupMatcher, operator)(value)
        raise Disagreement(f"no matcher in {action}")

    def _do_schedule_job(self, scheduler: BaseScheduler, action: Case) -> Any:
        triggers = [self._trigger(trigger) for trigger in action["triggers"]]
        self._refuse_again(scheduler, action, _job_key(action["job"]["job"]), *[trigger.key for trigger in triggers])
        scheduler.schedule_job(self._job(action["job"]), triggers, replace=action.get("replace", False))
        records = [scheduler.trigger_record(trigger.key) for trigger in triggers]
        times = [record.progress.next_fire_time for record in records if record is not None]
        return min((at for at in times if at is not None), default=None)

    def _do_schedule_trigger(self, scheduler: BaseScheduler, action: Case) -> Any:
        return scheduler.schedule(self._trigger(action["trigger"], action["for_job"]))

    @staticmethod
    def _refuse_again(scheduler: BaseScheduler, action: Case, *keys: JobKey | TriggerKey) -> None:
        """Where the same is stored again, we change nothing and Quartz raises: a difference that was decided."""
        if not action.get("replace", False) and any(scheduler.check_exists(key) for key in keys):
            raise ObjectAlreadyExistsError("as Quartz says")

    def _do_add_job(self, scheduler: BaseScheduler, action: Case) -> None:
        self._refuse_again(scheduler, action, _job_key(action["job"]["job"]))
        scheduler.add_job(self._job(action["job"]), replace=action.get("replace", False))

    def _do_unschedule_job(self, scheduler: BaseScheduler, action: Case) -> bool:
        return scheduler.unschedule_job(_trigger_key(action["trigger"]), missing_ok=True)

    def _do_reschedule_job(self, scheduler: BaseScheduler, action: Case) -> Any:
        try:
            return scheduler.reschedule_job(_trigger_key(action["replaced_trigger"]), self._trigger(action["trigger"]))
        except TriggerNotFoundError:
            return None

    def _do_delete_job(self, scheduler: BaseScheduler, action: Case) -> bool:
        return scheduler.delete_job(_job_key(action["job"]), missing_ok=True)

    def _do_delete_jobs(self, scheduler: BaseScheduler, action: Case) -> bool:
        keys = [_job_key(job) for job in action["jobs"]]
        return len(scheduler.delete_jobs(keys)) == len(keys)

    def _do_unschedule_jobs(self, scheduler: BaseScheduler, action: Case) -> bool:
        keys = [_trigger_key(trigger) for trigger in action["triggers"]]
        return len(scheduler.unschedule_jobs(keys)) == len(keys)

    def _do_schedule_jobs(self, scheduler: BaseScheduler, action: Case) -> None:
        pairs = [
            (self._job(one["job"]), [self._trigger(trigger) for trigger in one["triggers"]]) for one in action["jobs"]
        ]
        scheduler.schedule_jobs(pairs, replace=action.get("replace", False))

    def _do_check_exists(self, scheduler: BaseScheduler, action: Case) -> bool:
        return scheduler.check_exists(
            _trigger_key(action["trigger"]) if "trigger" in action else _job_key(action["job"])
        )

    def _do_get_paused_trigger_groups(self, scheduler: BaseScheduler, action: Case) -> list[str]:
        return self._paused(scheduler)

    def _do_trigger_job(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.trigger_job(_job_key(action["job"]), action.get("data"), even_if_paused=True)

    def _do_pause_trigger(self, scheduler: BaseScheduler, action: Case) -> None:
        with suppress(TriggerNotFoundError):  # Quartz passes over what is not stored.
            scheduler.pause_trigger(_trigger_key(action["trigger"]))

    def _do_resume_trigger(self, scheduler: BaseScheduler, action: Case) -> None:
        with suppress(TriggerNotFoundError):  # Quartz passes over what is not stored.
            scheduler.resume_trigger(_trigger_key(action["trigger"]))

    def _do_pause_triggers(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.pause_trigger_group(self._matcher(action))

    def _do_resume_triggers(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.resume_trigger_group(self._matcher(action))

    def _do_pause_job(self, scheduler: BaseScheduler, action: Case) -> None:
        with suppress(JobNotFoundError):  # Quartz passes over what is not stored.
            scheduler.pause_job(_job_key(action["job"]))

    def _do_resume_job(self, scheduler: BaseScheduler, action: Case) -> None:
        with suppress(JobNotFoundError):  # Quartz passes over what is not stored.
            scheduler.resume_job(_job_key(action["job"]))

    def _do_pause_jobs(self, scheduler: BaseScheduler, action: Case) -> None:
        # Quartz's JDBC store does not remember the groups, against its documentation; `pause_job_group` does.
        for key in scheduler.job_keys(self._matcher(action)):
            scheduler.pause_job(key)

    def _do_resume_jobs(self, scheduler: BaseScheduler, action: Case) -> None:
        for key in scheduler.job_keys(self._matcher(action)):
            scheduler.resume_job(key)

    def _do_pause_all(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.pause_all()

    def _do_resume_all(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.resume_all()

    def _do_clear(self, scheduler: BaseScheduler, action: Case) -> None:
        scheduler.clear()

    def _do_get_trigger_state(self, scheduler: BaseScheduler, action: Case) -> str:
        return str(scheduler.trigger_state(_trigger_key(action["trigger"])))

    def _do_get_job_data(self, scheduler: BaseScheduler, action: Case) -> Any:
        detail = scheduler.get_job_detail(_job_key(action["job"]))
        return None if detail is None else dict(detail.data or {})

    def _do_reset_trigger_from_error_state(self, scheduler: BaseScheduler, action: Case) -> None:
        with contextlib.suppress(IllegalStateChangeError):  # Quartz does nothing, and says nothing.
            scheduler.reset_trigger_from_error(_trigger_key(action["trigger"]))

    def _do_start(self, scheduler: BaseScheduler, action: Case) -> None:
        self._node(action["node"]).scheduler.start()

    _do_start_node = _do_start

    def _do_standby(self, scheduler: BaseScheduler, action: Case) -> None:
        self._node(action.get("node", "A")).scheduler.standby()

    def _do_shutdown_node(self, scheduler: BaseScheduler, action: Case) -> None:
        self._node(action["node"]).scheduler.shutdown(wait=action.get("wait", False))

    def _do_kill_node(self, scheduler: BaseScheduler, action: Case) -> None:
        self._node(action["node"]).store.severed = True

    def _do_let_job_finish(self, scheduler: BaseScheduler, action: Case) -> None:
        self._held(_job_key(action["job"])).set()

    def _do_wait(self, scheduler: BaseScheduler, action: Case) -> None:
        time.sleep(action["seconds"])

    def _do_wait_until(self, scheduler: BaseScheduler, action: Case) -> None:
        """What is waited for shows in the tables, which are waited for."""

    def _do_make_job_class_unloadable(self, scheduler: BaseScheduler, action: Case) -> None:
        self._types.loadable = False
        self._differs_on_purpose = True

    def _do_make_job_class_loadable_again(self, scheduler: BaseScheduler, action: Case) -> None:
        self._types.loadable = True

    # --- comparing

    def _come_to_rest(self, client: PlayedNode, step: Case) -> None:
        deadline = time.monotonic() + AT_REST_WITHIN
        while (difference := self._difference(client.scheduler, step)) is not None:
            if time.monotonic() > deadline:
                raise Disagreement(difference)
            time.sleep(0.02)
        with self._lock:
            if step.get("events"):
                self.events.clear()

    def _difference(self, scheduler: BaseScheduler, step: Case) -> str | None:
        tables = step["tables"]
        pairs = [
            ("triggers", self._triggers(scheduler), self._expected_triggers(tables["triggers"])),
            (
                "fired_triggers",
                self._fired(scheduler),
                [_known(row) for row in tables["fired_triggers"] if row["state"] != "ACQUIRED"],
            ),
            ("paused_trigger_groups", self._paused(scheduler), sorted(tables["paused_trigger_groups"])),
            ("jobs", sorted(str(record.job.key) for record in scheduler.jobs()), tables["jobs"]),
        ]
        with self._lock:
            events = sorted(self.events, key=repr)
        if events or step.get("events"):
            # Without events in the step, they belong to the one that is waited for next.
            wanted = sorted(step.get("events", []), key=repr) if step.get("events") else events
            pairs.append(("events", events, wanted))
        for what, got, wanted in pairs:
            if not self._same(got, wanted):
                return f"{what}: got {got}, Quartz {wanted}"
        return None

    def _expected_triggers(self, rows: list[Case]) -> list[Case]:
        """A node of Quartz acquires triggers long before it fires them. Nobody sees that by what happens."""
        seen = [row | {"state": "WAITING"} if row["state"] == "ACQUIRED" else row for row in rows]
        return [_only_key(row) if self._is_decided(row["state"]) else row for row in seen]

    def _triggers(self, scheduler: BaseScheduler) -> list[Case]:
        rows = [self._trigger_row(record) for record in scheduler.triggers()]
        return sorted(rows, key=lambda row: str(row["trigger"]).split("."))

    def _trigger_row(self, record: TriggerRecord) -> Case:
        return {
            "trigger": self._shown_key(record.trigger.key),
            "job": str(record.trigger.job_key),
            "state": str(record.state),
            "next_fire": self._shown(record.progress.next_fire_time),
            "previous_fire": self._shown(record.progress.previous_fire_time),
            "priority": record.trigger.priority,
            "start": self._shown(record.trigger.start_time),
        }

    def _fired(self, scheduler: BaseScheduler) -> list[Case]:
        return [
            {
                "trigger": self._shown_key(row.trigger_key),
                "job": str(row.job_key),
                "state": row.state,
                "node": row.instance_id,
                "scheduled": self._shown(row.scheduled_fire_time),
            }
            for row in scheduler.running()
        ]

    def _paused(self, scheduler: BaseScheduler) -> list[str]:
        groups = {"DEFAULT" if group == MANUAL_TRIGGERS else group for group in scheduler.paused_trigger_groups()}
        return sorted(groups | ({ALL_PAUSED} if scheduler.pauses.everything else set()))

    def _at(self, seconds: float) -> datetime:
        return self._zero + timedelta(seconds=seconds)

    def _shown(self, instant: datetime | None) -> float | str | None:
        if instant is None:
            return None
        seconds = (instant - self._zero).total_seconds()
        return int(seconds) if seconds == int(seconds) else A_RECENT_NOW

    @staticmethod
    def _shown_key(key: TriggerKey) -> str:
        if key.group == RECOVERING_JOBS:
            return f"{RECOVERING_JOBS}.{GENERATED}"
        return f"DEFAULT.{GENERATED}" if key.group == MANUAL_TRIGGERS else str(key)

    def _same(self, got: Any, wanted: Any) -> bool:
        """Equal in all that `wanted` says."""
        if isinstance(wanted, list):
            return len(got) == len(wanted) and all(map(self._same, got, wanted))
        if isinstance(wanted, dict) and isinstance(got, dict):
            return all(name in got and self._same(got[name], value) for name, value in wanted.items())
        if isinstance(got, datetime):
            got = self._shown(got)
        return bool(got == wanted) or (got is None and wanted == "none")


def _trigger_key(text: str) -> TriggerKey:
    group, name = text.split(".")
    return TriggerKey(name, group)


def _job_key(text: str) -> JobKey:
    group, name = text.split(".")
    return JobKey(name, group)


def _known(row: Case) -> Case:
    """Of a fired row, what our records show; Quartz fills in the job only at the fire."""
    left_out = ("is_nonconcurrent", "requests_recovery")
    return {name: value for name, value in row.items() if value is not None and name not in left_out}


def _only_key(row: Case) -> Case:
    return {"trigger": row["trigger"], "job": row["job"]}
