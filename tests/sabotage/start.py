"""Another program on a build with one guard taken out: `python -m tests.sabotage.start NAME MODULE [arguments]`."""

from __future__ import annotations

import runpy
import sys

from tests.sabotage.guards import SABOTAGES


def main() -> None:
    name, module, *arguments = sys.argv[1:]
    SABOTAGES[name].install()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
