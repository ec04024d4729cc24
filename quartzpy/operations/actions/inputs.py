"""The inputs of actions: what they are called, what JSON they take, and how a text that a person typed is read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, ClassVar

from quartzpy.errors import InvalidJobDataError, InvalidValueError
from quartzpy.instants import zone
from quartzpy.job_data import decode
from quartzpy.scheduler.typed_text import FUTURE, PAST, read_instant
from quartzpy.texts import quoted

_MAX_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Input:
    """A value that an action takes beside its subjects.

    It is a parameter of the method, a member of the JSON body, a field of the form and an option of the command.
    """

    kind: ClassVar[str]
    """The name of the macro that draws its field."""
    name: str
    help: str
    """Describes it in the help of the command and in the schema of the JSON body."""
    label: str
    """Stands beside its field in the form."""
    _: KW_ONLY
    hint: str = ""
    """Continues the label in smaller letters."""
    placeholder: str = ""
    default: Any = None
    is_required: bool = False
    is_argument: bool = False
    """True if its command takes it behind the subject, and not as an option."""
    takes_focus: bool = False
    """True if people begin with it, although it may be empty because another input takes its place."""
    field: str = ""
    """The name of its field, if that is not its own name, which other parameters of the page's links have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", self.field or self.name)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its values."""
        return {**self._type(), "description": self.help}

    def _type(self) -> dict[str, Any]:
        raise NotImplementedError

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> Any:
        """Return the value that a person typed. Instants without an offset are in the zone; spans count from `now`.

        Raises:
            InvalidValueError: the text is not a value of this kind.
        """
        raise NotImplementedError


class Text(Input):
    """A text, which the action itself reads."""

    __slots__ = ()
    kind = "text"

    def _type(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1} if self.is_required else {"type": ["string", "null"]}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> str | None:
        return text if self.is_required else text.strip() or None


class LongText(Text):
    """A text of many lines."""

    __slots__ = ()
    kind = "long_text"


class Flag(Input):
    """Something that is so, or not."""

    __slots__ = ()
    kind = "flag"

    def _type(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> bool:
        return bool(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Input):
    """A whole number from 1."""

    kind = "number"
    maximum: int

    def _type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1, "maximum": self.maximum}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> int:
        digits = text.strip()
        if not digits.isdecimal() or len(digits) > _MAX_DIGITS:
            raise InvalidValueError(
                f"{self.name}: must be a whole number from 1 to {self.maximum:,} (got {quoted(digits)})"
            )
        return int(digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Input):
    """One of several words."""

    kind = "choice"
    words: Mapping[str, str]
    """The words, with what they mean in the form."""

    def _type(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> str:
        return text or str(self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant(Input):
    """An instant."""

    kind = "instant"
    direction: int = PAST
    """The direction, from now, of a length of time."""

    def _type(self) -> dict[str, Any]:
        return {"type": "string" if self.is_required else ["string", "null"], "format": "date-time"}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> datetime | None:
        if not (self.is_required or text.strip()):
            return None
        return read_instant(text, self.name, now, zone(zone_name), direction=self.direction)


class EndInput(Input):
    """The end of something that begins now: an instant, or a span."""

    __slots__ = ()
    kind = "text"
    direction: ClassVar[int] = FUTURE

    def _type(self) -> dict[str, Any]:
        return {"type": ["string", "null"]}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> datetime | None:
        return read_instant(text, self.name, now, zone(zone_name), direction=FUTURE) if text.strip() else None


class Data(Input):
    """Job data, typed as JSON."""

    __slots__ = ()
    kind = "data"

    def _type(self) -> dict[str, Any]:
        return {"type": ["object", "null"]}

    def read(self, text: str, zone_name: str, now: Callable[[], datetime]) -> dict[str, Any] | None:
        if not text.strip():
            return None
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise InvalidJobDataError(f"{self.name}: not JSON: {error}") from None
        if not isinstance(entries, dict):
            example = '{"region": "eu"}'
            raise InvalidJobDataError(f"{self.name}: must be a JSON object such as {example} (got {quoted(entries)})")
        return decode(text)


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


def _type_name(hint: Any) -> str:
    return hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
