"""The fields of the data that a job takes, for forms and help texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from quartzpy.texts import quoted


@dataclass(frozen=True, slots=True)
class DataField:
    """A field of a job's data type."""

    name: str
    type: str
    required: bool
    default: str | None = None


def fields_of(data_type: type[Any]) -> tuple[DataField, ...]:
    """Return the fields of a dataclass or of a class like pydantic's models; none if they cannot be told."""
    models = getattr(data_type, "model_fields", None)
    if isinstance(models, dict):
        return tuple(_of_model(name, field) for name, field in models.items())
    if not dataclasses.is_dataclass(data_type):
        return ()
    return tuple(_of_dataclass(field) for field in dataclasses.fields(data_type) if field.init)


def _of_dataclass(field: dataclasses.Field[Any]) -> DataField:
    has_factory = field.default_factory is not dataclasses.MISSING
    required = field.default is dataclasses.MISSING and not has_factory
    default = None if required else ("..." if has_factory else quoted(field.default))
    return DataField(field.name, _type_name(field.type), required, default)


def _of_model(name: str, field: Any) -> DataField:
    required = bool(field.is_required())
    return DataField(name, _type_name(field.annotation), required, None if required else quoted(field.default))


def _type_name(given: Any) -> str:
    return given if isinstance(given, str) else getattr(given, "__name__", str(given))
