"""The options of a job that have no column of their own, as they are stored."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy import JobDetail, RetryPolicy
from quartzpy.errors import InvalidJobError
from quartzpy.instants import MAX_SPAN
from quartzpy.jobs.stored_options import HAVE_COLUMNS, options_from_text, options_text, stored_option
from quartzpy.store.postgresql.schema.rows import JobColumns

SPANS = st.timedeltas(timedelta(microseconds=1), MAX_SPAN)
POLICIES = st.builds(
    RetryPolicy,
    attempts=st.integers(2, 1000),
    delay=st.timedeltas(timedelta(), timedelta(days=1)),
    factor=st.floats(1, 100),
    max_delay=st.timedeltas(timedelta(), timedelta(days=365)),
    jitter=st.floats(0, 1),
    on=st.lists(st.sampled_from([ValueError, "x.Y"])),
)
OPTIONS = {
    "description": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50),
    "display_name": st.sampled_from(["Früh", 'the "timeout" of "retry"']),
    "documentation_url": st.just("https://wiki.example.com/nightly"),
    "capture_logs": st.sampled_from(["INFO", "OFF"]),
    "retry": POLICIES,
    "timeout": SPANS,
}


@given(st.fixed_dictionaries({}, optional=OPTIONS))
def test_they_come_back_as_they_were(options: dict[str, Any]) -> None:
    job = JobDetail("a.job", "job", **options)
    columns = JobColumns.of(job)
    # As the server writes it.
    text = None if columns.definition is None else json.dumps(json.loads(columns.definition), ensure_ascii=False)
    assert columns._replace(definition=text).job() == job
    assert {name: stored_option(text, name) for name in options} == {name: getattr(job, name) for name in options}
    assert (text is None) == (options == {})


def test_each_option_has_a_column_or_is_stored_among_the_others() -> None:
    assert {own.name for own in fields(JobDetail)} == {*HAVE_COLUMNS, *OPTIONS}


def test_they_are_the_words_of_a_declared_file() -> None:
    text = options_text(JobDetail("a.job", "job", timeout=timedelta(minutes=90), retry=RetryPolicy(delay="1h")))
    assert text is not None
    stored = json.loads(text)
    assert stored["timeout"] == "5400s"
    assert (stored["retry"]["delay"], stored["retry"]["attempts"]) == ("3600s", 3)


def test_what_a_later_release_has_stored_is_left_alone() -> None:
    text = '{"colour": "blue", "timeout": "90s", "retry": {"attempts": 5, "patience": 3}}'
    assert options_from_text(text) == {"timeout": timedelta(seconds=90), "retry": RetryPolicy(attempts=5)}


@pytest.mark.parametrize("value", ["NaN", "1e999", "9" * 40, '"x"', "[]", "-1", '{"attempts": 0}', '{"on": 3}', "true"])
@pytest.mark.parametrize("name", ["retry", "timeout"])
def test_one_that_was_tampered_with_is_an_error_of_ours_and_hides_no_other(name: str, value: str) -> None:
    text = f'{{"{name}": {value}, "capture_logs": "INFO"}}'
    assert stored_option(text, "capture_logs") == "INFO"
    with pytest.raises(InvalidJobError, match=name):
        JobDetail("a.job", "job", **options_from_text(text))


@pytest.mark.parametrize("text", ["", "[]", '{"timeout"', '{"timeout":' + "[" * 50_000])
def test_a_column_that_was_tampered_with_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(InvalidJobError, match=r"^definition: "):
        options_from_text(text)
