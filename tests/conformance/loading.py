"""Reads case files, and writes instants as they do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

Case = dict[str, Any]
LAST_YEAR = 2126
"""Quartz looks no further; what comes later counts as nothing."""


def family(directory: Path, name: str) -> list[Case]:
    """The cases of a family, disputed ones left out. Skips the test where there is no such file."""
    for path in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.gz"):
        if path.exists():
            text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
            cases = [json.loads(line) for line in text.splitlines() if line.strip()]
            return [case for case in cases if not case.get("disputed")]
    pytest.skip(f"{directory} has no family {name}")


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def shown(when: datetime | None) -> str | None:
    """As the cases write it; None also for what is beyond Quartz's horizon."""
    if when is None or when.year > LAST_YEAR:
        return None
    when = when.astimezone(UTC)
    assert when.microsecond % 1000 == 0
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def demanded(answers: list[Any] | None) -> Iterator[Any]:
    """Single answers of a case that are not disputed."""
    return (answer for answer in answers or [] if not (isinstance(answer, Mapping) and answer.get("disputed")))


@dataclass
class Comparison:
    """Collects what differs, over a whole family."""

    family: str
    asked: int = 0
    differences: list[str] = field(default_factory=list)

    def equal(self, case: Case, what: str, got: Any, want: Any) -> None:
        if what.split(" ")[0] in case.get("disputed_fields", ()):
            return
        self.asked += 1
        if got != want:
            self.differences.append(f"{case['id']} {what}: got {got}, Quartz {want}")

    def differs(self, case: Case, what: str) -> None:
        self.asked += 1
        self.differences.append(f"{case['id']} {what}")

    def conclude(self) -> None:
        assert self.asked, f"{self.family}: nothing was compared"
        shown_ones = "\n".join(self.differences[:25])
        assert not self.differences, f"{self.family}: {len(self.differences)} of {self.asked} differ\n{shown_ones}"
