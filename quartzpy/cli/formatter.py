"""Texts of single values for people, and instants that people type: zones, spans, colours, cells cut to a width."""

from __future__ import annotations

import os
import re
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import click

from quartzpy.errors import InvalidValueError, SettingsError, UnknownTimeZoneError
from quartzpy.instants import short
from quartzpy.instants import zone as zone_named
from quartzpy.scheduler.typed_text import PAST, read_instant
from quartzpy.texts import visible

LOCAL = "local"
EMPTY = "-"
"""The text of a value that there is none of."""

_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")

_STYLES: Mapping[str, Mapping[str, Any]] = {
    word: style
    for words, style in (
        ("SUCCEEDED alive running ok", {"fg": "green"}),
        ("ERROR FAILED TERMINATED dead critical error unreachable", {"fg": "red", "bold": True}),
        ("PAUSED PAUSED_BLOCKED BLOCKED MANUAL DISABLED SKIPPED SNOOZED CANCELLED", {"fg": "yellow"}),
        ("late standby draining warning", {"fg": "yellow"}),
        ("ACQUIRED EXECUTING PROCESSING ENQUEUED", {"fg": "cyan"}),
        ("COMPLETE SCHEDULED", {"dim": True}),
    )
    for word in words.split()
}


def is_coloured() -> bool:
    """Return True if standard output is a terminal and the user has not set NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(word: str, text: str | None = None) -> str:
    """Return a text (by default the word itself) in the colour of the state that the word names."""
    text = word if text is None else text
    style = _STYLES.get(word) or _STYLES.get(word.lower())
    return click.style(text, **style) if style is not None and is_coloured() else text


def heading(text: str) -> str:
    """Return a text as a heading: bold on a terminal."""
    return click.style(text, bold=True) if is_coloured() else text


def faint(text: str) -> str:
    """Return a text that matters less: dim on a terminal."""
    return click.style(text, dim=True) if is_coloured() else text


class Formatter:
    """Formats values in one time zone: that of this machine, or a named one."""

    def __init__(self, zone: str | None = None) -> None:
        """Format instants in `zone`; None and "local" are the zone of this machine.

        Raises:
            SettingsError: the zone is not known.
        """
        self.zone: tzinfo | None = None
        self.zone_name = "/".join(dict.fromkeys(time.tzname))
        if zone is not None and zone != LOCAL:
            try:
                self.zone = zone_named(zone)
            except UnknownTimeZoneError as error:
                raise SettingsError(f"--zone: {error}") from error
            self.zone_name = zone

    def local(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone)

    def text(self, value: Any) -> str:
        """Return a value as one line, with escapes for control characters."""
        match value:
            case None | "":
                return EMPTY
            case datetime():
                return self.instant(value)
            case timedelta():
                return short_span(value)
            case bool():
                return "yes" if value else "no"
            case float():
                return f"{value:g}"
            case str():
                return visible(value)
            case Mapping():
                return ", ".join(f"{visible(str(name))}={self.text(part)}" for name, part in value.items()) or EMPTY
            case Sequence() | frozenset() | set():
                return ", ".join(self.text(part) for part in value) or EMPTY
        return visible(str(value))

    def sentence(self, text: str) -> str:
        """Return a sentence on one line, with its ISO instants in the zone of this object."""
        return _ISO.sub(self._readable, visible(text))

    def _readable(self, match: re.Match[str]) -> str:
        return f"{self.instant(datetime.fromisoformat(match[0]))} {self.zone_name}"

    def instant(self, value: datetime) -> str:
        """Return an instant to the second. The hour that a clock change repeats has its offset from UTC."""
        local = self.local(value)
        text = local.strftime("%Y-%m-%d %H:%M:%S")
        bare = local if self.zone is not None else datetime.fromisoformat(text)
        if _offset(bare, self.zone, 0) == _offset(bare, self.zone, 1):
            return text
        offset = local.strftime("%z")
        return f"{text}{offset[:3]}"


def _offset(naive: datetime, zone: tzinfo | None, fold: int) -> timedelta | None:
    aware = naive.replace(tzinfo=zone, fold=fold)
    return aware.utcoffset() if zone is not None else aware.astimezone().utcoffset()


def short_span(span: timedelta) -> str:
    """Return a span in at most two units, as precise as its length deserves: "30ms", "0.4s", "3m20s", "2d4h"."""
    seconds = span.total_seconds()
    if 0.0005 <= abs(seconds) < 0.1:
        return f"{seconds * 1000:.0f}ms"
    if abs(seconds) < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = timedelta(seconds=round(abs(seconds)))
    if whole >= timedelta(days=1):
        whole -= whole % timedelta(hours=1)
    elif whole >= timedelta(hours=1):
        whole -= whole % timedelta(minutes=1)
    return ("-" if seconds < 0 else "") + short(whole)


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as bars from zero to the largest of them; a number above zero is never the lowest bar."""
    bars, most = "▁▂▃▄▅▆▇█", max(values, default=0)
    return "".join(bars[0 if value <= 0 else max(1, round(value / most * 7))] for value in values)


def width_of(text: str) -> int:
    """Return the number of columns that a text takes on a terminal: two for wide characters, none for marks."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """Return a text of at most `width` columns, with "…" in place of its end or of its middle."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    if not middle:
        return f"{_front(text, width - 1)}…"
    front = _front(text, width // 2)
    back = _front(text[::-1], width - 1 - width_of(front))[::-1]
    return f"{front}…{back}"


def _front(text: str, width: int) -> str:
    taken = 0
    for position, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return text[:position]
    return text


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with spaces up to `width` columns, to its left if it is aligned to the right."""
    space = " " * (width - width_of(text))
    return space + text if right else text + space


class LocalZone(tzinfo):
    """The time zone of this machine."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def instant(
    text: str | None, option: str, formatter: Formatter, now: datetime, *, direction: int = PAST
) -> datetime | None:
    """Return the instant that an option gives, in the zone of `formatter`; None for None. See `read_instant`.

    Raises:
        SettingsError: the text is no instant.
    """
    if text is None:
        return None
    try:
        return read_instant(text, option, lambda: now, formatter.zone or LocalZone(), direction=direction)
    except InvalidValueError as error:
        raise SettingsError(str(error)) from None
