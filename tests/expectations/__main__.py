"""Plays a year of jobs with expectations: `python -m tests.expectations [--days N] [--jobs N] [--failures N]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tests.expectations.monitor import MARGIN, alarms
from tests.expectations.simulation import Score, Simulation, of_judge


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.expectations", description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--failures", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="Print how far it is, once for each month.")
    chosen = parser.parse_args(arguments)
    began = time.process_time()
    simulation = Simulation(
        datetime(2026, 1, 1, tzinfo=UTC), chosen.days, chosen.jobs, chosen.failures, seed=chosen.seed
    )
    for month in range(30, chosen.days, 30):
        simulation.run(until=simulation.start + timedelta(days=month))
        if chosen.verbose:
            score, _, _ = of_judge(simulation, until=simulation.clock.now() - timedelta(days=2))
            print(f"day {month}: {score}, {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    simulation.run()
    took = time.process_time() - began
    score, found, injected = of_judge(simulation)
    happened = ", ".join(f"{number:,} {what}" for what, number in sorted(simulation.happened.items()))
    print(f"{chosen.days} days of {len(simulation.plans)} jobs in {took:.0f} s of processor time: {happened}.")
    print(f"{simulation.ledger.looks:,} looks of the judge.")
    fires = {(key, at) for key, at, _ in injected}
    print(f"Injected: {len(fires)} failures ({_numbers(simulation)}), which break {len(injected)} expectations.")
    _print("expectations", score)
    until = simulation.end - timedelta(days=2)
    alarmed = alarms(simulation, until)
    _print(f"crontab and {MARGIN.total_seconds() / 60:g} min", Score.of({*alarmed}, {*fires}))
    kinds = Counter(_kind_of(simulation, key.name) for key, _ in alarmed - fires)
    print(f"  its false alarms: {', '.join(f'{number:,} {kind}' for kind, number in kinds.most_common())}")
    for kind, each in (("false", found - injected), ("missed", injected - found)):
        for key, at, breach in sorted(each, key=str)[:20]:
            print(f"  {kind}: {breach} {key} {at}")
    return 0 if score.precision == score.recall == 1.0 else 1


def _print(name: str, score: Score) -> None:
    print(
        f"{name:20} precision {score.precision:.3f}, recall {score.recall:.3f}"
        f" ({score.right} right, {score.false} false, {score.missed} missed)"
    )


def _numbers(simulation: Simulation) -> str:
    by_fire = {(key, at): kind for (key, at, _), kind in simulation.injected.items()}
    return ", ".join(f"{number} {kind}" for kind, number in Counter(by_fire.values()).most_common())


def _kind_of(simulation: Simulation, name: str) -> str:
    return next(plan.kind for plan in simulation.plans.values() if name in plan.crontabs)


if __name__ == "__main__":
    sys.exit(main())
