"""The problems that a node reports about itself, as its record holds them for the others to read."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from quartzpy.texts import visible

MAX_PROBLEMS = 10
"""The largest number of problems that a record holds."""
MAX_FIRE_IDS = 100
"""The largest number of executions that one of them names."""
MAX_PROBLEM = 400
"""The largest number of characters of one of them."""


SCHEDULE_FILE = "schedule-file"
"""The kind of problem of a node whose file of jobs is wrong, so that what was stored before runs."""

FAILING_IMPORT = "failing-import"
"""The kind of problem of a node that cannot import the module of a job type, and leaves its jobs to others."""

NOT_LISTENING = "not-listening"
"""The kind of problem of a node that keeps no connection for notifications, so that it learns by looking, and later."""

ENGINE_UNAVAILABLE = "engine-unavailable"
"""The kind of problem of a node that cannot reach the engine of an executor, its subject, and claims nothing for it."""
_BESIDE_WORK = frozenset({SCHEDULE_FILE, FAILING_IMPORT, NOT_LISTENING, ENGINE_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """A reason why a node does not do all of its work."""

    kind: str
    """The kind of problem, for programs; it never changes: "failing-thread", "overdue-thread", ..."""
    what: str
    """A sentence for people, without a full stop."""
    subject: str = ""
    """The part of the node that has it, if its kind has several: the name of a thread."""
    since: datetime | None = None
    """The instant at which the node found it, by the store's clock; None if that is not known."""
    fire_ids: tuple[int, ...] = ()
    """The executions that have ended and that the node cannot record, the first of them."""

    @property
    def stops_work(self) -> bool:
        """False if the node does everything else meanwhile, so that it is ready and its heartbeat goes on."""
        return self.kind not in _BESIDE_WORK

    @property
    def text(self) -> str:
        """The sentence, on one line and of a limited length."""
        first, _, rest = self.what.strip().partition("\n")
        text = visible(first.strip() + (" ..." if rest else ""))
        return text if len(text) <= MAX_PROBLEM else f"{text[:MAX_PROBLEM]}..."

    def __str__(self) -> str:
        return self.text


def as_text(problems: Collection[NodeProblem]) -> str | None:
    """Return the text that a record holds: the first problems, each shortened; None if there is none."""
    if not problems:
        return None
    return json.dumps(
        [
            {
                "kind": problem.kind,
                "what": problem.text,
                "subject": problem.subject[:MAX_PROBLEM],
                "since": problem.since.isoformat() if problem.since else None,
                **({"fire_ids": list(problem.fire_ids[:MAX_FIRE_IDS])} if problem.fire_ids else {}),
            }
            for problem in list(problems)[:MAX_PROBLEMS]
        ]
    )


def from_text(text: str | None) -> tuple[NodeProblem, ...]:
    """Return the problems that a record holds. What another release has written otherwise is left out."""
    rows = json.loads(text) if text else []
    return tuple(
        NodeProblem(
            str(row["kind"]),
            str(row["what"]),
            str(row.get("subject", "")),
            datetime.fromisoformat(since) if (since := row.get("since")) else None,
            tuple(row.get("fire_ids", ())),
        )
        for row in rows
        if isinstance(row, dict) and "kind" in row and "what" in row
    )
