"""A declared file and the same document over HTTP are read alike, whatever the order of their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quartzpy import job
from quartzpy.definitions.declarations import read_declarations
from quartzpy.definitions.documents import read_job_document
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.files import definitions, load_definitions
from quartzpy.definitions.forms import SentFileForm
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.embedded.schedule_file import read_schedule
from quartzpy.errors import InvalidDefinitionError, InvalidJobError, SettingsError
from quartzpy.jobs.job import job_types
from quartzpy.keys import JobKey


@job
def report() -> None:
    """Do nothing: the documents name it."""


TYPE = report.detail("report").job_type
TYPES = PublishedTypes({TYPE: None}, job_types)
THREE_MISTAKES = {
    "job": [
        {"type": TYPE, "name": "a", "durable": True, "max_concurrent": 0},
        {"type": TYPE, "name": "b", "durable": True, "timeout": "soon"},
        {"type": TYPE, "name": "c", "trigger": "every nonsense"},
    ]
}
MISTAKES = ["max_concurrent: a number from 1", "timeout: must be a length of time", "'every nonsense' is not a cron"]


def pointers(document: dict[str, Any]) -> list[str]:
    faults = Faults()
    assert read_job_document(document, JobKey("report"), TYPES, faults) is None
    return [fault.pointer for fault in faults.entries]


def test_the_order_of_its_keys_does_not_decide_which_value_of_a_document_is_wrong() -> None:
    document = {"type": TYPE, "durable": True, "max_concurrent": 3, "disallow_concurrent": True}
    assert pointers(document) == pointers(dict(reversed(document.items())))


def test_a_document_over_http_names_all_its_mistakes() -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        read_declarations(THREE_MISTAKES, SentFileForm(TYPES), Faults())
    assert [fault.pointer for fault in refused.value.faults] == [
        "/job/0/max_concurrent",
        "/job/1/timeout",
        "/job/2/trigger",
    ]
    assert all(word in fault.detail for word, fault in zip(MISTAKES, refused.value.faults, strict=True))


def test_a_file_names_all_its_mistakes() -> None:
    with pytest.raises(SettingsError) as refused:
        definitions(THREE_MISTAKES, "jobs.yaml")
    assert [word for word in MISTAKES if word not in str(refused.value)] == []


def test_python_names_all_mistakes_of_a_job() -> None:
    with pytest.raises(InvalidJobError, match=MISTAKES[0]) as refused:
        report.detail("a", max_concurrent=0, timeout="soon")
    assert [name for name, _ in refused.value.refused] == ["max_concurrent", "timeout"]
    assert all(word in str(error) for word, (_, error) in zip(MISTAKES, refused.value.refused, strict=False))


TOML = f"""
[[job]]
type = "{TYPE}"
name = "a"
retry = {{ attempts = 1 }}
data = {{ text = \"\"\"
timeout = 3
\"\"\" }}

[[job]]
type = "{TYPE}"
name = "b"
timeout = "soon"
colour = "red"

  [[job.trigger]]
  kind = "calendar_interval"
  interval = 0

[window.w]
cron = "@weekly"
"""
YAML = f"""
job:
  - type: {TYPE}
    name: a
    retry:
      attempts: 1
  - type: {TYPE}
    name: b
    timeout: soon
    colour: red
    trigger:
      kind: calendar_interval
      interval: 0
window:
  w:
    cron: "@weekly"
"""


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [("jobs.toml", TOML, [5, 14, 13, 16, 18, 20]), ("jobs.yaml", YAML, [6, 10, 9, 11, 13, 15])],
)
def test_a_file_names_the_line_of_each_mistake(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_definitions(path)
    mistakes = [
        "job 1 (a): retry: attempts must be from 2 to 1000 (got 1)",
        "job 2 (b): 'colour' is not known; ",
        "job 2 (b): timeout: must be a length of time",
        "job 2 (b): trigger 1: unit is missing",
        "job 2 (b): trigger 1: interval: must be a whole number from 1 to ",
        "window 'w': needs either cron and duration",
    ]
    for line, number, mistake in zip(str(refused.value).splitlines(), lines, mistakes, strict=True):
        assert line.startswith(f"{path}:{number}: {mistake}")


SCHEDULE = """
time_zone: UTC
jobs:
  a:
    command: /bin/true
    schedule: every nonsense
  b:
    schedule: every 5m
  c:
    command: /bin/true
    schedule: every 5m
    retry:
      attempts: 1
  d: 7
windows:
  w:
    cron: "@weekly"
"""


def test_the_file_of_a_node_names_the_line_of_each_mistake(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(SCHEDULE)
    with pytest.raises(SettingsError) as refused:
        read_schedule(path)
    mistakes = [
        "7: job b: exactly one of command, url, request, function is needed (got none)",
        "14: job d: a mapping with command:, url: or function:, and schedule: is needed",
        "6: job a: schedule: expected 6 or 7 fields (got 2); ",
        "13: job c: retry: attempts must be from 2 to 1000 (got 1)",
        "16: window 'w': needs either cron and duration",
    ]
    for line, mistake in zip(str(refused.value).splitlines(), mistakes, strict=True):
        assert line.startswith(f"{path}:{mistake}")
