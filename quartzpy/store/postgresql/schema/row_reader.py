"""Builds the records of rows whose columns are the fields of the record, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from typing import Any, Generic, TypeVar

from quartzpy.keys import JobKey, TriggerKey

_R = TypeVar("_R")

_KEYS: dict[str, type[JobKey | TriggerKey]] = {"job_key": JobKey, "trigger_key": TriggerKey}
_STORED_AS = {
    "scheduled_fire_time": "scheduled_time",
    "fire_time": "fired_time",
    "trigger_data_text": "trigger_data",
    "result_text": "result",
}
"""The columns that are not called as the fields."""


class Reader(Generic[_R]):
    """Builds a record of each row. A key is two columns, the group and the name.

    `decode` has the functions that make the value of a field from that of its column.
    """

    def __init__(self, record: type[_R], *, without: Collection[str] = (), **decode: Callable[[Any], Any]) -> None:
        self._record = record
        names = [field.name for field in fields(record) if field.name not in without]  # type: ignore[arg-type]
        self._values = [_value_of(_KEYS.get(name), decode.get(name)) for name in names]
        self.columns: tuple[str, ...] = tuple(column for name in names for column in _columns_of(name))
        """The columns that it reads, in their order."""

    def __call__(self, row: Iterable[Any]) -> _R:
        columns = iter(row)
        return self._record(*[value(columns) for value in self._values])


def _columns_of(field: str) -> list[str]:
    kind = field.removesuffix("_key")
    return [f"{kind}_group", f"{kind}_name"] if field in _KEYS else [_STORED_AS.get(field, field)]


def _value_of(
    key: type[JobKey | TriggerKey] | None, decode: Callable[[Any], Any] | None
) -> Callable[[Iterator[Any]], Any]:
    def key_of(columns: Iterator[Any]) -> JobKey | TriggerKey:
        assert key is not None
        group, name = next(columns), next(columns)
        return key(name, group)

    if key is not None:
        return key_of
    return next if decode is None else lambda columns: decode(next(columns))
