"""What the suites said in each world, as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.worlds.world import WORLDS

NOT_RUN = "–"


@dataclass(frozen=True)
class Result:
    """One suite in one world."""

    passed: int = 0
    failed: int = 0
    left_out: int = 0
    seconds: float = 0.0
    reasons: Sequence[str] = ()
    """Why tests were left out in this world."""
    trouble: str = ""
    """What kept the suite from being run at all."""

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.trouble and self.passed > 0

    @property
    def counts(self) -> str:
        if self.trouble:
            return self.trouble
        said = [f"{self.passed} passed"]
        if self.failed:
            said.append(f"{self.failed} FAILED")
        if self.left_out:
            said.append(f"{self.left_out} left out")
        return ", ".join(said)

    def __str__(self) -> str:
        return self.trouble or f"{self.counts} in {self.seconds:.0f} s"


def read(report: Path, seconds: float) -> Result:
    """Read a report of pytest in the form of JUnit; `seconds` is how long the run took."""
    if not report.exists():
        return Result(trouble="no report", seconds=seconds)
    passed = failed = left_out = 0
    reasons: dict[str, None] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif (skipped := case.find("skipped")) is not None:
            # What is skipped in every world, such as a test for another version of Python, is no matter of a world.
            if found := re.fullmatch(r"world [\w.-]+: (.*)", skipped.get("message", "")):
                left_out += 1
                reasons[found[1]] = None
        else:
            passed += 1
    return Result(passed, failed, left_out, seconds, tuple(reasons))


Results = Mapping[str, Mapping[str, Result]]
"""By the world's name and the suite's."""


def as_markdown(results: Results, suites: Sequence[str]) -> str:
    """The table of the documentation: counts, no times, because those are of one machine."""
    lines = [f"| world | {' | '.join(suites)} |", "|---" * (len(suites) + 1) + "|"]
    for name, found in results.items():
        cells = [found[suite].counts if suite in found else NOT_RUN for suite in suites]
        lines.append(f"| `{name}`: {WORLDS[name].title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def as_text(results: Results, suites: Sequence[str]) -> str:
    """The table of a terminal, with the reasons of what was left out below it."""
    rows = [["world", *suites]]
    rows += [
        [name, *(str(found[suite]) if suite in found else NOT_RUN for suite in suites)]
        for name, found in results.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    reasons = {
        f"left out of {name}: {why}": None
        for name, found in results.items()
        for result in found.values()
        for why in result.reasons
    }
    return "\n".join([*lines, *reasons])
