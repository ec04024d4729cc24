"""Jobs and triggers that are written to a file or as a document are read back unchanged."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy import (
    AllOf,
    AnyOf,
    BusinessDayTrigger,
    CalendarIntervalTrigger,
    Continuation,
    CronTrigger,
    DailyTimeIntervalTrigger,
    Expect,
    Jitter,
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    RateLimit,
    RecurrenceTrigger,
    RetryPolicy,
    Rolled,
    SimpleTrigger,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.dashboard.api import openapi
from quartzpy.definitions.documents import read_job_document, read_trigger_document
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.files import definitions
from quartzpy.definitions.plain import span_text
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.definitions.stored_documents import document_of_declared, job_document
from quartzpy.definitions.writer import exported, written
from quartzpy.errors import SettingsError
from quartzpy.jobs.job import job_types
from quartzpy.scheduler.sync import Definitions
from quartzpy.store.definition_differences import job_differences, trigger_differences
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash

START = datetime(2026, 1, 1, 8, 30, 0, 123456, tzinfo=UTC)
COMPONENTS = openapi.document()["components"]


class Plain(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@disallow_concurrent_execution
@persist_job_data_after_execution
class Decorated(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def read_back(text: str) -> Definitions:
    return definitions(tomllib.loads(text), "exported.toml").jobs


def check(job: JobDetail, *triggers: Trigger) -> str:
    """Export a job with its triggers, read the file, and return its text."""
    bound = [trigger.bound_to(job.key, number) for number, trigger in enumerate(triggers, 1)]
    text = exported([(job, bound)])
    [(read, read_triggers)] = read_back(text)
    assert read.key == job.key
    assert job_differences(read, job) == []
    assert job_differences(job, read) == []
    assert [one.key for one in read_triggers] == [one.key for one in bound]
    for one, other in zip(read_triggers, bound, strict=True):
        assert type(one) is type(other)
        assert trigger_differences(one, other, schedule_hash(one), None) == []
        assert schedule_hash(one) == schedule_hash(other)
    check_documents(job, bound)
    return text


def check_documents(job: JobDetail, bound: list[Trigger]) -> None:
    """Write a job and its triggers as documents, check them against the schema, and read them."""
    faults = Faults()
    document = through_json(job_document(job))
    accepted("JobDocument", document)
    read = read_job_document(document, job.key, PublishedTypes({job.job_type: None}, job_types), faults)
    assert faults.entries == []
    assert read is not None
    assert job_differences(read, job) == []
    for trigger in bound:
        document = through_json(document_of_declared(trigger))
        accepted("TriggerDocument", document)
        read_trigger = read_trigger_document(document, trigger.key, faults)
        assert read_trigger == replace(trigger, data=trigger.data or None)
    assert faults.entries == []


def through_json(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))


def accepted(schema: str, document: Any) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": COMPONENTS}
    jsonschema.validate(document, whole, jsonschema.Draft202012Validator)


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
spans = st.timedeltas(timedelta(milliseconds=1), timedelta(days=300))
plain_values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
typed_values = (
    plain_values
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.uuids()
    | st.binary(max_size=8)
)
data = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10),
    st.recursive(typed_values, lambda one: st.lists(one, max_size=3), max_leaves=6),
    max_size=4,
)


def storable(value: Any) -> bool:
    match value:
        case str():
            return "\0" not in value and value.isprintable()
        case list():
            return all(map(storable, value))
    return True


jobs = st.builds(
    JobDetail,
    st.sampled_from([Plain, Decorated]),
    names,
    names,
    description=st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    data=data.filter(lambda given: all(map(storable, given.values()))),
    durable=st.booleans(),
    requests_recovery=st.booleans(),
    max_concurrent=st.none() | st.integers(1, 9),
    persist_data=st.none() | st.booleans(),
    retry=st.none() | st.builds(RetryPolicy, attempts=st.integers(2, 9), delay=spans, max_delay=st.just("299d")),
    timeout=st.none() | spans,
    rate_limit=st.none() | st.builds(RateLimit, st.integers(5, 50), per=st.just("1m"), burst=st.integers(1, 5)),
    requires=st.lists(names, max_size=2, unique=True).map(sorted),
    display_name=st.none() | names,
    documentation_url=st.none()
    | st.sampled_from(["https://wiki.example.com/nightly?page=1#top", "http://[::1]:8080/ä"]),
    capture_logs=st.none() | st.sampled_from(["INFO", "OFF"]),
    expect=st.none() | st.builds(Expect, starts_within=spans, ends_by=st.none() | st.just("06:00")),
    continuations=st.lists(
        st.builds(Continuation, st.builds(JobKey, names, names), data=st.none() | st.just({"a": [1]})),
        max_size=2,
        unique_by=lambda one: one.key,
    ),
)
common = {
    "start_time": st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    "priority": st.integers(0, 20),
    "description": st.none() | names,
    "data": st.none() | data.filter(lambda given: all(map(storable, given.values()))),
}
zones = st.sampled_from(["UTC", "Europe/Berlin", "+05:30"])
single = (
    st.builds(SimpleTrigger, names, names, interval=spans, repeat_count=st.none() | st.integers(0, 99), **common)
    | st.builds(CronTrigger, st.sampled_from(["0 0 2 ? * MON-FRI", "0/5 * * * * ?"]), names, time_zone=zones, **common)
    | st.builds(CronTrigger.from_crontab, st.sampled_from(["30 4 * * 1-5", "@daily"]), names, time_zone=zones)
    | st.builds(
        CalendarIntervalTrigger, names, interval=st.integers(1, 9), unit=st.sampled_from(["day", "month"]), **common
    )
    | st.builds(
        DailyTimeIntervalTrigger,
        names,
        interval=st.integers(1, 50),
        unit=st.just("minute"),
        start_time_of_day=st.just(time(8, 30)),
        days_of_week=st.sets(st.integers(1, 7), min_size=1),
        time_zone=zones,
        **common,
    )
)


@settings(deadline=None, max_examples=60)
@given(job=jobs, trigger=single)
def test_every_job_and_trigger_is_read_back_unchanged(job: JobDetail, trigger: Trigger) -> None:
    check(job, trigger)


def test_combined_triggers_keep_the_form_in_which_they_are_stored() -> None:
    cron = CronTrigger("0 0 2 * * ?", time_zone="Europe/Berlin", start_time=START)
    text = check(
        JobDetail(Plain, "job", "eu"),
        AnyOf("any", triggers=[cron, SimpleTrigger(interval="1h", start_time=START)], start_time=START),
        AllOf("all", triggers=[cron, cron], start_time=START),
        Jitter("jitter", trigger=cron, up_to="5m", start_time=START, data={"a": 1}),
        Rolled("rolled", trigger=cron, roll="nearest", offset=2, calendar="target", start_time=START),
        BusinessDayTrigger("nth", nth=[1, -1], at="18:00", calendar="target", start_time=START),
        RecurrenceTrigger("rule", rule="FREQ=DAILY;BYHOUR=9", start_time=START),
    )
    assert "schedule = " in text


def test_continuations_and_typed_data_are_kept() -> None:
    text = check(
        JobDetail(
            *(Plain, "job", "eu"),
            durable=True,
            data={"price": Decimal("1.50"), "id": UUID(int=7)},
            continuations=["load", Continuation(JobKey("mail", "eu"), ["FAILED"], data={"at": START})],
        )
    )
    assert 'continuations = ["load", { job = "mail"' in text
    assert "stored_data = " in text


def test_a_file_that_people_read_has_the_words_of_the_classes() -> None:
    job = JobDetail(Decorated, "report", "eu", data={"region": "eu", "days": [1, 2]}, timeout="30m", durable=True)
    assert check(job, CronTrigger("0 0 2 ? * MON-FRI", "nightly", "eu", time_zone="Europe/Berlin")) == (
        "[[job]]\n"
        'type = "tests.unit.test_exporting:Decorated"\n'
        'name = "report"\n'
        'group = "eu"\n'
        "durable = true\n"
        'timeout = "30m"\n'
        'data = { region = "eu", days = [1, 2] }\n'
        "\n"
        "  [[job.trigger]]\n"
        '  kind = "cron"\n'
        '  name = "nightly"\n'
        '  group = "eu"\n'
        '  expression = "0 0 2 ? * MON-FRI"\n'
        '  time_zone = "Europe/Berlin"\n'
    )
    assert exported([]) == "job = []\n"


def test_a_file_is_written_while_jobs_and_triggers_are_read() -> None:
    read: list[str] = []

    def triggers(job: str) -> Iterator[Trigger]:
        for number in range(2):
            read.append(f"{job}{number}")
            yield CronTrigger("0 0 2 ? * MON-FRI", f"t{number}").bound_to(JobKey(job))

    pairs = ((JobDetail("x:y", job, durable=True), triggers(job)) for job in ("a", "b"))
    parts = written(pairs)
    seen = [(part.split()[0] if part else "", list(read)) for part in parts]
    assert seen == [
        ("", []),
        ("[[job]]", []),
        ("[[job.trigger]]", ["a0"]),
        ("[[job.trigger]]", ["a0", "a1"]),
        ("[[job]]", ["a0", "a1"]),
        ("[[job.trigger]]", ["a0", "a1", "b0"]),
        ("[[job.trigger]]", ["a0", "a1", "b0", "b1"]),
    ]


def test_a_job_of_a_class_that_is_not_known_says_what_decorators_would() -> None:
    text = exported([(JobDetail("tests.unit.test_exporting:Decorated", "job", durable=True), [])])
    assert "disallow_concurrent = false\npersist_data = false\n" in text
    [(read, _)] = read_back(text)
    assert not read.disallow_concurrent
    assert not read.persist_data


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(hours=2), "2h"),
        (timedelta(seconds=90), "90s"),
        (timedelta(0), "0s"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(microseconds=7), "7us"),
    ],
)
def test_spans_are_written_exactly(span: timedelta, text: str) -> None:
    assert span_text(span) == text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('data = { a = 1 }\nstored_data = "{}"', "data and stored_data are the same"),
        ('stored_data = "nonsense"', "stored data cannot be read"),
        ('continuations = [{ jib = "x" }]', "'jib' is not known; did you mean job?"),
        ("[[job.trigger]]\nkind = 'jitter'\nschedule = 'nonsense'", "schedule: is not JSON"),
        ("[[job.trigger]]\nkind = 'cron'\nschedule = '{}'\nexpression = '0 0 2 * * ?'", "'expression' is not known"),
    ],
)
def test_a_wrong_stored_form_is_reported(lines: str, message: str) -> None:
    with pytest.raises(SettingsError, match="job 1") as caught:
        read_back(f'[[job]]\ntype = "tests.unit.test_exporting:Plain"\nname = "job"\ndurable = true\n{lines}\n')
    assert message in str(caught.value)
