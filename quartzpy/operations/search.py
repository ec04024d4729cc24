"""The search by a part of a name, or by the id of an execution."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.errors import InvalidKeyError, InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.executions import ExecutionSummary, summary
from quartzpy.operations.source import Source
from quartzpy.scheduling.verbs.filters import checked_text
from quartzpy.scheduling.verbs.queries import MAX_FIRE_ID

MOST_FOUND = 100


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What was found, each kind sorted: exact matches first, then names that begin with the text."""

    text: str
    jobs: tuple[JobKey, ...]
    triggers: tuple[TriggerKey, ...]
    execution: ExecutionSummary | None
    """The execution whose fire id is the text."""
    nodes: tuple[str, ...]
    calendars: tuple[str, ...]
    has_more: bool
    """True if there may be more jobs or triggers than these."""


def search(source: Source, text: str, limit: int) -> SearchResults:
    if type(limit) is not int or not 1 <= limit <= MOST_FOUND:
        raise InvalidValueError(f"limit: must be a whole number from 1 to {MOST_FOUND} (got {limit!r})")
    given = checked_text(text.strip() if isinstance(text, str) else text, "text")
    if given is None:
        raise InvalidValueError("text: must be a part of a name, or the id of an execution (got None)")
    store = source.store
    found = store.find_keys(given, limit + 1)
    exact_job, exact_trigger = _exact(source, given)
    part = given.lower()
    execution = None
    if given.isdecimal() and len(given) <= 19 and int(given) <= MAX_FIRE_ID:
        execution = store.execution(int(given))
    return SearchResults(
        text=given,
        jobs=tuple(dict.fromkeys([*exact_job, *found.jobs]))[:limit],
        triggers=tuple(dict.fromkeys([*exact_trigger, *found.triggers]))[:limit],
        execution=None if execution is None else summary(execution),
        nodes=tuple(node.instance_id for node in store.list_nodes().nodes if part in node.instance_id.lower()),
        calendars=tuple(name for name in store.calendar_names() if part in name.lower())[:limit],
        has_more=max(len(found.jobs), len(found.triggers)) > limit,
    )


def _exact(source: Source, text: str) -> tuple[list[JobKey], list[TriggerKey]]:
    """Return the job and the trigger whose key is the text: NAME in the group DEFAULT, or GROUP.NAME."""
    group, _, name = text.rpartition(".")
    try:
        job, trigger = JobKey(name, group or "DEFAULT"), TriggerKey(name, group or "DEFAULT")
    except InvalidKeyError:
        return [], []
    jobs = [job] if source.store.job_header(job) is not None else []
    return jobs, list(source.store.triggers([trigger]))
