"""The records of a run as values: what the checker works on, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

SECOND = 1_000_000_000


def wall_ns(instant: str | datetime) -> int:
    """Nanoseconds since 1970, exact to the microsecond."""
    at = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    return round(at.timestamp() * 1_000_000) * 1000


@dataclass
class Run:
    """One execution as its body wrote it down."""

    fire_id: int
    job: str
    trigger: str
    instant: int
    coalesced_fire_times: list[int]
    fired: int
    attempt: int
    recovering: bool
    node: str
    pid: int
    at: int
    execution_key: str
    end: int | None = None
    failed: bool = False
    last_seen: int = 0
    seen: int | None = None
    wrote: int | None = None
    lease_lost: bool = False

    @cached_property
    def about(self) -> tuple[str, int]:
        """The trigger and the instant that its execution key names, which is the same for whatever repeats another."""
        trigger, _, instant = self.execution_key.rpartition("@")
        return trigger, wall_ns(instant)


@dataclass(frozen=True)
class Disturbance:
    """A span in which something was done to a node, or to all of them (`node` is "all"), or to this machine."""

    what: str
    node: str
    begin: int
    healed: int
    values: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""

    def touches(self, node: str) -> bool:
        return self.node in (node, "all")


@dataclass
class Records:
    """All of a run."""

    lines: list[dict[str, Any]]
    end: dict[str, Any]
    offset: int
    """What has to be taken from the wall clock's nanoseconds to get the boot-time clock's."""
    runs: list[Run] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]], end: dict[str, Any]) -> Records:
        """Read a run's lines, in the order in which they were written."""
        ordered = sorted(lines, key=lambda line: line["at"])
        [clock] = [line for line in ordered if line["event"] == "clock"][:1]
        records = cls(ordered, end, clock["wall"] - clock["at"])
        records._read()
        return records

    def named(self, *events: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] in events]

    def _read(self) -> None:
        by_fire_id: dict[int, Run] = {}
        for line in self.lines:
            fire_id = line.get("fire_id")
            match line["event"]:
                case "start":
                    run = Run(
                        fire_id=line["fire_id"],
                        job=line["job"],
                        trigger=line["trigger"],
                        instant=wall_ns(line["instant"]),
                        coalesced_fire_times=[wall_ns(one) for one in line["coalesced_fire_times"]],
                        fired=wall_ns(line["fired"]),
                        attempt=line["attempt"],
                        recovering=line["recovering"],
                        node=line["node"],
                        pid=line["pid"],
                        at=line["at"],
                        execution_key=line["execution_key"],
                        last_seen=line["at"],
                        seen=line.get("seen"),
                    )
                    self.runs.append(run)
                    by_fire_id[line["fire_id"]] = run
                case "end" | "fail" | "beat" | "lease_lost" if fire_id in by_fire_id:
                    run = by_fire_id[line["fire_id"]]
                    run.last_seen = line["at"]
                    run.wrote = line.get("wrote", run.wrote)
                    run.lease_lost = run.lease_lost or line["event"] == "lease_lost"
                    run.failed = run.failed or line["event"] == "fail"
                    if line["event"] in ("end", "fail"):
                        run.end = line["at"]
                case "fault":
                    self.disturbances.append(
                        Disturbance(
                            line["name"], line["victim"], line["begun"], line["healed"], line["values"], line["family"]
                        )
                    )
                case "machine_stall":
                    self.disturbances.append(Disturbance("machine_stall", "all", line["since"], line["at"]))
                case "machine_slow":
                    self._slow(line["since"], line["at"])
                case "stall":
                    begin = line["at"] - round(line["seconds"] * SECOND)
                    self.disturbances.append(Disturbance("stall", line["node"], begin, line["at"]))
                case "exited":
                    self.disturbances.append(Disturbance("exited", line["name"], line["at"], line["at"] + SECOND))

    def _slow(self, since: int, at: int) -> None:
        """Note half a second in which the machine was slow: with those just before it, it is one disturbance."""
        for place, one in enumerate(self.disturbances):
            if one.what == "machine_slow" and since - one.healed < SECOND:
                self.disturbances[place] = replace(one, healed=at)
                return
        self.disturbances.append(Disturbance("machine_slow", "all", since, at))

    def boottime(self, wall: int) -> int:
        return wall - self.offset
