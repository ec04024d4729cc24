"""Counts the lines and names of the tasks that docs/explanation/comparison.md lists."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.docs.code_blocks import ROOT

PAGE = ROOT / "docs" / "explanation" / "comparison.md"
PAGES_OF_CODE = [PAGE.with_name(f"comparison-{subject}.md") for subject in ("schedules", "executions")]
SYSTEMS = ["quartzpy", "APScheduler 3", "APScheduler 4", "Celery beat", "Quartz"]

_BLOCK = re.compile(r"^(?P<system>[\w ]+):\n\n```\w+\n(?P<code>.*?)^```", re.S | re.M)
_TEXTS = re.compile(r'"[^"]*"')
_NAMES = re.compile(r"[A-Za-z_]\w*")

LANGUAGE = {"for", "in", "print", "class", "def", "public", "implements", "System", "out", "println"} | {
    "True",
    "False",
    "None",
    "Exception",
}
"""Words of Python and Java, which one knows already."""

PROGRAM = {"scheduler", "report", "Report", "when", "session", "each", "detail", "plan", "app", "engine", "db"}
"""The program's own names."""


@dataclass(frozen=True)
class Effort:
    """How long the code of a task is."""

    lines: int
    names: int


def tasks() -> dict[str, dict[str, str]]:
    """The code of each task, by system."""
    return {title: code for page in PAGES_OF_CODE for title, code in _tasks_of(page).items()}


def _tasks_of(page: Path) -> dict[str, dict[str, str]]:
    sections = (section.partition("\n") for section in page.read_text().split("\n## ")[1:])
    return {title: {each["system"]: each["code"] for each in _BLOCK.finditer(body)} for title, _, body in sections}


PREAMBLE = """
from datetime import UTC, datetime, timedelta
from sqlalchemy.orm import Session
from quartzpy import Job, JobExecutionContext, RetryPolicy, Scheduler, cron, disallow_concurrent_execution, every, job

def report() -> None: ...

scheduler = Scheduler("memory://")
when = datetime.now(UTC)
session = Session()
"""
"""What our code of the tasks takes for granted."""


def source(task: str) -> str:
    """Our code of a task, made whole: a decorator gets a function, a class a body."""
    code = tasks()[task]["quartzpy"]
    if code.rstrip().endswith("(Job):"):
        return code + "    def execute(self, context: JobExecutionContext) -> None: ...\n"
    return code + "def other() -> None: ...\n" if code.startswith("@") else code


def whole_program() -> str:
    """Our code of all tasks in one module, each in a function, for a type checker."""
    functions = [
        f"def task_{number}() -> None:\n{textwrap.indent(source(task), '    ')}" for number, task in enumerate(tasks())
    ]
    return "\n".join([PREAMBLE, *functions])


def effort(code: str) -> Effort:
    lines = [line for line in code.splitlines() if line.strip(" })")]
    names = set(_NAMES.findall(_TEXTS.sub("", code))) - LANGUAGE - PROGRAM
    return Effort(len(lines), len(names))


def table() -> str:
    rows = ["| task | " + " | ".join(SYSTEMS) + " |", "|---" * (len(SYSTEMS) + 1) + "|"]
    page_of = {title: page.name for page in PAGES_OF_CODE for title in _tasks_of(page)}
    for title, code in tasks().items():
        cells = []
        for system in SYSTEMS:
            if system not in code:
                cells.append("none")
                continue
            found = effort(code[system])
            cells.append(f"{found.lines} line{'s' * (found.lines > 1)}, {found.names} name{'s' * (found.names > 1)}")
        heading = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        rows.append(f"| [{title}]({page_of[title]}#{heading}) | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table as it is counted."""
    text = PAGE.read_text()
    return re.sub(r"<!-- table -->\n\n?(?:\|.*\n)*\n*", lambda _: f"<!-- table -->\n\n{table()}\n", text)
