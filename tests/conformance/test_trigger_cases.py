"""What Quartz answered about triggers, as they fire and as they misfire."""

from __future__ import annotations

from pathlib import Path

import pytest

from quartzpy.errors import QuartzpyError
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from tests.conformance.loading import Case, Comparison, at, demanded, family, shown
from tests.conformance.trigger_builder import misfire_of, trigger_from_case

KINDS = ["simple_trigger", "calendar_interval_trigger", "daily_time_interval_trigger", "cron_trigger"]


def state(trigger: Trigger, progress: TriggerProgress, asked: Case) -> Case:
    """As much of a trigger's state as the case has."""
    count = trigger.repeat_count if isinstance(trigger, SimpleTrigger | DailyTimeIntervalTrigger) else None
    ours = {
        "next_fire_time": shown(progress.next_fire_time),
        "previous_fire_time": shown(progress.previous_fire_time),
        "times_triggered": progress.times_triggered,
        "may_fire_again": progress.next_fire_time is not None,
        "start": shown(trigger.anchor),
        "repeat_count": -1 if count is None else count,
    }
    return {name: ours[name] for name in asked if name in ours}


def wanted(asked: Case) -> Case:
    return {name: value for name, value in asked.items() if name not in ("disputed", "disputed_fields", "note")}


@pytest.mark.parametrize("kind", KINDS)
def test_triggers_fire_when_quartz_fires(conformance_dir: Path, kind: str) -> None:
    comparison = Comparison(kind)
    for case in family(conformance_dir, kind):
        try:
            trigger, calendar = trigger_from_case(kind, case)
        except QuartzpyError as error:
            if not case.get("error"):
                comparison.differs(case, f"is refused: {error}")
            else:
                comparison.equal(case, "error", True, True)
            continue
        if case.get("error"):
            comparison.differs(case, f"is not refused: {case['error']}")
            continue
        progress = trigger.started(calendar)
        comparison.equal(case, "first_fire_time", shown(progress.next_fire_time), case["first_fire_time"])
        comparison.equal(case, "final_fire_time", shown(trigger.final_fire_time), case["final_fire_time"])
        # Whether it may fire again says whether there is a first fire time: disputed where that is.
        if "first_fire_time" not in case.get("disputed_fields", ()):
            comparison.equal(case, "may_fire_again", progress.next_fire_time is not None, case["may_fire_again"])
        for answer in demanded(case["fire_time_after"]):
            got = shown(trigger.next_after(at(answer["after"])))
            comparison.equal(case, f"fire_time_after {answer['after']}", got, answer["value"])
        for number, answer in enumerate(case["triggered"]):
            progress = trigger.triggered(progress, calendar)
            if not answer.get("disputed"):
                comparison.equal(case, f"triggered {number}", state(trigger, progress, answer), wanted(answer))
    comparison.conclude()


def test_misfires_are_handled_as_quartz_handles_them(conformance_dir: Path) -> None:
    comparison = Comparison("misfire")
    for case in family(conformance_dir, "misfire"):
        described = case["trigger"]
        trigger, calendar = trigger_from_case(described["kind"], described, misfire_of(case["instruction"]))
        progress = trigger.started(calendar)
        for _ in range(case["fires_before"]):
            progress = trigger.triggered(progress, calendar)
        before, after = case["before"], case["after"]
        if not before.get("disputed"):
            comparison.equal(case, "before", state(trigger, progress, before), wanted(before))
        if not after.get("disputed"):
            trigger, progress = trigger.after_misfire(progress, calendar, now=at(case["now"]))
            what = f"after {described['kind']} {case['instruction']}"
            comparison.equal(case, what, state(trigger, progress, after), wanted(after))
    comparison.conclude()
