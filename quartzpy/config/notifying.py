"""The channels of notifications, and the rules by which incidents go to them. Plain values: nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Any, Self

from quartzpy.errors import SettingsError, UnknownTimeZoneError
from quartzpy.instants import Converted, Span, as_span, zone
from quartzpy.texts import did_you_mean, quoted

SEVERITIES = ("error", "warning", "info")
"""The severities of incidents, the worst first."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(
    r"(?:(?P<days>[a-z,-]+)\s+)?(?P<first>[0-2]?[0-9]:[0-5][0-9])-(?P<end>[0-2]?[0-9]:[0-5][0-9])(?:\s+(?P<zone>\S+))?",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
CHANNEL_LABEL = "channel:"
"""The label of a node that has a channel is this and the channel's name."""
NOTIFIERS = "notifications"
"""The executor of notifications: they need no worker of other jobs, which may all be busy."""


def check_place(place: object, subject: str) -> str:
    """Return the place of a URL or a secret: `env:NAME`, `file:/path`, or a URL itself. No error shows a URL.

    Raises:
        SettingsError: it is none of these.
    """
    if isinstance(place, str) and place.isprintable():
        kind, _, rest = place.partition(":")
        if (kind == "env" and rest and "=" not in rest) or (kind == "file" and rest.startswith("/")):
            return place
        if _SCHEME.match(place) and " " not in place:
            return place
    raise SettingsError(
        f"{subject} must be a URL, or the place of one: env:OPS_URL for an environment variable, file:/run/secrets/ops"
        " for a file"
    )


def shown_place(place: str) -> str:
    """Return a place as people may see it: of a URL only the scheme and the host, because the rest is often a secret.

    In the URLs of chats and pagers even the host is one, so that only the scheme of these is shown.
    """
    if not _SCHEME.match(place):
        return place
    scheme, _, rest = place.partition("://")
    if scheme.rpartition("+")[2] not in ("http", "https"):
        return f"{scheme}://***"
    return f"{scheme}://{re.split('[/?#]', rest)[0].rpartition('@')[2]}/***"


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of some days of the week: `Hours.of("mon-fri 08:00-18:00 Europe/Berlin")`.

    Without days they are those of every day, and without a zone in UTC. "22:00-06:00" begins on the days that are
    named, and ends on the next ones.
    """

    days: frozenset[int]
    first: time
    end: time
    zone: tzinfo

    @classmethod
    def of(cls, text: object) -> Self:
        """Parse the text.

        Raises:
            SettingsError: it cannot be read.
        """
        match = _HOURS.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise _no_hours(text)
        first, end = (_time(match[name], text) for name in ("first", "end"))
        if first == end:
            raise SettingsError(f"hours: {quoted(text)} begins when it ends")
        try:
            place = zone(match["zone"] or "UTC")
        except UnknownTimeZoneError as error:
            raise SettingsError(f"hours: {error}") from None
        return cls(_days(match["days"] or "mon-sun", text), first, end, place)

    def include(self, at: datetime) -> bool:
        """Return whether an instant is within these hours."""
        local = at.astimezone(self.zone)
        now, day = local.time(), local.weekday()
        if self.first < self.end:
            return day in self.days and self.first <= now < self.end
        return (day in self.days and now >= self.first) or ((day - 1) % 7 in self.days and now < self.end)


def _no_hours(text: object) -> SettingsError:
    return SettingsError(f'hours must be written as "mon-fri 08:00-18:00 Europe/Berlin" (got {quoted(text)})')


def _time(text: str, whole: object) -> time:
    hour, minute = map(int, text.split(":"))
    if (hour, minute) == (24, 0):
        return time.max
    if hour > 23:
        raise _no_hours(whole)
    return time(hour, minute)


def _days(text: str, whole: object) -> frozenset[int]:
    days: set[int] = set()
    for part in text.lower().split(","):
        first, dash, last = part.partition("-")
        if first not in _DAYS or (dash and last not in _DAYS):
            raise _no_hours(whole)
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        days.update(day % 7 for day in range(begin, end + 1 if begin <= end else end + 8))
    return frozenset(days)


def _patterns(value: object, subject: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(text, str) and text for text in value):
        raise SettingsError(f"{subject} must be a list of names or patterns (got {quoted(value)})")
    return tuple(value)


@dataclass(frozen=True, kw_only=True)
class Route:
    """The incidents that a channel gets, and when: `Route(severity="error", groups=["billing"])`.

    An incident has to match all of the given values.
    """

    severity: str = "warning"
    """The least severity: "error", "warning" or "info"."""
    kinds: Sequence[str] = ()
    """The kinds of incidents, with wildcards: `["failures-*", "dead-node"]`. Without them, all kinds."""
    groups: Sequence[str] = ()
    """The groups of the jobs, with wildcards. With them, the route is for incidents about jobs and triggers only."""
    hours: str | None = None
    """The hours in which the channel gets messages: "mon-fri 08:00-18:00 Europe/Berlin". An incident that begins at
    other times is sent when the hours begin, if it still lasts."""
    calendar: str | None = None
    """The name of a stored calendar: the channel gets messages at instants that it includes."""
    after: Converted[Span, timedelta] = Converted(timedelta())
    """The time that an incident has to last before it is sent."""
    _hours: Hours | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            SettingsError: a value is wrong.
        """
        assign = object.__setattr__
        if self.severity not in SEVERITIES:
            raise SettingsError(f"severity must be one of {', '.join(SEVERITIES)} (got {quoted(self.severity)})")
        for name in ("kinds", "groups"):
            assign(self, name, _patterns(getattr(self, name), name))
        assign(self, "after", as_span(self.after, "after", SettingsError))
        if self.hours is not None:
            assign(self, "_hours", Hours.of(self.hours))
        if self.calendar is not None and (not isinstance(self.calendar, str) or not self.calendar):
            raise SettingsError(f"calendar must be the name of a calendar (got {quoted(self.calendar)})")

    def takes(self, severity: str, kind: str, groups: Sequence[str]) -> bool:
        """Return whether incidents of this severity and kind, about jobs of these groups, take this route."""
        return (
            SEVERITIES.index(severity) <= SEVERITIES.index(self.severity)
            and (not self.kinds or any(fnmatchcase(kind, pattern) for pattern in self.kinds))
            and (not self.groups or any(fnmatchcase(group, name) for group in groups for name in self.groups))
        )

    def is_open(self, at: datetime) -> bool:
        """Return whether the hours of the route include an instant."""
        return self._hours is None or self._hours.include(at)


@dataclass(frozen=True, kw_only=True, repr=False)
class Channel:
    """A destination of notifications about incidents: `Channel(url="env:OPS_URL", secret="env:OPS_SECRET")`."""

    url: str
    """The place of the URL: `env:NAME`, `file:/path`, or the URL itself. One with http or https is a webhook, which
    gets JSON; any other is a URL of apprise (https://github.com/caronc/apprise), such as `slack://...`, and needs the
    extra `notify`."""
    secret: str | None = None
    """The place of the secret by which a webhook is signed: `env:NAME` or `file:/path`."""
    routes: Sequence[Route | Mapping[str, Any]] = (Route(),)
    """The channel gets incidents that match one of the routes. By default errors and warnings."""
    remind_after: Converted[Span | None, timedelta | None] = Converted(None)
    """The time after which an incident that lasts and is not acknowledged is sent again. None sends it only once."""
    gather: Converted[Span, timedelta] = Converted(timedelta(minutes=1))
    """The shortest time between two messages about the beginning of incidents of one kind. Incidents that begin
    meanwhile are in the next message."""

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            SettingsError: a value is wrong.
        """
        assign = object.__setattr__
        check_place(self.url, "url")
        if self.secret is not None:
            if _SCHEME.match(check_place(self.secret, "secret")):
                raise SettingsError("secret must be a place such as env:OPS_SECRET or file:/run/secrets/ops")
            if _SCHEME.match(self.url) and not is_webhook(self.url):
                raise SettingsError("secret is for webhooks, whose URL begins with https:// or http://")
        if isinstance(self.routes, str | Mapping) or not isinstance(self.routes, Sequence) or not self.routes:
            raise SettingsError(f"routes must be a list of routes (got {quoted(self.routes)})")
        assign(self, "routes", tuple(_made(Route, route, "routes") for route in self.routes))
        if self.remind_after is not None:
            span = as_span(self.remind_after, "remind_after", SettingsError)
            if span < timedelta(minutes=1):
                raise SettingsError(f"remind_after must be at least one minute (got {span})")
            assign(self, "remind_after", span)
        assign(self, "gather", as_span(self.gather, "gather", SettingsError))

    def __repr__(self) -> str:
        """Describe the channel without its secrets."""
        return f"Channel(url={shown_place(self.url)!r}, {len(self.routes)} routes)"

    __str__ = __repr__

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the channel that a setting describes: a `Channel`, a mapping of its values, or its URL.

        Raises:
            SettingsError: it is none of these, or a value is wrong.
        """
        channel: Self = _made(cls, {"url": value} if isinstance(value, str) else value, "a channel")
        return channel

    def all_routes(self) -> tuple[Route, ...]:
        """Return the routes, which are checked."""
        return tuple(route for route in self.routes if isinstance(route, Route))


def is_webhook(url: str) -> bool:
    """Return whether a URL is that of a webhook."""
    return url.startswith(("https://", "http://"))


def _made(cls: Any, value: object, subject: str) -> Any:
    """Return a `Channel` or a `Route`, or make one of a mapping."""
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        raise SettingsError(f"{subject}: expected a table of values (got a {type(value).__name__})")
    names = [item.name for item in fields(cls) if item.init]
    for name in value:
        if name not in names:
            raise SettingsError(f"{subject}: {quoted(name)} is unknown; {did_you_mean(str(name), names, 'values')}")
    if cls is Channel and "url" not in value:
        raise SettingsError(f"{subject} needs a url")
    return cls(**value)


def channel_label(name: str) -> str:
    """Return the label of the nodes that have a channel."""
    return f"{CHANNEL_LABEL}{name}"
