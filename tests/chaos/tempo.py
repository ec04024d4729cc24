"""How fast a run goes in a world: its settings, its deadlines, and how much it schedules.

The figures are those of a machine that has time. A world where everything takes longer (`World.slowness`) has each
limit in proportion, and a workload that fits (`World.sparseness`). All limits are finite, and nothing that is lost,
doubled or stuck is excused by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.worlds.world import World


@dataclass(frozen=True)
class Limits:
    """What a run's settings allow, in seconds."""

    window: float
    recovered_within: float
    epsilon: float = 4.0
    slowness: float = 1.0
    """How many times as long everything takes: what is a long pause of a process, and how soon a fire begins."""
    misfires_after: float = 60.0

    @property
    def lease(self) -> float:
        return 0.75 * self.window


@dataclass(frozen=True)
class Tempo:
    """So many times the durations of a machine that has time."""

    slowness: int = 1
    """Everything takes so many times as long, and there are so many times fewer jobs of each kind."""
    sparseness: int = 1
    """The periods of what is scheduled, and the rests of the client, are so many times as long."""

    @classmethod
    def of(cls, world: World | None) -> Tempo:
        return cls() if world is None else cls(world.slowness, world.sparseness)

    @property
    def check_in(self) -> float:
        return 0.5 * self.slowness

    @property
    def window(self) -> float:
        return 3.0 * self.slowness

    @property
    def lock_timeout(self) -> float:
        return 1.0 * self.slowness

    @property
    def starts_within(self) -> float:
        """How long a node or a child process takes to start. That is processor time, which a share multiplies most."""
        return 2.5 + 15.0 * (self.slowness - 1)

    @property
    def recovered_within(self) -> float:
        """R of the reliability page for these settings."""
        return self.window + 2 * self.check_in + self.lock_timeout + 1.0 * self.slowness

    @property
    def limits(self) -> Limits:
        return Limits(self.window, self.recovered_within, 4.0 * self.slowness, self.slowness, 60.0 * self.slowness)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of each node."""
        settings = {
            "name": "chaos",
            "workers": 10,
            "executors": {"cpu": "processes:2", "burst": "threads:4"},
            "checkin_interval": f"{self.check_in}s",
            "failure_window": f"{self.window}s",
            "lock_timeout": f"{self.lock_timeout}s",
            "statement_timeout": f"{2 * self.slowness}s",
            "start_timeout": f"{60 * self.slowness}s",
            "connect_timeout": f"{2 * self.slowness}s",
            # Nodes die here all the time, and no job is to blame.
            "max_node_deaths": 1000,
        }
        if self.slowness > 1:
            # The rules of the suite allow more lateness than the default of a minute after some faults there.
            settings["misfire_threshold"] = f"{self.limits.misfires_after}s"
        return settings
