"""What a node publishes about its job types, so that programs which have not imported them can define jobs of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from inspect import Parameter, signature
from typing import Any, Self

from quartzpy.job_data import INTERNAL_KEYS, is_model
from quartzpy.jobs.function_arguments import ARGS, KWARGS, arguments_of
from quartzpy.jobs.job import Job, JobTypes
from quartzpy.jobs.typed_data import reads_itself, with_hint

MAX_BYTES = 100_000
"""The largest size of the facts that one node publishes. Types beyond it are published by their names alone."""
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """The decorators of a job type, and the entries of the data that it takes."""

    disallows_concurrent: bool = False
    persists_data: bool = False
    entries: tuple[str, ...] | None = None
    """The names of the entries, in the order of the parameters; None if the type takes any data."""
    required: frozenset[str] = frozenset()
    takes_others: bool = False
    """True if the data may have further entries."""
    operators_set: tuple[str, ...] | None = None
    """The entries that operators may set; None for all."""

    def as_json(self) -> dict[str, Any]:
        """Return the form in which a node publishes it, without what is not so."""
        written: dict[str, Any] = {}
        if self.disallows_concurrent:
            written["disallow_concurrent"] = True
        if self.persists_data:
            written["persist_data"] = True
        if self.entries is not None:
            written["entries"] = list(self.entries)
            written |= {"required": sorted(self.required)} if self.required else {}
            written |= {"others": True} if self.takes_others else {}
        if self.operators_set is not None:
            written["operators_set"] = list(self.operators_set)
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Return the facts with this form."""
        entries, operators_set = written.get("entries"), written.get("operators_set")
        return cls(
            bool(written.get("disallow_concurrent")),
            bool(written.get("persist_data")),
            None if entries is None else tuple(entries),
            frozenset(written.get("required", ())),
            bool(written.get("others")),
            None if operators_set is None else tuple(operators_set),
        )

    def problems(self, data: Mapping[str, Any], *, is_complete: bool, reads: str | None = None) -> Iterator[str]:
        """Yield what is wrong with the names in job data; without `is_complete`, names may be missing.

        `reads` is an entry that the scheduler itself reads.
        """
        if self.entries is None:
            return
        positional, named = data.get(ARGS, ()), data.get(KWARGS, {})
        if not isinstance(positional, list | tuple) or not isinstance(named, Mapping):
            yield "args is a list of arguments, and kwargs is a mapping of them"
            return
        if not self.takes_others:
            unknown = sorted(data.keys() - {*self.entries, ARGS, KWARGS, reads} - INTERNAL_KEYS)
            unknown += sorted(named.keys() - set(self.entries))
            if unknown:
                yield f"unknown: {', '.join(with_hint(name, self.entries) for name in unknown)}"
        missing = [
            name
            for name in self.entries[len(positional) :]
            if name in self.required and name not in data and name not in named
        ]
        if missing and is_complete:
            yield f"missing: {', '.join(missing)}"


def facts_of(job_class: type[Job]) -> TypeFacts:
    """Return the facts of a job type. A class whose data cannot be told takes any data."""
    facts = TypeFacts(
        job_class.disallows_concurrent_execution,
        job_class.persists_job_data,
        operators_set=job_class.operators_set,
    )
    try:
        entries, required, takes_others = _data_of(job_class)
        return replace(facts, entries=entries, required=required, takes_others=takes_others)
    except Exception:
        # Annotations and models are the user's code, which may raise anything.
        return facts


def _data_of(job_class: type[Job]) -> tuple[tuple[str, ...] | None, frozenset[str], bool]:
    data_type = job_class.data_type
    if data_type is None:
        arguments = arguments_of(job_class)
        return (None, frozenset(), True) if arguments is None else arguments.described()
    if is_model(data_type) and not reads_itself(data_type):
        schema = data_type.model_json_schema()
        required = frozenset(schema.get("required", ()))
        return tuple(schema.get("properties", {})), required, schema.get("additionalProperties") is not False
    if not is_dataclass(data_type) or reads_itself(data_type):
        return None, frozenset(), True
    parameters = signature(data_type).parameters.values()
    named = [parameter for parameter in parameters if parameter.kind in _NAMED]
    takes_others = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    required = frozenset(parameter.name for parameter in named if parameter.default is Parameter.empty)
    return tuple(parameter.name for parameter in named), required, takes_others


def published(types: JobTypes, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the facts of the types with these names that this process knows, as a node publishes them."""
    written: dict[str, dict[str, Any]] = {}
    size = 0
    described = {name: facts_of(types.find(name)) for name in sorted(names) if name in types}
    # First those that keep something from operators, who could set it if nobody said so.
    for name, facts in sorted(described.items(), key=lambda item: item[1].operators_set is None):
        form = facts.as_json()
        size += len(json.dumps([name, form]))
        if size > MAX_BYTES:
            break
        written[name] = form
    return written
