from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SettingsError


def test_the_defaults_are_valid_and_texts_are_read_as_spans() -> None:
    config = SchedulerConfig.of({"misfire_threshold": "90s", "checkin_interval": "1.5s"})
    assert config.misfire_threshold == timedelta(seconds=90)
    assert config.checkin_interval == timedelta(seconds=1.5)
    assert config.lease == timedelta(seconds=15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"misfire_treshold": "1s"}, "misfire_treshold is not a setting; did you mean misfire_threshold?"),
        ({"zzz": 1}, "zzz is not a setting; the settings are audit_retention, batch_size"),
        ({"checkin_interval": "5 apples"}, "checkin_interval: must be a length of time: a timedelta, a number"),
        ({"checkin_interval": None}, "checkin_interval: must be a length of time"),
        ({"checkin_interval": "0s"}, "checkin_interval: must be above zero and at most 3660 days (got '0s')"),
        ({"checkin_interval": timedelta(seconds=-1)}, "must be above zero"),
        ({"idle_wait": "100000d"}, "idle_wait: must be above zero and at most 3660 days (got '100000d')"),
        (
            {"failure_window": "10s"},
            "failure_window 0:00:10 must be at least checkin_interval x 3 + lock_timeout",
        ),
        ({"workers": -1}, "workers=-1 must be from 0"),
        ({"workers": 10_000}, "workers=10000 must be from 0"),
        ({"workers": "3"}, "workers must be an integer (got '3')"),
        ({"workers": True}, "workers must be an integer"),
        ({"pool_size": 2}, "pool_size=2 must be from 3"),
        ({"name": ""}, "name: must not be empty"),
        ({"instance_id": "x" * 201}, "instance_id: 201 characters"),
        ({"schema": "x; drop"}, "schema: must consist"),
        ({"schema": "1x"}, "schema: must consist"),
        ({"job_modules": "billing"}, "job_modules must be a tuple of module names"),
        ({"labels": "gpu"}, "labels must be a tuple of strings (got 'gpu')"),
        ({"executors": "cpu"}, "executors must be a mapping of names to pools (got 'cpu')"),
        (
            {"executors": {"cpu": "fibers:4"}},
            "executors: 'fibers' is neither a kind of executor nor an engine that an installed package offers;"
            " the kinds are threads, asyncio, celery, dask, futures, processes",
        ),
        (
            {"executors": {"cpu": "processes"}},
            "executors: a pool is written like threads:20, asyncio:500, processes:4 or dask:tcp",
        ),
        ({"executors": {"cpu": "processes:0"}}, "executors: workers must be from 1 to 5000 (got 0)"),
        ({"executors": {"default": "threads:4"}}, "executors: the pool 'default' exists already"),
        (
            {"execution_groups": {"reports": True}},
            "execution_groups: the limit of 'reports' must be an integer of 0 or more (got True)",
        ),
        ({"execution_groups": ["reports"]}, "execution_groups must be a mapping of groups to limits"),
        ({"history_retention": "0s"}, "history_retention: must be above zero"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_rule(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SchedulerConfig.of(settings)
    assert message in str(caught.value)
