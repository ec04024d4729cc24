"""Definitions that programs in other languages send as JSON documents, one by itself.

A document has the words of a declared file (see `files`). Dates and times are texts, and job data is the JSON in which
it is stored. It imports nothing: job types are those that nodes have published. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, replace
from typing import Any

from quartzpy.checks import WRONG
from quartzpy.definitions.declarations import MAX_DEFINED
from quartzpy.definitions.faults import Faults, Within
from quartzpy.definitions.forms import SCHEDULE, DocumentForm
from quartzpy.definitions.plain import plain_value
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.definitions.reader import plain_table, read_job, read_trigger_table, take_words, trigger_of_text
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.job import JobDetail, JobTypes
from quartzpy.jobs.join import ON, On
from quartzpy.keys import DEFAULT_GROUP, UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.texts import quoted
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

MAX_NESTED = 64
BATCH_WORDS = frozenset({"on", "triggers"})
_NO_TYPES = PublishedTypes({}, JobTypes())


def check_nesting(document: object) -> None:
    """Refuse a document that is nested deeper than any definition.

    Raises:
        InvalidValueError: it is.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > MAX_NESTED:
            raise InvalidValueError(f"body: nested deeper than {MAX_NESTED}")
        parts = [list(value.values()) if isinstance(value, Mapping) else value for value in level]
        level = [inner for part in parts if isinstance(part, list) for inner in part]


def read_job_document(
    document: object, key: JobKey, types: PublishedTypes, faults: Faults, stored_data: Mapping[str, Any] | None = None
) -> JobDetail | None:
    """Return the job of a document; None if it has faults, which are added to `faults`.

    `stored_data` is data of the same job that need not be read again if the document has exactly that.
    """
    form = DocumentForm(types, stored_data)
    values = plain_table(document, form, faults, ())
    if values is None:
        return None
    _check_name(values, key, faults)
    return read_job(values, key, form, faults, ())


def read_trigger_document(
    document: object, key: TriggerKey, faults: Faults, stored_data: Mapping[str, Any] | None = None
) -> Trigger | None:
    """Return the trigger of a document; None if it has faults. Its job is that of the same key unless it names one."""
    form = DocumentForm(_NO_TYPES, stored_data)
    values = plain_table(document, form, faults, ())
    if values is None:
        return None
    if key.group in UNSCHEDULED_GROUPS:
        faults.add((), f"the triggers of the group {key.group} are made by the scheduler; choose another group")
        return None
    _check_name(values, key, faults)
    job_key = _job_key(values.pop("job", None), key, faults)
    values = _with_schedule_text(values, faults)
    trigger = read_trigger_table(values, key.group, form, faults, ())
    if trigger is None or job_key is None:
        return None
    return replace(trigger, name=key.name, group=key.group, job_key=job_key)


def read_batch_document(document: object, name: str, faults: Faults) -> tuple[On, list[Trigger]] | None:
    """Return the ends for which the job of a batch runs, and its triggers; None if the document has faults.

    A trigger without a name is named after the batch, and one without a schedule fires at once.
    """
    values = plain_table(document, DocumentForm(_NO_TYPES), faults, ())
    if values is None:
        return None
    take_words(values, BATCH_WORDS, faults, ())
    on, declared = values.get("on", "end"), values.get("triggers")
    if on not in ON:
        faults.add(("on",), f"must be one of {', '.join(ON)} (got {quoted(on)})")
    if not isinstance(declared, list) or not declared:
        faults.add(("triggers",), "must be a list of at least one trigger")
        return None
    if len(declared) > MAX_DEFINED:
        faults.add(("triggers",), f"has {len(declared):,} triggers; one batch takes at most {MAX_DEFINED:,}")
        return None
    triggers = [
        _trigger_of_batch(each, f"{name}-{n}", Within(faults, ("triggers", n - 1)))
        for n, each in enumerate(declared, start=1)
    ]
    if None in triggers or on not in ON:
        return None
    return on, [trigger for trigger in triggers if trigger is not None]


def _trigger_of_batch(declared: object, name: str, faults: Within) -> Trigger | None:
    values = plain_table(declared, DocumentForm(_NO_TYPES), faults, ())
    if values is None:
        return None
    try:
        key = TriggerKey(values.pop("name", name), values.pop("group", DEFAULT_GROUP))
    except WRONG as error:
        faults.add(("name",), error)
        return None
    if "job" not in values:
        faults.add((), "job is missing: the job that the trigger fires, as an object with name and group")
        return None
    if not values.keys() & {SCHEDULE, "kind", "expression", "every", "interval"}:
        values["kind"] = SimpleTrigger.kind
    trigger = read_trigger_document(values, key, faults)
    if trigger is not None and (not isinstance(trigger, SimpleTrigger) or trigger.repeat_count != 0):
        faults.add((), "a trigger of a batch must fire exactly once")
        return None
    return trigger


def _with_schedule_text(values: dict[str, Any], faults: Faults) -> dict[str, Any]:
    """Return the values with a schedule that is a text, as `reschedule` takes it, in the words of its kind."""
    text = values.get(SCHEDULE)
    if not isinstance(text, str):
        return values
    del values[SCHEDULE]
    try:
        written = trigger_of_text(text)
    except WRONG as error:
        faults.add((SCHEDULE,), error)
        return {**values, "expression": MISSING} if "kind" not in values else values
    words = ("expression", "interval", "start_time") if values.get("kind") in (None, written.kind) else ()
    own = {word: getattr(written, word, None) for word in words}
    meant = {"kind": written.kind, **{word: plain_value(value) for word, value in own.items() if value}}
    for word in sorted(meant.keys() & values.keys() - {"kind"}):
        faults.add((word,), f"{SCHEDULE} says this already; give one of them")
    if not words:
        faults.add(("kind",), f"{SCHEDULE} is of the kind {written.kind}; leave kind out")
    return {**values, **meant}


def _check_name(values: dict[str, Any], key: JobKey | TriggerKey, faults: Faults) -> None:
    """Take the name and the group from a document, which must be those of its address if it has them."""
    for word in ("name", "group"):
        if values.pop(word, getattr(key, word)) != getattr(key, word):
            faults.add((word,), f"must be {quoted(getattr(key, word))}, as in the address; leave it out")


def _job_key(written: object, key: TriggerKey, faults: Faults) -> JobKey | None:
    if written is None:
        return JobKey(key.name, key.group)
    if not isinstance(written, Mapping) or "name" not in written or written.keys() - {"name", "group"}:
        faults.add(("job",), f'must be an object {{"name": ..., "group": ...}} (got {quoted(written)})')
        return None
    try:
        return JobKey(written["name"], written.get("group", DEFAULT_GROUP))
    except WRONG as error:
        faults.add(("job",), error)
        return None
