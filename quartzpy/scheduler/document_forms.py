"""The two forms of documents: one definition by itself, and a declared file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.job_data import INTERNAL_KEYS, decode, encode, values_of_classes
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.internal_entries import without_trace
from quartzpy.scheduler.declarations import JOB_WORDS, STORED_DATA
from quartzpy.scheduler.document_faults import Faults, Place
from quartzpy.scheduler.document_values import WRONG
from quartzpy.scheduler.published_types import PublishedTypes
from quartzpy.texts import quoted, reason

UNKNOWN_TYPE = "unknown"


def data_entry(data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return job data as the entry of a document; no entry if there is none."""
    text = encode(without_trace(data or {}))
    return {} if text is None else {"data": json.loads(text)}


class Form:
    """How the two forms of documents differ: one definition by itself, and a declared file."""

    job_words: AbstractSet[str]
    refused_words: AbstractSet[str] = frozenset()

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        """Replace the data among the values by what is stored."""
        raise NotImplementedError

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        """Return the schedule of a trigger that is not an object."""
        raise InvalidValueError(f"must be a text or an object (got {quoted(written)})")

    def complete(
        self, values: dict[str, Any], job_type: str, types: PublishedTypes, faults: Faults, place: Place
    ) -> None:
        """Add what follows from the type of a job, where this process has not imported it."""
        if types.class_of(job_type) is not None or job_type == UNKNOWN_TYPE:
            return
        facts = types.facts[job_type]
        # A key alone is a limit of one, and with a rate it is none.
        has_limit = "max_concurrent" in values or ("concurrency_key" in values and "rate_limit" not in values)
        if not has_limit:
            disallows = None if facts is None else facts.disallows_concurrent
            self._complete(values, "disallow_concurrent", disallows, faults, place)
        persists = None if facts is None else facts.persists_data
        self._complete(values, "persist_data", persists, faults, place)

    @staticmethod
    def _complete(values: dict[str, Any], word: str, of_type: bool | None, faults: Faults, place: Place) -> None:
        if of_type is None and word not in values:
            faults.add(place, f"{word} is missing: no node has published what the decorators of the job type say")
        elif values.get(word) is None:
            values[word] = of_type


class StoredForm(Form):
    """A document of its own, whose data is the JSON in which it is stored."""

    job_words = JOB_WORDS - {"trigger", ARGS, KWARGS, STORED_DATA}
    refused_words = frozenset({STORED_DATA})

    def __init__(self, data: Mapping[str, Any] | None) -> None:
        self._data = data

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        if values.get("data") is None:
            values.pop("data", None)
            return
        written = values.pop("data")
        if self._data and data_entry(self._data).get("data") == written:
            # What is stored may have values of classes that this process has not imported, or must not make anew.
            values["data"] = self._data
            return
        data = _checked_data(written, faults, (*place, "data"))
        if data:
            values["data"] = data

    def complete(
        self, values: dict[str, Any], job_type: str, types: PublishedTypes, faults: Faults, place: Place
    ) -> None:
        # A job is stored before its triggers.
        values.setdefault("durable", True)
        super().complete(values, job_type, types, faults, place)


class DeclaredForm(Form):
    """A part of a declared file, with data as the file has it, or as the text in which it is stored."""

    job_words = JOB_WORDS - {"trigger"}

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        if isinstance(values.get(STORED_DATA), str):
            try:
                written = json.loads(values.pop(STORED_DATA))
            except (ValueError, RecursionError) as error:
                faults.add((*place, STORED_DATA), f"must be JSON: {reason(error)}")
                return
            if "data" in values:
                faults.add((*place, STORED_DATA), "is the same as data; give one of them")
            values["data"] = _checked_data(written, faults, (*place, STORED_DATA))
            return
        arguments = {word: values.pop(word) for word in (ARGS, KWARGS) if word in values}
        data = values.get("data")
        if data is not None and not isinstance(data, Mapping):
            faults.add((*place, "data"), f"must be an object (got {quoted(data)})")
            del values["data"]
        elif arguments:
            values["data"] = {ARGS: [], KWARGS: {}, **arguments, **(data or {})}
        _refuse_internal(data, faults, (*place, "data"))

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        read = json.loads(written) if isinstance(written, str) else written
        return read if isinstance(read, Mapping) else super().stored_schedule(written)


DECLARED = DeclaredForm()


def _checked_data(written: object, faults: Faults, place: Place) -> dict[str, Any]:
    """Return job data from the JSON in which it is stored. It must not make values of the program's classes."""
    if not isinstance(written, Mapping):
        faults.add(place, f"must be an object (got {quoted(written)})")
        return {}
    _refuse_internal(written, faults, place)
    number = len(faults.entries)
    for key, item in written.items():
        for within in values_of_classes(item, (key,)):
            faults.add(
                (*place, *within),
                "values of Python classes cannot be sent; send plain values, of which the data type of the job is made",
            )
    if len(faults.entries) > number:
        return {}
    try:
        return decode(json.dumps(written))
    except WRONG as error:
        faults.add(place, error)
        return {}


def _refuse_internal(data: object, faults: Faults, place: Place) -> None:
    if isinstance(data, Mapping):
        for name in sorted(INTERNAL_KEYS & data.keys()):
            faults.add((*place, name), "is an entry that the scheduler itself writes")
