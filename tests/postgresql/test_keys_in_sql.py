"""The keys of job data and the groups of triggers that the statements store are those of the Python code."""

from __future__ import annotations

import re

from quartzpy import job_data
from quartzpy.keys import CONTINUATIONS, RECOVERING_JOBS, RETRYING_JOBS
from tools.sql import files, whole

KEYS = (
    job_data.ORIGINAL_FIRE_TIME,
    job_data.ORIGINAL_GROUP,
    job_data.ORIGINAL_NAME,
    job_data.ORIGINAL_SCHEDULED_FIRE_TIME,
    job_data.PREDECESSOR_FIRE_ID,
    job_data.PREDECESSOR_GROUP,
    job_data.PREDECESSOR_NAME,
    job_data.PREDECESSOR_OUTCOME,
    job_data.PREDECESSOR_RESULT,
    job_data.BATCH,
    job_data.JOINED,
    job_data.NOMINAL_FIRE_TIME,
    job_data.TRIGGERED_BY,
    job_data.RETRIED_GROUP,
    job_data.RETRIED_NAME,
    job_data.RETRIED_SCHEDULED_FIRE_TIME,
)


def in_statements(pattern: str) -> set[str]:
    return {text for file in files() for text in re.findall(pattern, whole(file))}


def test_a_repeated_execution_has_the_keys_of_its_original() -> None:
    assert in_statements(r"'(QRTZ_\w+)'") == set(KEYS)


def test_repetitions_and_continuations_have_groups_of_their_own() -> None:
    groups = {CONTINUATIONS, RECOVERING_JOBS, RETRYING_JOBS}
    assert (
        in_statements(
            r"(?:nextval\('qrtz_fire_ids'\),|SELECT) '(\w+)'(?: AS trigger_group)?, '(?:after|retry|recover)_'"
        )
        == groups
    )
