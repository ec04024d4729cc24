"""What type checkers know of keyword arguments is what the constructors take at run time."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

import quartzpy
import quartzpy.records
from quartzpy import CronTrigger, JobDetail, OverlapPolicy, SchedulerConfig, SimpleTrigger
from quartzpy.config.setting_types import OutsideSettings, Settings
from quartzpy.jobs.job import OverlapPolicyName
from quartzpy.jobs.options import DecoratorOptions, JobChanges, JobOptions, ScheduleOptions
from quartzpy.triggers.cron import CronMisfire, CronOptions
from quartzpy.triggers.simple import SimpleMisfire
from quartzpy.triggers.trigger import MisfireName, Trigger, TriggerOptions


def names(cls: type) -> set[str]:
    return {value.name for value in fields(cls)}  # type: ignore[arg-type]


def words(alias: object) -> set[str]:
    """The texts of a union with a Literal."""
    literals = [part for part in get_args(alias) if not isinstance(part, type)]
    return {str(word) for literal in literals for word in get_args(literal)}


def test_the_settings_are_those_of_the_configuration() -> None:
    assert set(get_type_hints(Settings)) == names(SchedulerConfig)
    assert set(get_type_hints(OutsideSettings)) == names(SchedulerConfig) | {"url", "connect"}


def test_the_options_are_those_of_a_job() -> None:
    options = names(JobDetail) - {"job", "name", "group", "data"}
    assert set(get_type_hints(JobOptions)) == options
    assert set(get_type_hints(ScheduleOptions)) == options | {"args", "kwargs"}
    assert set(get_type_hints(DecoratorOptions)) == options | {"args", "kwargs", "data"}
    assert set(get_type_hints(JobChanges)) == options | {"job", "data"}


def test_the_options_of_triggers_are_those_of_every_kind() -> None:
    assert set(get_type_hints(TriggerOptions)) == names(Trigger) - {"name", "group", "start_time"}
    assert set(get_type_hints(CronOptions)) <= names(CronTrigger)
    assert set(get_type_hints(TriggerOptions)) <= names(SimpleTrigger)


def test_the_words_are_those_of_the_enums() -> None:
    assert words(MisfireName) == {str(word) for word in [*CronMisfire, *SimpleMisfire]}
    assert words(OverlapPolicyName) == {str(word) for word in OverlapPolicy}


@pytest.mark.parametrize(
    "name",
    [
        *("AsyncJobConnection", "ExecutionRecord", "JobRecord", "Middleware", "MisfireRecord", "Outcome"),
        *("OverlapPolicy", "Plugin", "RunningRecord", "SchedulingMethods", "SyncPlan", "TriggerRecord"),
    ],
)
def test_the_types_that_programs_name_are_exported(name: str) -> None:
    assert name in {*quartzpy.__all__, *quartzpy.records.__all__}
    assert getattr(quartzpy, name, None) or getattr(quartzpy.records, name)
