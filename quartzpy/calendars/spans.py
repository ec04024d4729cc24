"""A calendar that excludes spans of time: closings, maintenance, the timed events of another program."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.errors import InvalidCalendarError
from quartzpy.instants import Converted, as_instant
from quartzpy.texts import quoted

MAX_SPANS = 20_000
"""The maximum number of spans that do not touch each other. They are read with each trigger that names the calendar."""
ExcludedSpan = tuple[datetime, datetime]


@dataclass(frozen=True)
class SpanCalendar(BaseCalendar):
    """A calendar that excludes spans of time, each from its start up to, but without, its end.

    The spans are instants, so the calendar has no time zone but UTC. Spans that overlap or touch are joined.
    """

    kind: ClassVar[str] = "spans"

    excluded_spans: Converted[Iterable[ExcludedSpan], tuple[ExcludedSpan, ...]] = Converted(())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_zone != "UTC":
            raise InvalidCalendarError(
                f"time_zone: the spans are instants, so it is UTC (got {quoted(self.time_zone)}); give the instants"
                " their time zones"
            )
        spans = self.excluded_spans
        if isinstance(spans, (str, bytes)) or not isinstance(spans, Iterable):
            raise InvalidCalendarError(f"excluded_spans: pairs of instants (got {quoted(spans)})")
        joined = joined_spans(_checked(span) for span in spans)
        if len(joined) > MAX_SPANS:
            raise InvalidCalendarError(f"excluded_spans: {len(joined)} spans, at most {MAX_SPANS}")
        object.__setattr__(self, "excluded_spans", joined)
        object.__setattr__(self, "_starts", [start.replace(tzinfo=None) for start, _ in joined])

    def next_wall_time(self, wall: datetime) -> datetime | None:
        starts: list[datetime] = self.__dict__["_starts"]
        at = bisect_right(starts, wall) - 1
        if at < 0:
            return wall
        return max(wall, self.excluded_spans[at][1].replace(tzinfo=None))

    def rules(self) -> dict[str, Any]:
        return {"excluded_spans": [[start.isoformat(), end.isoformat()] for start, end in self.excluded_spans]}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        spans = [(datetime.fromisoformat(start), datetime.fromisoformat(end)) for start, end in rules["excluded_spans"]]
        return cls(excluded_spans=spans, **common)


def _checked(span: object) -> ExcludedSpan:
    if not isinstance(span, (tuple, list)) or len(span) != 2:
        raise InvalidCalendarError(f"excluded_spans: each is a start and an end (got {quoted(span)})")
    start, end = (as_instant(each, "excluded_spans", InvalidCalendarError).astimezone(UTC) for each in span)
    if end <= start:
        raise InvalidCalendarError(f"excluded_spans: end {end.isoformat()} is not after start {start.isoformat()}")
    return start, end


def joined_spans(spans: Iterable[ExcludedSpan]) -> tuple[ExcludedSpan, ...]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[ExcludedSpan] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return tuple(joined)
