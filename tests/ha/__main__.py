"""Failovers of a Patroni cluster under load: `python -m tests.ha --failovers 10`. Says what is missing, where it is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.ha.parts import find_parts
from tests.ha.run import KINDS, plan, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ha", description=__doc__)
    parser.add_argument("--failovers", type=int, default=12)
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas between them; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="decides the order of the faults and the times between")
    parser.add_argument("--asynchronous", action="store_true", help="standbys that no commit waits for")
    parser.add_argument("--json", type=Path, help="where the figures go; default: standard output")
    parser.add_argument("--keep", type=Path, help="a directory for the logs and for what the jobs wrote down")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--kinds: {', '.join(KINDS)} are known (got {', '.join(unknown)})")
    parts, missing = find_parts()
    if parts is None:
        sys.exit(f"not run: {', '.join(missing)} missing; `python -m tests.ha.install` installs what it can")
    report = run(
        parts,
        plan(given.failovers, kinds, given.seed),
        synchronous=not given.asynchronous,
        seed=given.seed,
        keep=given.keep,
        tell=lambda text: print(text, file=sys.stderr, flush=True),
    )
    figures = json.dumps(report.as_json(), indent=2)
    if given.json:
        given.json.write_text(figures + "\n")
    else:
        print(figures)
    print(report.table())
    sys.exit(0 if report.findings.clean else 1)


if __name__ == "__main__":
    main()
