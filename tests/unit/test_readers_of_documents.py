"""A declared file and the same document over HTTP are read alike, whatever the order of their keys."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy import job
from quartzpy.definitions.declarations import read_declarations
from quartzpy.definitions.documents import read_job_document
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.files import definitions
from quartzpy.definitions.forms import SentFileForm
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.errors import InvalidDefinitionError, SettingsError
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


def test_a_file_names_its_first_mistake() -> None:
    with pytest.raises(SettingsError, match=MISTAKES[0]):
        definitions(THREE_MISTAKES, "jobs.yaml")


def test_a_file_names_all_its_mistakes() -> None:
    with pytest.raises(SettingsError) as refused:
        definitions(THREE_MISTAKES, "jobs.yaml")
    assert [word for word in MISTAKES if word not in str(refused.value)] == []
