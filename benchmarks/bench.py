"""The size of a run, and what every scenario is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from benchmarks.peers import Peer
from benchmarks.server import Server


@dataclass(frozen=True)
class Scale:
    """The size of a run. The defaults are those of a full run."""

    rounds: int = 5
    drained: int = 20_000
    """The number of due triggers of one drain."""
    warm_up_runs: int = 500
    """The number of jobs that each node runs before a drain is measured."""
    peer_share: float = 1.0
    """The share of its own number of jobs that a peer runs."""
    delays_ms: tuple[float, ...] = (0.0, 0.5, 1.35, 5.0)
    node_counts: tuple[int, ...] = (1, 2, 4, 8)
    waiting_seconds: float = 5.0
    """The time for which nodes run jobs of 50 ms."""
    rates: tuple[int, ...] = (100, 1_000)
    peer_rates: tuple[int, ...] = (50, 100, 300)
    latency_seconds: float = 20.0
    warm_up_seconds: float = 3.0
    scheduled_now: int = 200
    """The number of jobs that are scheduled one by one for an idle node."""
    stored: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    size_rounds: int = 3
    misfires: int = 100_000
    not_takeable: int = 100_000
    settling_seconds: float = 60.0
    """The time after which a node counts as idle: it has judged the cluster once, and loaded what it needs for that."""
    idle_seconds: float = 20.0
    alone_seconds: float = 60.0
    """The time for which each situation of triggers that are alone is measured."""
    load_seconds: float = 20.0
    burn_seconds: float = 20.0
    switch_intervals: tuple[float, ...] = (0.005, 0.001, 0.0002)
    """The switch intervals of the interpreter, in seconds."""
    soak_seconds: float = 1_200.0
    soak_triggers: int = 5_000
    calm_seconds: float = 1_200.0
    """The duration of the calm soak, after its warm-up."""
    calm_warm_up_seconds: float = 600.0
    memory_fires: int = 50_000
    operated_triggers: int = 1_000_000
    operated_executions: int = 10_000_000
    readers_seconds: float = 120.0
    remote_counts: tuple[int, ...] = (10, 100, 1_000)
    """The numbers of executions at once whose cost on an engine is measured."""
    remote: int = 1_000
    """The executions on an engine beside which the lateness of plain jobs is measured."""
    growth_share: float = 1.0
    """The share of the numbers of triggers, jobs, types, placements and keys of `growth`."""
    growth_kinds: tuple[str, ...] = ()
    """The kinds of rows of `growth`; empty for all."""
    growth_seconds: float = 30.0
    """The longest time of a drain of `growth`, and the time for which its latency is measured."""
    growth_nodes: tuple[int, ...] = (1, 10, 40)


FULL = Scale()
QUICK = Scale(
    rounds=1,
    drained=5_000,
    peer_share=0.1,
    delays_ms=(0.0, 1.35),
    node_counts=(1, 2, 4),
    waiting_seconds=1.0,
    peer_rates=(50,),
    latency_seconds=2.0,
    warm_up_seconds=0.5,
    scheduled_now=20,
    stored=(1_000, 10_000),
    size_rounds=1,
    misfires=5_000,
    not_takeable=5_000,
    settling_seconds=0.5,
    idle_seconds=2.0,
    alone_seconds=6.0,
    load_seconds=1.0,
    burn_seconds=1.5,
    switch_intervals=(0.005,),
    soak_seconds=5.0,
    soak_triggers=1_000,
    calm_seconds=10.0,
    calm_warm_up_seconds=5.0,
    memory_fires=5_000,
    operated_triggers=10_000,
    operated_executions=100_000,
    readers_seconds=5.0,
    remote_counts=(10, 50),
    remote=50,
    growth_share=0.02,
    growth_seconds=3.0,
    growth_nodes=(1, 2, 3),
)


@dataclass(frozen=True)
class Bench:
    """The server, the peers and the size of a run."""

    server: Server
    scale: Scale
    peers: tuple[Peer, ...] = field(default=())

    def grown(self, number: int) -> int:
        """Return the number that stands for one of a full run of `growth`."""
        return max(1, round(number * self.scale.growth_share))

    @cached_property
    def template(self) -> str:
        """The URL of a database with empty tables, to be copied for each measurement."""
        return self.server.new_database()

    def new_database(self) -> str:
        return self.server.new_database(template=self.template)
