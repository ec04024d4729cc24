"""A run and its figures: `python -m tests.chaos --mode smoke|quick|long|day|engines --seed N [--minutes M]`."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.chaos import history, plans
from tests.chaos.checker import Report, check
from tests.chaos.conductor import MODES, Conductor, mode_of, nodes_of
from tests.chaos.records import Records
from tests.chaos.tempo import Tempo
from tests.sabotage.guards import SABOTAGES
from tests.worlds import current
from tests.worlds.competition import competition
from tests.worlds.environments import interpreter
from tests.worlds.world import WORLDS


def play(mode_name: str, seed: int, directory: Path, *, say: Any = print, **options: Any) -> Report:
    """One run: prints its seed and its list of faults first."""
    tempo = Tempo.of(current.world)
    mode = mode_of(mode_name, tempo)
    families = options.pop("families", None)
    if mode_name == "day" and options.get("minutes"):
        # The migration is in the middle of what is played, and all of it is.
        options["count"] = max(1, round(options.pop("minutes") * plans.DAY_FAULTS_A_MINUTE))
    if mode_name == "engines" and options.get("minutes"):
        options["count"] = plans.MANY
    plan = plans.plan(mode_name, seed, nodes_of(mode), options.pop("count", None), tempo)
    if families:
        plan = [fault for fault in plan if fault.family in families]
    say(f"chaos {mode_name}, seed {seed}, {len(plan)} faults, records in {directory}")
    for number, fault in enumerate(plan):
        say(f"    {number + 1:3} {fault}")
    for name, reason in plans.left_out().items():
        say(f"    left out: {name}: {reason}")
    return Conductor(mode, seed, directory, plan=plan, say=say, **options).run()


def look_again(directory: Path) -> Report:
    """What the checker says of the records of an earlier run."""
    end = json.loads((directory / "end.json").read_text())
    return check(
        Records.of(history.read(directory / "history.jsonl"), end), Tempo.of(WORLDS.get(end.get("world"))).limits
    )


def show(report: Report, say: Any = print) -> None:
    """The figures as a table, and what was violated."""
    counts, targets = report.counts(), report.figures.get("targets", 0)
    for kind in ("lost", "duplicated", "unexpected", "fire_overlap", "body_overlap", "false_verdict", "stuck"):
        least = f" (0 of {targets}: fewer than {3 / targets:.2%} at 95 %)" if kind == "lost" and targets else ""
        say(f"{kind:24} {counts.get(kind, 0)}{'' if counts.get(kind) else least}")
    say(f"{'late':24} {counts.get('late', 0)}")
    for name, value in report.figures.items():
        shown = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else value
        say(f"{name:24} {shown}")
    say("")
    for kind, count in sorted(counts.items(), key=lambda item: -item[1]):
        say(f"VIOLATED {kind:20} {count}")
        for text in [text for one, text in report.violations if one == kind][:8]:
            say(f"    {text}")
    say("nothing was violated" if not counts else f"{sum(counts.values())} violations")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=sorted(MODES), default="smoke")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--runs", type=int, default=1, help="so many runs, one seed after the other")
    parser.add_argument(
        "--minutes", type=float, help="end a long run after so many minutes of faults, or play so many of a day"
    )
    parser.add_argument("--report", type=Path, help="write figures and violations there, as JSON")
    parser.add_argument("--directory", type=Path, help="where the records go; a temporary one by default")
    parser.add_argument("--families", help="only these families of the plan: X9,X4")
    parser.add_argument("--no-poison", action="store_true")
    parser.add_argument("--world", choices=sorted(WORLDS), help="the server, and the way to it (see tests/worlds)")
    parser.add_argument("--sabotage", choices=sorted(SABOTAGES))
    parser.add_argument("--check", type=Path, help="look again at the records of a run that ended, and play nothing")
    given = parser.parse_args()
    if given.check:
        show(look_again(given.check))
        return
    if given.mode == "day" and given.world and WORLDS[given.world].has_own_way:
        parser.error(f"a day has its own role and way to the server, and cannot be played in the world {given.world}")
    with _inside(given.world):
        sys.exit(_play_all(given, parser))


@contextmanager
def _inside(name: str | None) -> Iterator[None]:
    """Enter a world. In one of another Python, this program begins anew with that."""
    if name is None:
        yield
        return
    world = current.world = WORLDS[name]
    program = interpreter(world.python)
    if program != Path(sys.executable):
        os.execv(program, [str(program), "-m", "tests.chaos", *sys.argv[1:]])
    with competition(world.competitors):
        yield


def _play_all(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Play the runs that the arguments ask for. Return the exit status."""
    first = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    directory = given.directory or Path(tempfile.mkdtemp(prefix="quartzpy-chaos-"))
    runs = []
    for seed in range(first, first + given.runs):
        records = directory / str(seed) if given.runs > 1 else directory
        records.mkdir(parents=True, exist_ok=True)
        if any(records.iterdir()):
            parser.error(f"{records} has the records of another run already")
        begun = time.monotonic()
        report = play(
            given.mode,
            seed,
            records,
            minutes=given.minutes,
            poison=not given.no_poison,
            sabotage=given.sabotage,
            families=given.families.split(",") if given.families else None,
        )
        show(report)
        runs.append(
            {
                "mode": given.mode,
                "seed": seed,
                "commit": _commit(),
                "seconds": round(time.monotonic() - begun),
                "violated": report.all_counts(),
                "figures": report.figures,
                "violations": report.violations,
            }
        )
        if given.report:
            given.report.write_text(json.dumps(runs, indent=1))
    if given.runs > 1:
        _show_sums(runs)
    return 1 if any(run["violations"] for run in runs) else 0


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _show_sums(runs: list[dict[str, Any]]) -> None:
    faults = sum(sum(run["figures"]["faults"].values()) for run in runs)
    targets = sum(run["figures"].get("targets", 0) for run in runs)
    wrong = sum(len(run["violations"]) for run in runs)
    print(
        f"{len(runs)} runs, seeds {runs[0]['seed']} to {runs[-1]['seed']}: {faults} faults, {targets} targets,"
        f" {wrong} violations"
    )


if __name__ == "__main__":
    main()
