"""Tries all builds that lack a guard: `python -m tests.sabotage [NAMES]`; the exit status is 1 where one is not caught.

Each test is run twice, on such a build and on the build as it is: it must fail there, and pass here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.database import server
from tests.sabotage import trial
from tests.sabotage.guards import SABOTAGES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    parser.add_argument("--test", help="try another test than the ones in the table")
    parser.add_argument("--verbose", action="store_true", help="show what a run said that did not go as it must")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in SABOTAGES]:
        parser.error(f"no such sabotage: {', '.join(unknown)} (there are {', '.join(SABOTAGES)})")
    wanted = [SABOTAGES[name] for name in given.names] or list(SABOTAGES.values())
    caught = 0
    print("| Sabotage | Caught by | Seconds |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="quartzpy-sabotage-") as directory, server(Path(directory)) as found:
        dsn = found.url.render_as_string(hide_password=False)
        for sabotage in wanted:
            tests = [given.test] if given.test else sabotage.caught_by
            by = "nothing"
            seconds = 0.0
            for test in tests:
                whole = trial.run(test, None, dsn)
                broken = trial.run(test, sabotage, dsn)
                seconds += broken.seconds
                if whole.passed and broken.failed:
                    by = broken.failures[0]
                    break
                by = f"nothing: whole {whole.status} {whole.counts}, broken {broken.status} {broken.counts}"
                if given.verbose:
                    print(broken.output if whole.passed else whole.output, file=sys.stderr)
            caught += not by.startswith("nothing")
            print(f"| {sabotage.name}: {sabotage.says} | {by} | {seconds:.1f} |", flush=True)
    print(f"\ncaught {caught}/{len(wanted)}")
    return 0 if caught == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
