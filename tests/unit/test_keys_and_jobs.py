from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from quartzpy import errors
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import (
    Job,
    JobDetail,
    JobTypes,
    disallow_concurrent_execution,
    job_types,
    persist_job_data_after_execution,
)
from quartzpy.keys import JobKey, TriggerKey


class Plain(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@disallow_concurrent_execution
@persist_job_data_after_execution
class Stateful(Plain):
    def execute(self, context: JobExecutionContext) -> None: ...


class Moved(Job, type_name="a-stable-name"):
    async def execute(self, context: JobExecutionContext) -> None: ...


class WithoutExecute(Job):  # what an unfinished class looks like
    pass


class WrongArity(Job):
    def execute(self) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "job name: must not be empty"),
        ("x" * 201, "job name: 201 characters, at most 200"),
        ("a\nb", "job name: control character U+000A at position 1"),
        ("a\0", "control character U+0000 at position 1"),
        ("\u202eevil", "control character U+202E at position 0"),
        ("\ud800", "job name: not valid Unicode text"),
        (5, "job name: must be str (got int)"),
        (None, "job name: must be str (got NoneType)"),
        (b"x", "job name: must be str (got bytes)"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_the_reason(name: Any, message: str) -> None:
    with pytest.raises(errors.InvalidKeyError) as caught:
        JobKey(name, "group")
    assert message in str(caught.value)


def test_names_at_the_limits_and_beyond_ascii_are_fine() -> None:
    assert JobKey("x" * 200, "g").name == "x" * 200
    assert str(TriggerKey("täglich 東京", "Gruppe")) == "Gruppe.täglich 東京"


def test_a_job_class_is_registered_by_its_path_or_by_its_stable_name() -> None:
    assert job_types.find(f"{__name__}:Plain") is Plain
    assert job_types.find("a-stable-name") is Moved
    with pytest.raises(errors.UnknownJobTypeError, match="not registered in this process"):
        job_types.find("nobody:Here")


def test_two_classes_of_one_name_are_refused() -> None:
    types = JobTypes()
    types.register(Plain, "x")
    types.register(Plain, "x")
    with pytest.raises(errors.DuplicateJobTypeError, match="'x' is already"):
        types.register(Moved, "x")


def test_only_allowed_modules_are_imported_because_a_row_names_them() -> None:
    types = JobTypes()
    assert not types.load("os:system", ())
    assert not types.load("os:system", ("osx", "billing"))
    assert not types.load("no colon", ("no",))


def test_what_the_decorators_say_is_what_the_detail_keeps() -> None:
    detail = JobDetail(Stateful, "s")
    assert detail.disallow_concurrent
    assert detail.persist_data
    assert not JobDetail(Plain, "p").disallow_concurrent
    assert JobDetail(Plain, "p", disallow_concurrent=True).disallow_concurrent
    assert JobDetail(Plain).name != JobDetail(Plain).name, "names are made up where none is given"


def _local() -> type[Job]:
    class Local(Job):
        def execute(self, context: JobExecutionContext) -> None: ...

    return Local


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (_local(), errors.InvalidJobTypeError, "defined inside a function"),
        (lambda context: None, errors.InvalidJobTypeError, "a subclass of Job is needed"),
        (Plain(), errors.InvalidJobTypeError, "a subclass of Job is needed"),
        (int, errors.InvalidJobTypeError, "a subclass of Job is needed (got int)"),
        (WithoutExecute, errors.InvalidJobTypeError, "execute(context) is missing"),
        (WrongArity, errors.InvalidJobTypeError, "must take one argument"),
        (None, errors.InvalidJobTypeError, "a subclass of Job is needed"),
    ],
)
def test_what_cannot_be_a_job_is_refused(job: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        JobDetail(job, "x")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"description": "x" * 1001}, "description"),
        ({"data": {"a": [1, {2}]}}, "data['a'][1]: set cannot be stored"),
        ({"data": [1]}, "data: must be a mapping"),
        ({"durable": "yes"}, "durable: must be True or False"),
        ({"display_name": 5}, "display_name: must be str (got int)"),
        ({"display_name": ""}, "display_name: must not be empty"),
        ({"display_name": "two\nlines"}, "display_name: control character U+000A at position 3"),
        ({"display_name": "x" * 201}, "display_name: 201 characters, at most 200"),
        ({"display_name": "a\ud800"}, "display_name: not valid Unicode text (lone surrogate at position 1)"),
        ({"documentation_url": 5}, "documentation_url: must be str (got int)"),
        ({"documentation_url": ""}, "documentation_url: an address with http:// or https:// and a host is needed"),
        (
            {"documentation_url": "javascript:alert(1)"},
            "such as 'https://wiki.example.com/nightly' (got 'javascript:al",
        ),
        (
            {"documentation_url": "JavaScript://a/%0aalert(1)"},
            "an address with http:// or https:// and a host is needed",
        ),
        ({"documentation_url": "//wiki.example.com"}, "an address with http:// or https:// and a host is needed"),
        ({"documentation_url": "https:///nightly"}, "an address with http:// or https:// and a host is needed"),
        ({"documentation_url": "wiki.example.com/nightly"}, "an address with http:// or https:// and a host is needed"),
        ({"documentation_url": "https://a/" + "x" * 1991}, "documentation_url: 2001 characters, at most 2000"),
        ({"documentation_url": "https://a/b c"}, "spaces and control characters must be written as %20 and the like"),
        ({"documentation_url": "https://a/b\nc"}, "spaces and control characters must be written as %20 and the like"),
        ({"documentation_url": "https://a/\u202eb"}, "spaces and control characters must be written as %20"),
        ({"documentation_url": "https://a/\ud800"}, "spaces and control characters must be written as %20"),
        ({"documentation_url": "https://[::1"}, "documentation_url: 'https://[::1' cannot be read: Invalid IPv6 URL"),
        ({"documentation_url": "https://ann:secret@a/"}, "give the address without a user name and a password"),
        ({"capture_logs": "LOUD"}, "capture_logs: must be DEBUG, INFO, WARNING, ERROR, CRITICAL or OFF (got 'LOUD')"),
        ({"capture_logs": 25}, "capture_logs: must be DEBUG"),
    ],
)
def test_wrong_values_of_a_detail_name_the_value(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidValueError) as caught:
        JobDetail(Plain, "x", **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("info", "INFO"), (logging.DEBUG, "DEBUG"), (True, "INFO"), (False, "OFF"), ("off", "OFF"), (None, None)],
)
def test_a_level_of_captured_logs_is_kept_as_its_name(given: Any, kept: str | None) -> None:
    assert JobDetail(Plain, "x", capture_logs=given).capture_logs == kept


def test_a_job_can_turn_off_the_capturing_of_logs_that_is_the_default() -> None:
    default = {"capture_logs": "INFO"}
    assert JobDetail(Plain, "x").with_defaults(default).capture_logs == "INFO"
    assert JobDetail(Plain, "x", capture_logs=False).with_defaults(default).capture_logs == "OFF"


def test_details_are_values() -> None:
    assert JobDetail(Plain, "x", data={"a": 1}) == JobDetail(Plain, "x", data={"a": 1})
    assert len({JobDetail(Plain, "x", data={"a": 1}), JobDetail(Plain, "x", data={"a": 1})}) == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"max_concurrent": 3}, "detail.with_values({'max_concurrent': 3})"),
        ({"disallow_concurrent": False}, "detail.with_values({'disallow_concurrent': False})"),
    ],
)
def test_one_of_the_two_values_of_a_limit_cannot_be_replaced_alone(change: dict[str, Any], line: str) -> None:
    detail = JobDetail(Stateful, "x")
    with pytest.raises(errors.InvalidJobError, match="disallow_concurrent=True is a limit of 1") as caught:
        replace(detail, **change)
    assert line in str(caught.value)
    [other] = {"max_concurrent", "disallow_concurrent"} - change.keys()
    assert replace(detail, **change, **{other: None}) == detail.with_values(change)
    assert detail.max_concurrent == 1


def test_a_concurrency_key_is_a_limit_of_one_for_each_value_where_no_other_is_given() -> None:
    assert JobDetail("report", concurrency_key="customer").max_concurrent == 1
    assert JobDetail("report", concurrency_key="customer", max_concurrent=3).max_concurrent == 3


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({"concurrency_key": ""}, errors.InvalidKeyError, "concurrency_key"),
        ({"concurrency_key": 7}, errors.InvalidKeyError, "concurrency_key"),
        ({"concurrency_key": "customer", "disallow_concurrent": False}, errors.InvalidJobError, "give max_concurrent"),
    ],
)
def test_a_wrong_concurrency_key_is_refused(values: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        JobDetail("report", **values)
