"""`python -m tests.fuzz --target cron --inputs 1000000 --seed 1`: a long run; exit status 1 where it found a fault."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.runner import fuzz
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="default: all")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    status = 0
    for name in given.target or sorted(TARGETS):
        began = time.monotonic()
        outcome = fuzz(TARGETS[name], given.inputs, given.seed)
        print(f"{outcome} in {time.monotonic() - began:.0f} s", flush=True)
        for number, shown, fault in outcome.faults:
            print(f"  input {number}: {shown}\n    {fault.strip()}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
