"""Each method belongs to one role; see decision 29."""

from __future__ import annotations

from collections import Counter

from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods


def test_no_two_roles_define_the_same_name() -> None:
    roles = [role for role in SchedulingMethods.__mro__ if role.__module__.startswith("quartzpy.scheduler.methods")]
    abstract = {name for role in roles for name in role.__dict__.get("__abstractmethods__", ())}
    defined = Counter(
        name
        for role in roles
        if role is not Methods
        for name in role.__dict__
        if not name.startswith("__") and name not in abstract and name != "_abc_impl"
    )
    # The four, Quartz's verbs, their sum, and what they share.
    assert {role.__name__.removesuffix("Methods") for role in roles} - {"", "Scheduling"} == {
        "Pausing",
        "Quartz",
        "Query",
        "Storing",
        "Triggering",
    }
    assert [name for name, times in defined.items() if times > 1 or name in Methods.__dict__] == []
