"""What has to run, and until when: computed from the requests and their recorded answers alone.

The fire times are found by an independent reference: interval arithmetic on integers, and for cron each second of the
run looked at in its zone. Nothing of the scheduler's own is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.chaos.records import SECOND, Disturbance, Records, wall_ns

FOR_EVER = 1 << 62
MARGIN = SECOND // 20
"""A fire is committed just before its instant: a pause or a deletion that is answered then comes too late for it."""
STANDSTILLS = frozenset({"server_stop", "failover", "gate", "read_only", "sqlstates", "swizzle", "machine_stall"})
"""What lets nobody work, where it is done to all."""


@dataclass(frozen=True)
class Target:
    """An instant of a trigger. `required`: it must run by `deadline`; else it may."""

    key: str
    instant: int
    at: int
    deadline: int
    required: bool
    most: int = 1
    """So many runs it may have: a schedule that is replaced late may share instants with the one before it."""


@dataclass
class Generation:
    """A schedule of a trigger, from the request that stored it to the one that ended it."""

    spec: dict[str, Any]
    asked: int
    stored: int
    definite: bool
    may_end: int = FOR_EVER
    ended: int = FOR_EVER


@dataclass
class Life:
    """A trigger through a run."""

    key: str
    flags: dict[str, Any] = field(default_factory=dict)
    generations: list[Generation] = field(default_factory=list)
    soft: list[tuple[int, int]] = field(default_factory=list)
    """When nobody can say whether it fires."""
    quiet: list[tuple[int, int]] = field(default_factory=list)
    """When it must not fire: a pause or a deletion had been acknowledged."""
    held: list[tuple[int, int]] = field(default_factory=list)
    never: bool = False
    """It was stored in a transaction that was rolled back."""
    _paused_since: int | None = None
    _quiet_since: int | None = None

    def took(self, line: dict[str, Any]) -> None:
        """A request about this trigger was answered."""
        before, after, answer = line["before"], line["after"], line["answer"]
        match line["op"]:
            case "rolled_back":
                self.never = True
            case "hold":
                self.held.append((before, after + SECOND))
            case "schedule" | "reschedule" if answer in ("ok", "unknown"):
                self._end(before, after, answer == "ok")
                self._wake(before)
                self.generations.append(Generation(line["spec"], before, after, answer == "ok"))
            case "delete" if answer in ("ok", "unknown"):
                self._end(before, after, answer == "ok")
                if answer == "ok":
                    self._quiet_since = after
            case "pause" if answer in ("ok", "unknown"):
                self._paused_since = self._paused_since or before
                if answer == "ok":
                    self._quiet_since = after
            case "resume" if answer in ("ok", "unknown"):
                self._wake(before)
                if answer == "ok" and self._paused_since is not None:
                    self.soft.append((self._paused_since, after + SECOND))
                    self._paused_since = None
            case "pause_all":
                self.soft.append((before, FOR_EVER))
                self.quiet.append((after, FOR_EVER))

    def _end(self, before: int, after: int, certain: bool) -> None:
        for generation in self.generations:
            generation.may_end = min(generation.may_end, before)
            if certain:
                generation.ended = min(generation.ended, after)

    def _wake(self, before: int) -> None:
        if self._quiet_since is not None:
            self.quiet.append((self._quiet_since, before))
            self._quiet_since = None

    def close(self) -> None:
        if self._paused_since is not None:
            self.soft.append((self._paused_since, FOR_EVER))
        if self._quiet_since is not None:
            self.quiet.append((self._quiet_since, FOR_EVER))

    @property
    def policy(self) -> str:
        return str(self.flags.get("policy", "exact"))


def lives(records: Records) -> dict[str, Life]:
    """All triggers that somebody asked for, by key."""
    found: dict[str, Life] = {}
    flags = (
        *("serial", "recovers", "policy", "counter", "fails", "may_fail", "poison", "job", "slack", "logs", "rated"),
        *("limit", "ordered", "in_process", "engine"),
    )
    for line in records.named("api"):
        if line["op"] == "pause_all":
            for life in found.values():
                life.took(line)
            continue
        for key, spec in [(line["key"], line.get("spec")), *line.get("also", [])]:
            life = found.setdefault(key, Life(key))
            life.flags.update({name: line[name] for name in flags if name in line})
            if key in line.get("keys", {}):
                life.flags["key"] = line["keys"][key]
            life.took({**line, "spec": spec})
    for life in found.values():
        life.close()
    return found


def fire_times(spec: dict[str, Any], until: int) -> Iterator[int]:
    """The instants of a schedule before `until`, in wall-clock nanoseconds."""
    start = wall_ns(spec["start"])
    match spec["kind"]:
        case "once":
            yield from [start] if start < until else []
        case "interval":
            yield from range(start, until, spec["period_us"] * 1000)
        case "cron":
            zone, wanted = ZoneInfo(spec["zone"]), set(spec["seconds"])
            for at in range(-(-start // SECOND) * SECOND, until, SECOND):
                if datetime.fromtimestamp(at // SECOND, UTC).astimezone(zone).second in wanted:
                    yield at


class Deadlines:
    """Until when an instant has to have run: as late as the disturbances allow, and no later.

    A run ends (`end`) with a phase in which nothing disturbs: however one fault followed the other, by then all that
    was due before that phase has run.
    """

    def __init__(
        self, disturbances: Iterable[Disturbance], epsilon: int, recovered_within: int, end: int = FOR_EVER
    ) -> None:
        self._epsilon = epsilon
        self._end = end - 2 * MARGIN
        self.settled = end - epsilon - recovered_within
        """When the last phase begins by the end of which all that was due before has run."""
        spans = []
        for one in disturbances:
            # What piled up has to be worked off, and a whole cluster that stood still has more of it.
            length = one.healed - one.begin
            rest = recovered_within + (2 * length if one.what in STANDSTILLS and one.node == "all" else length // 2)
            spans.append((one.begin, one.healed + rest))
        self._spans = sorted(spans)

    def of(self, at: int, held: Iterable[tuple[int, int]] = ()) -> int:
        deadline = at + self._epsilon
        for begin, end in sorted([*self._spans, *held]):
            if begin > deadline:
                break
            if end >= at:
                deadline = max(deadline, end)
        return min(deadline, self._end) if at <= self.settled else deadline


def targets(records: Records, life: Life, deadlines: Deadlines, until: int) -> list[Target]:
    """The instants of a trigger up to `until` (boot time)."""
    found: dict[int, Target] = {}
    for generation in life.generations:
        last = min(until, generation.ended) + MARGIN
        for instant in fire_times(generation.spec, last + records.offset):
            at = records.boottime(instant)
            # What has to wait for a process of its own has more time.
            deadline = deadlines.of(at, life.held) + life.flags.get("slack", 0) * SECOND
            required = (
                generation.definite
                and at > generation.stored
                and deadline < min(generation.may_end, until)
                and not any(begin <= deadline and end >= at - MARGIN for begin, end in life.soft)
            )
            known = found.get(instant)
            most = 1 if known is None else known.most + 1
            required = required or (known is not None and known.required)
            found[instant] = Target(life.key, instant, at, deadline, required, most)
    return sorted(found.values(), key=lambda target: target.at)
