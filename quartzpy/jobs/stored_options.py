"""The options of a job that no statement of a store reads: they share the column `definition` of the job's row.

Such an option is declared once, as a field of `JobDetail`, and its stored form follows from the type of its value. The
column is a JSON object of those that are not the defaults, in the words of a declared file. Names that this release
does not know are those of a later one, and mean nothing here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache, lru_cache
from typing import Any

from quartzpy.checks import WRONG
from quartzpy.errors import InvalidJobError
from quartzpy.instants import accepted_types, as_span, span_text
from quartzpy.jobs.job import JobDetail
from quartzpy.texts import reason, stored_object

_SUBJECT = "definition"
HAVE_COLUMNS = frozenset(
    {
        *("job", "name", "group", "data", "durable", "requests_recovery", "persist_data", "pause_after_failures"),
        *("disallow_concurrent", "max_concurrent", "overlap_policy", "concurrency_key", "rate_limit", "limits"),
        *("executor", "execution_group", "requires", "continuations", "after", "expect"),
    }
)
"""The values of a job that statements read in a condition or compute with. Each has a column of its own, or a part."""


@cache
def _defaults() -> Mapping[str, Any]:
    return {own.name: own.default for own in fields(JobDetail) if own.name not in HAVE_COLUMNS}


def options_text(job: JobDetail) -> str | None:
    """Return these options as they are stored; None if all are the defaults."""
    options = {name: getattr(job, name) for name, default in _defaults().items() if getattr(job, name) != default}
    return json.dumps({name: _plain(value) for name, value in options.items()}) if options else None


def options_from_text(text: str | None) -> dict[str, Any]:
    """Return these options as arguments of `JobDetail`.

    Raises:
        InvalidJobError: one of them cannot be read.
    """
    return {} if text is None else {name: _held(name, text) for name in _values(text) if name in _defaults()}


def stored_option(text: str | None, name: str) -> Any:
    """Return one of these options, or None if it is not given.

    Raises:
        InvalidJobError: it cannot be read.
    """
    # Each fire asks. A text is searched before it is parsed; a word that a user has written there costs a look.
    return None if text is None or f'"{name}"' not in text else _held(name, text)


@lru_cache(maxsize=1024)
def _values(text: str) -> Mapping[str, Any]:
    return stored_object(text, _SUBJECT, InvalidJobError)


@lru_cache(maxsize=1024)
def _held(name: str, text: str) -> Any:
    value = _values(text).get(name)
    accepted = accepted_types(JobDetail)[name]
    record: Any = next((each for each in accepted if is_dataclass(each)), None)
    try:
        if record is not None and isinstance(value, Mapping):
            words = {own.name for own in fields(record)}
            return record(**{word: part for word, part in value.items() if word in words})
        return as_span(value, name, InvalidJobError) if timedelta in accepted and value is not None else value
    except WRONG as error:
        raise InvalidJobError(f"{_SUBJECT}: {name} cannot be read: {reason(error)}") from error


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {own.name: _plain(getattr(value, own.name)) for own in fields(value)}
    return span_text(value) if isinstance(value, timedelta) else value
