"""Tries all builds that lack a guard: `python -m tests.sabotage [NAMES]`; the exit status is 1 where one is not caught.

Each test is run twice, on such a build and on quartzpy as it is: it must fail there, and pass here. What is ordinary
works on each build.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.sabotage import trial
from tests.sabotage.build import Sabotage
from tests.sabotage.guards import SABOTAGES
from tests.worlds.current import or_newest
from tests.worlds.stage import server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    parser.add_argument("--test", help="try another test than the ones in the table")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in SABOTAGES]:
        parser.error(f"no such sabotage: {', '.join(unknown)} (there are {', '.join(SABOTAGES)})")
    wanted = [SABOTAGES[name] for name in given.names] or list(SABOTAGES.values())
    missed: list[Sabotage] = []
    print("| Build without a guard: what is wrong with it | Caught by | Seconds |\n|---|---|---|", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="quartzpy-sabotage-") as directory,
        server(Path(directory), or_newest()) as found,
    ):
        dsn = found.url.render_as_string(hide_password=False)
        for sabotage in wanted:
            by, seconds = tried(sabotage, [given.test] if given.test else sabotage.caught_by, dsn)
            if by is None:
                missed.append(sabotage)
            print(
                f"| `{sabotage.name}`: {sabotage.says} | {f'`{by}`' if by else 'nothing'} | {seconds:.1f} |", flush=True
            )
    guards = {one.guard for one in wanted}
    caught = guards.difference(one.guard for one in missed)
    print(f"\ncaught {len(caught)}/{len(guards)} ({len(wanted) - len(missed)} of {len(wanted)} builds)")
    return 1 if missed else 0


def tried(sabotage: Sabotage, tests: Sequence[str], dsn: str) -> tuple[str | None, float]:
    """The test that catches it, and the seconds that it takes for that."""
    ordinary = trial.run(trial.ORDINARY, sabotage, dsn)
    if not ordinary.passed:
        print(f"{sabotage.name} is more than one guard less:\n{ordinary.output}", file=sys.stderr)
        return None, ordinary.seconds
    seconds = 0.0
    for test in tests:
        whole = trial.run([test], None, dsn)
        broken = trial.run([test], sabotage, dsn)
        seconds += broken.seconds
        if whole.passed and broken.failed:
            return test, seconds
        reason = "passes without that guard, or cannot be run" if whole.passed else "fails also with all guards"
        print(f"{sabotage.name}: {test} {reason}:\n{(broken if whole.passed else whole).output}", file=sys.stderr)
    return None, seconds


if __name__ == "__main__":
    sys.exit(main())
