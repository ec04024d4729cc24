"""The forms of definitions: a file, a declared file that is sent over HTTP, and one document over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any

from quartzpy.checks import WRONG
from quartzpy.definitions.faults import Faults, Place
from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.errors import InvalidJobError, InvalidValueError, SettingsError
from quartzpy.job_data import INTERNAL_KEYS, decode, encode, values_of_classes
from quartzpy.jobs.function_arguments import ARGS, KWARGS
from quartzpy.jobs.internal_entries import without_trace
from quartzpy.jobs.job import Job, JobDetail, JobTypes
from quartzpy.texts import did_you_mean, quoted, reason, stored_object
from quartzpy.triggers.trigger import Trigger

STORED_DATA, SCHEDULE = "stored_data", "schedule"
JOB_WORDS = {field.name for field in fields(JobDetail)} - {"job"} | {"type", "trigger", ARGS, KWARGS, STORED_DATA}


@dataclass(frozen=True, kw_only=True)
class Language:
    """The words in which faults show what to write."""

    table: str
    no_jobs: str
    jobs: str
    triggers: str
    calendars: str
    schedule: str


TOML = Language(
    table="a table",
    no_jobs="job = []",
    jobs="a list of tables ([[job]])",
    triggers='a list of tables ([[job.trigger]]), or a text such as trigger = "every 10s"',
    calendars="a table of tables ([{}.NAME])",
    schedule='a trigger: trigger = "every 10s", or trigger = "0 2 * * *"',
)
YAML = Language(
    table="a mapping",
    no_jobs="job: []",
    jobs="a list: below job:, each job begins with - type: module:name, and name: is a key of it",
    triggers="a text such as trigger: every 10s, a mapping such as trigger: {kind: cron, expression: ...}, or a list",
    calendars="a mapping of mappings: below {}:, each begins with its name",
    schedule='a trigger: trigger: every 10s, or trigger: "0 2 * * *"',
)
JSON = Language(
    table="an object",
    no_jobs="an empty list for job",
    jobs="a list of objects, each with type and name",
    triggers="a trigger or a list of them",
    calendars="an object of objects by their names",
    schedule='a trigger: "trigger": "every 10s", or "trigger": "0 2 * * *"',
)


def data_entry(data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return job data as the entry of a document; no entry if there is none."""
    text = encode(without_trace(data or {}))
    return {} if text is None else {"data": json.loads(text)}


class Form:
    """How definitions are given, and which job types they may name."""

    language: Language
    job_words: AbstractSet[str] = JOB_WORDS
    refused_words: AbstractSet[str] = frozenset()

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        """Replace the data among the values by what is stored."""
        raise NotImplementedError

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        """Return the schedule of a trigger that is not an object."""
        raise InvalidValueError(f"must be a text or an object (got {quoted(written)})")

    def type_of(self, name: object, faults: Faults, place: Place) -> type[Job] | str | None:
        """Return the class of a job type, or its name if this process has not imported it; None if it is wrong."""
        raise NotImplementedError

    def complete(self, values: dict[str, Any], job_type: type[Job] | str, faults: Faults, place: Place) -> None:
        """Add what follows from the type of a job, where this process has not imported it."""

    def data_problems(self, job: JobDetail, trigger: Trigger | None = None) -> Iterator[tuple[Place, str]]:
        """Yield what is wrong with the data of a job that is called by a trigger, and where in the data it is."""
        return iter(())


class _Declared(Form):
    """A declared file, with data as the file has it, or as the text in which it is stored."""

    def read_data(self, values: dict[str, Any], faults: Faults, place: Place) -> None:
        arguments = {word: values.pop(word) for word in (ARGS, KWARGS) if word in values}
        if STORED_DATA in values:
            written = values.pop(STORED_DATA)
            if "data" in values or arguments:
                faults.add((*place, STORED_DATA), f"data and {STORED_DATA} are the same; give one of them")
            else:
                values["data"] = self.stored_data(written, faults, (*place, STORED_DATA))
            return
        data = values.get("data")
        if data is not None and not isinstance(data, Mapping):
            faults.add((*place, "data"), f"must be {self.language.table} (got {quoted(values.pop('data'))})")
            return
        if arguments:
            values["data"] = {ARGS: [], KWARGS: {}, **arguments, **(data or {})}
        self.check_data(data or {}, faults, (*place, "data"))

    def stored_data(self, written: object, faults: Faults, place: Place) -> Mapping[str, Any]:
        """Return the data that is stored as a text."""
        raise NotImplementedError

    def check_data(self, data: Mapping[str, Any], faults: Faults, place: Place) -> None:
        """Report what must not stand in the data."""


class FileForm(_Declared):
    """A file of the user, whose job types are imported."""

    def __init__(self, language: Language, types: JobTypes) -> None:
        self.language = language
        self._types = types

    def stored_data(self, written: object, faults: Faults, place: Place) -> Mapping[str, Any]:
        try:
            return decode(written)  # type: ignore[arg-type]
        except WRONG as error:
            faults.add(place, error)
        return {}

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        return stored_object(str(written), SCHEDULE, SettingsError)

    def type_of(self, name: object, faults: Faults, place: Place) -> type[Job] | str | None:
        if not isinstance(name, str):
            faults.add(place, "type is missing, or is not a text")
            return None
        try:
            type_name = name if self._is_loaded(name) else _type_name_of_class(name)
            if type_name is None:
                raise InvalidJobError(
                    f"type {quoted(name)} is not registered by any imported module; write module:class, or import the"
                    " module that defines it (--import of quartzpy plan and apply)"
                )
            return self._types.find(type_name)
        except (*WRONG, ImportError) as error:
            faults.add((*place, "type"), error)
        return None

    def _is_loaded(self, name: str) -> bool:
        """Import the module of a job type; return True if the type is registered then."""
        try:
            return self._types.load(name, (name.partition(":")[0],))
        except ImportError:
            raise
        except Exception as error:
            # The import runs user code, which may raise anything.
            raise InvalidJobError(f"type {quoted(name)}: its module cannot be imported: {reason(error)}") from error


def _type_name_of_class(path: str) -> str | None:
    """Return the `type_name` of the class at "module:class", whose module was imported; None if there is none."""
    module, _, name = path.partition(":")
    cls: Any = sys.modules.get(module)
    for part in name.split("."):
        cls = getattr(cls, part, None)
    return cls.type_name if isinstance(cls, type) and issubclass(cls, Job) and cls is not Job else None


class _Sent(Form):
    """What is sent over HTTP: it imports nothing, and its job types are those that running nodes have published."""

    language = JSON

    def __init__(self, types: PublishedTypes) -> None:
        self._types = types

    def type_of(self, name: object, faults: Faults, place: Place) -> type[Job] | str | None:
        published = self._types.facts
        if isinstance(name, str) and name in published:
            return self._types.class_of(name) or name
        if name is None:
            faults.add(place, "type is missing: the name of a job type that a running node has published")
        elif not published:
            faults.add((*place, "type"), f"no running node has published the job type {quoted(name)}, or any other")
        else:
            few = published if len(published) <= 10 else [*sorted(published)[:10], "..."]
            hint = did_you_mean(str(name), published, "types")
            hint = hint if hint.startswith("did") else f"the types are {', '.join(few)}"
            faults.add((*place, "type"), f"no running node has published the job type {quoted(name)}; {hint}")
        return None

    def complete(self, values: dict[str, Any], job_type: type[Job] | str, faults: Faults, place: Place) -> None:
        if not isinstance(job_type, str):
            return
        facts = self._types.facts[job_type]
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

    def data_problems(self, job: JobDetail, trigger: Trigger | None = None) -> Iterator[tuple[Place, str]]:
        return self._types.data_problems(job, trigger)


class DocumentForm(_Sent):
    """A document of its own, whose data is the JSON in which it is stored.

    `data` is that of the same job, which need not be read again if the document has exactly that.
    """

    job_words = JOB_WORDS - {"trigger", ARGS, KWARGS, STORED_DATA}
    refused_words = frozenset({STORED_DATA})

    def __init__(self, types: PublishedTypes, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(types)
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

    def complete(self, values: dict[str, Any], job_type: type[Job] | str, faults: Faults, place: Place) -> None:
        # A job is stored before its triggers.
        values.setdefault("durable", True)
        super().complete(values, job_type, faults, place)


class SentFileForm(_Sent, _Declared):
    """A declared file that is sent."""

    def stored_data(self, written: object, faults: Faults, place: Place) -> Mapping[str, Any]:
        try:
            return _checked_data(json.loads(written), faults, place)  # type: ignore[arg-type]
        except (TypeError, ValueError, RecursionError) as error:
            faults.add(place, f"must be JSON: {reason(error)}")
        return {}

    def check_data(self, data: Mapping[str, Any], faults: Faults, place: Place) -> None:
        _refuse_internal(data, faults, place)

    def stored_schedule(self, written: object) -> Mapping[str, Any]:
        read = json.loads(written) if isinstance(written, str) else written
        return read if isinstance(read, Mapping) else super().stored_schedule(written)


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


def _refuse_internal(data: Mapping[str, Any], faults: Faults, place: Place) -> None:
    for name in sorted(INTERNAL_KEYS & data.keys()):
        faults.add((*place, name), "is an entry that the scheduler itself writes")
