"""Instants and spans for the reader: relative, and exact in the reader's time zone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from starlette.requests import Request

from quartzpy.errors import UnknownTimeZoneError
from quartzpy.instants import zone as zone_of
from quartzpy.texts import coarse

ZONE_COOKIE = "quartzpy_zone"
"""The reader's time zone, which the browser's script sets."""
_LOCALTIME = Path("/etc/localtime")


@dataclass(frozen=True, slots=True)
class Times:
    """Formats instants for one reader."""

    present: Callable[[], datetime]
    """Returns the present. It is called only where a text depends on it, because the store may have to be asked."""
    zone_name: str
    source: str
    """Where the zone comes from: "link", "browser" or "server"."""

    @property
    def now(self) -> datetime:
        return self.present()

    def at(self, present: Callable[[], datetime]) -> Times:
        """Return these times with another present."""
        return replace(self, present=present)

    def exact(self, at: datetime, zone_name: str | None = None) -> str:
        """Return the wall-clock time in the reader's zone, or in another one: "2026-11-22 08:14:03 CET"."""
        local = at.astimezone(zone_of(zone_name or self.zone_name))
        return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}"

    def precise(self, at: datetime) -> str:
        """Return the wall-clock time in the reader's zone with milliseconds."""
        local = at.astimezone(zone_of(self.zone_name))
        return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1_000:03} {local.tzname()}"

    def clock(self, at: datetime) -> str:
        """Return the time of day in the reader's zone, with the date if that is another one than today's."""
        zone = zone_of(self.zone_name)
        local = at.astimezone(zone)
        is_today = local.date() == self.now.astimezone(zone).date()
        return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M:%S}"

    def minute(self, at: datetime) -> str:
        """Return the hour and minute in the reader's zone."""
        return f"{at.astimezone(zone_of(self.zone_name)):%H:%M}"

    def relative(self, at: datetime) -> str:
        """Return the distance from now: "in 5 min", "3 h ago", "now"."""
        seconds = round((at - self.now).total_seconds())
        if seconds == 0:
            return "now"
        text = coarse(abs(seconds))
        return f"in {text}" if seconds > 0 else f"{text} ago"


def span_text(span: timedelta | float | None) -> str:
    """Return a measured span with about three significant digits: "412 ms", "3.4 s", "2 min 5 s"."""
    if span is None:
        return "–"
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if seconds < 0.9995:
        return f"{sign}{seconds * 1_000:.0f} ms" if seconds >= 0.001 or seconds == 0 else f"{sign}<1 ms"
    if seconds < 9.95:
        return f"{sign}{seconds:.1f} s"
    return f"{sign}{coarse(round(seconds))}"


def times_of(request: Request, present: Callable[[], datetime]) -> Times:
    """Return the times for the reader of a request: in the zone of the link, of the browser, or of this server."""
    for source, name in (("link", request.query_params.get("zone")), ("browser", request.cookies.get(ZONE_COOKIE))):
        if name and is_zone(name):
            return Times(present, name, source)
    return Times(present, server_zone(), "server")


def is_zone(name: str) -> bool:
    """Return whether this is the name of a time zone."""
    try:
        zone_of(name)
    except (UnknownTimeZoneError, ValueError):
        return False
    return True


def server_zone() -> str:
    """Return the name of this machine's time zone, or UTC where the machine does not tell it."""
    configured = os.environ.get("TZ", "").removeprefix(":")
    linked = str(_LOCALTIME.resolve()).partition("zoneinfo/")[2] if _LOCALTIME.is_symlink() else ""
    return next((name for name in (configured, linked) if name and is_zone(name)), "UTC")


def utc(at: datetime) -> str:
    """Return an instant for the attribute `datetime` of a `time` element."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
