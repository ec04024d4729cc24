"""What the imports from the tables of the real Quartz have in common: their jobs, decisions and plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quartzpy import (
    Job,
    JobDetail,
    JobExecutionContext,
    TriggerKey,
)
from quartzpy.migrate import ImportedJob, ImportedTrigger, ImportPlan
from quartzpy.migrate.class_map import ClassMap
from quartzpy.migrate.quartz import read_quartz
from quartzpy.store.protocol import JobStore
from tests.migrate.dump import HOUR


class Report(Job, type_name="migrate.Report"):
    def execute(self, context: JobExecutionContext) -> None:
        return None


class Counter(Report, type_name="migrate.Counter"):
    pass


CLASSES = {"Jobs$Report": "migrate.Report", "Jobs$Counter": "migrate.Counter"}


DECISIONS = ClassMap(
    CLASSES, {("job", "reports.hidden", "token"): {}, ("job", "reports.values", "nul"): {"value": "a b"}}
)


BERLIN = "Europe/Berlin"


FROM, UNTIL = (datetime.fromisoformat(one) for one in HOUR)


def plan_of(dsn: str, decisions: ClassMap = DECISIONS, java_zone: str | None = BERLIN) -> ImportPlan:
    return read_quartz(dsn, scheduler="serialized", decisions=decisions, java_zone=java_zone)


def trigger_of(plan: ImportPlan, name: str, group: str = "times") -> ImportedTrigger:
    return plan.triggers()[TriggerKey(name, group)]


def job_of(plan: ImportPlan, name: str) -> JobDetail:
    return next(one.job for one in plan.jobs if one.job.name == name)


def instants(plan: ImportPlan, since: datetime, until: datetime) -> dict[str, list[int]]:
    """The fire times of the imported triggers, in milliseconds."""
    found: dict[str, list[int]] = {}
    for key, one in plan.triggers().items():
        progress, times = one.progress, found.setdefault(str(key), [])
        calendar = None if one.trigger.calendar is None else plan.calendars[one.trigger.calendar]
        while progress.next_fire_time is not None and progress.next_fire_time < until:
            if progress.next_fire_time >= since:
                times.append((progress.next_fire_time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))
            progress = one.trigger.triggered(progress, calendar)
    return found


def moved_on(plan: ImportPlan, key: TriggerKey) -> ImportPlan:
    """The plan as the source would give it after one more fire of a trigger."""
    one = plan.triggers()[key]
    fired = replace(one, progress=one.trigger.triggered(one.progress))
    return replace(
        plan,
        jobs=[
            replace(job, triggers=[fired if each.trigger.key == key else each for each in job.triggers])
            for job in plan.jobs
        ],
    )


def changed(plan: ImportPlan, key: TriggerKey, **values: object) -> ImportPlan:
    """The plan with other values of an imported trigger, or of the trigger itself."""

    def of(one: ImportedTrigger) -> ImportedTrigger:
        if one.trigger.key != key:
            return one
        own = {name: value for name, value in values.items() if hasattr(one, name)}
        rest = {name: value for name, value in values.items() if name not in own}
        return replace(one, trigger=replace(one.trigger, **rest), **own)  # type: ignore[arg-type]

    return replace(plan, jobs=[replace(job, triggers=[of(one) for one in job.triggers]) for job in plan.jobs])


def states(store: JobStore, *names: str) -> list[tuple[str, str | None]]:
    records = store.triggers([TriggerKey(name, "times") for name in names])
    return [
        (str(records[TriggerKey(name, "times")].state), records[TriggerKey(name, "times")].pause_reason)
        for name in names
    ]


def many(plan: ImportPlan, count: int) -> ImportPlan:
    """A plan of `count` triggers of two jobs, one of which has but a few."""
    [one, *_] = plan.jobs
    [first, *_] = one.triggers
    triggers = [
        replace(first, trigger=replace(first.trigger, name=f"many {number}"), paused=None) for number in range(count)
    ]
    few = replace(one.job, name="few")
    return replace(
        plan,
        jobs=[
            ImportedJob(one.job, triggers[:-3]),
            ImportedJob(few, [replace(one, trigger=replace(one.trigger, job_key=few.key)) for one in triggers[-3:]]),
        ],
        notes=[],
    )
