"""A run: failovers one after the other under load, and what came of them in figures."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.ha import record
from tests.ha.check import Findings, check
from tests.ha.cluster import LOOP_WAIT, RETRY_TIMEOUT, TTL, PatroniCluster
from tests.ha.parts import Parts
from tests.ha.workload import StayedLateError, Workload

KINDS = (
    "kill_machine",
    "switchover",
    "kill_server",
    "freeze",
    "cut_from_etcd",
    "kill_behind",
    "etcd_outage",
    "standbys_stall",
)
WITH_OLD_PRIMARY = frozenset({"kill_server", "etcd_outage", "standbys_stall"})
"""After these the former primary may be the next one."""
BEHIND = 4.0
"""Seconds for which the standbys are stopped before a primary is killed that they lag behind."""
STALL = 12.0
"""Seconds for which nothing is replicated: longer than a node waits for an answer, shorter than Patroni's lease."""
QUIET = (3.0, 8.0)
"""Seconds of load before a fault."""
FAILED_OVER_WITHIN = 120.0


@dataclass
class Failover:
    """What a fault did."""

    kind: str
    old: str
    new: str
    timeline: int
    writable_after: float
    """Seconds from the fault until a transaction committed on the new primary."""
    without_fires: float
    """The longest time in which no execution began, from the fault on."""
    caught_up_after: float
    """Seconds from the fault until every trigger was up to date."""


@dataclass
class Report:
    """The figures of a run."""

    parts: str
    synchronous: bool
    seed: int
    failovers: list[Failover] = field(default_factory=list)
    executions: int = 0
    instants: int = 0
    one_shots: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """What the client was told where its one-shot was not acknowledged, and how often."""
    findings: Findings = field(default_factory=Findings)
    convictions: int = 0
    tracebacks: int = 0
    log_lines: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        silent = [one.without_fires for one in self.failovers] or [0.0]
        return {
            "parts": self.parts,
            "patroni": {"ttl": TTL, "loop_wait": LOOP_WAIT, "retry_timeout": RETRY_TIMEOUT},
            "synchronous": self.synchronous,
            "seed": self.seed,
            "failovers": [asdict(one) for one in self.failovers],
            "without_fires": {"p50": round(median(silent), 2), "max": round(max(silent), 2)},
            "executions": self.executions,
            "instants": self.instants,
            "one_shots": self.one_shots,
            "told": self.told,
            "findings": self.findings.counts(),
            "samples": self.findings.sample(),
            "convictions": self.convictions,
            "tracebacks": self.tracebacks,
            "log_lines": self.log_lines,
        }

    def table(self) -> str:
        heads = ("fault", "primary", "timeline", "writable after", "without fires", "caught up after")
        rows = [
            (
                one.kind,
                f"{one.old} -> {one.new}",
                str(one.timeline),
                f"{one.writable_after:.1f} s",
                f"{one.without_fires:.1f} s",
                f"{one.caught_up_after:.1f} s",
            )
            for one in self.failovers
        ]
        widths = [max(len(row[n]) for row in [heads, *rows]) for n in range(len(heads))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [heads, *rows]
        )


class Run:
    """A cluster of servers, a cluster of nodes on it, and faults."""

    def __init__(self, cluster: PatroniCluster, workload: Workload, *, seed: int = 0) -> None:
        self._cluster = cluster
        self._workload = workload
        self._random = random.Random(seed)
        self.report = Report(cluster.parts.versions(), cluster.synchronous, seed)

    def fail_over(self, kind: str) -> Failover:
        """Inject one fault, wait until all is well again, and measure."""
        cluster, workload = self._cluster, self._workload
        cluster.wait_until_healthy()
        workload.wait_until_caught_up()
        time.sleep(self._random.uniform(*QUIET))
        old = cluster.leader()
        assert old is not None
        began = record.now()
        undo = self._inject(kind, old)
        new = self._wait_for_primary(old, kind)
        writable = record.now()
        undo()
        cluster.wait_until_healthy()
        workload.wait_until_caught_up()
        ended = record.now()
        found = Failover(
            kind=kind,
            old=old,
            new=new,
            timeline=cluster.timeline(),
            writable_after=round(writable - began, 2),
            without_fires=round(self._silence(began, ended), 2),
            caught_up_after=round(ended - began, 2),
        )
        self.report.failovers.append(found)
        return found

    def finish(self) -> Report:
        """End the load and check all of it."""
        history = self._workload.finish()
        report = self.report
        report.findings = check(history)
        report.executions = sum(line.event == "start" for line in history.lines)
        report.instants = sum(len(series.until(history.due)) for series in history.series.values())
        report.one_shots = {
            "acknowledged": len(history.acknowledged),
            "unknown": len(history.unknown),
            "refused": len(history.refused),
        }
        report.told = dict(Counter(_without_numbers(text) for text in self._workload.errors.values()))
        report.convictions = self._workload.convictions()
        report.tracebacks = self._workload.tracebacks()
        report.log_lines = {name: len(text.splitlines()) for name, text in self._workload.logs().items()}
        return report

    def _inject(self, kind: str, leader: str) -> Callable[[], None]:
        """Do it; what undoes it."""
        cluster = self._cluster
        if kind == "kill_machine":
            cluster.kill_machine(leader)
            return lambda: cluster.start(leader)
        if kind == "kill_behind":
            with self._standbys_stopped(leader):
                time.sleep(BEHIND)
                cluster.kill_machine(leader)
            return lambda: cluster.start(leader)
        if kind == "standbys_stall":
            with self._standbys_stopped(leader):
                time.sleep(STALL)
            return lambda: None
        if kind == "kill_server":
            cluster.kill_server(leader)
            return lambda: None
        if kind == "switchover":
            cluster.switch_over(leader)
            return lambda: None
        if kind == "freeze":
            cluster.freeze(leader)
            return lambda: cluster.thaw(leader)
        if kind == "cut_from_etcd":
            cluster.cut_from_etcd(leader)
            return lambda: cluster.heal(leader)
        if kind == "etcd_outage":
            cluster.freeze_etcd()
            cluster.wait_for(lambda: cluster.leader() is None, FAILED_OVER_WITHIN, "the primary to step down")
            cluster.thaw_etcd()
            return lambda: None
        raise ValueError(f"a kind of fault is one of {', '.join(KINDS)} (got {kind!r})")

    @contextmanager
    def _standbys_stopped(self, leader: str) -> Iterator[None]:
        standbys = [name for name in self._cluster.names if name != leader]
        for name in standbys:
            self._cluster.freeze(name)
            if not self._cluster.synchronous:
                # A frozen standby still has what its socket's buffer took. Where commits wait for one that is gone,
                # Patroni rightly promotes nobody, and there would be no failover to look at.
                self._cluster.cut_replication(name)
        yield
        for name in standbys:
            self._cluster.thaw(name)

    def _wait_for_primary(self, old: str, kind: str) -> str:
        """Wait until a server leads and takes writes; its name."""
        others = [name for name in self._cluster.names if kind in WITH_OLD_PRIMARY or name != old]

        def writes() -> list[str]:
            return [name for name in others if self._cluster.leads(name) and self._cluster.can_write(name)]

        found: list[str] = []
        self._cluster.wait_for(lambda: found.extend(writes()) or found, FAILED_OVER_WITHIN, f"a primary after {kind}")
        return found[0]

    def _silence(self, began: float, ended: float) -> float:
        """The longest time without the beginning of an execution that reaches beyond the fault."""
        starts = [line.at for line in self._workload.lines() if line.event == "start"]
        return max(later - earlier for earlier, later in pairwise([*starts, ended]) if later > began)


def plan(failovers: int, kinds: Sequence[str], seed: int) -> list[str]:
    """The faults of a run: each kind as often as the others, in an order that the seed decides."""
    chosen = [kinds[n % len(kinds)] for n in range(failovers)]
    random.Random(seed).shuffle(chosen)
    return chosen


def run(
    parts: Parts,
    kinds: Sequence[str],
    *,
    synchronous: bool = True,
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
    keep: Path | None = None,
    **settings: Any,
) -> Report:
    """Form a cluster, put it under load, and let each of the faults happen to it, until something stays stuck.

    The logs of nodes and servers and what the jobs wrote down are copied to `keep`.
    """
    with PatroniCluster(parts, synchronous=synchronous) as cluster:
        tell("the cluster is formed")
        workload = Workload(cluster.dsn, cluster.directory / "nodes", **settings)
        try:
            workload.start()
            running = Run(cluster, workload, seed=seed)
            for kind in kinds:
                try:
                    found = running.fail_over(kind)
                except StayedLateError as error:
                    tell(f"{kind}: {error}")
                    break
                tell(
                    f"{kind}: {found.old} -> {found.new}, writable after {found.writable_after} s,"
                    f" {found.without_fires} s without fires, caught up after {found.caught_up_after} s"
                )
            return running.finish()
        finally:
            workload.stop()
            if keep is not None:
                _copy_records(cluster.directory, keep)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "N", text)[:200]


def _copy_records(source: Path, target: Path) -> None:
    for pattern in ("**/*.log", "nodes/*.jsonl"):
        for path in source.glob(pattern):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
