"""Pages and docstrings that list what the code has list all of it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from quartzpy import Scheduler
from quartzpy.operations.actions import action as action_module
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.selection import Subject
from quartzpy.operations.views import allowed_actions
from quartzpy.states import ExecutionState
from tests.docs.generate import DOCS


@pytest.mark.parametrize("method", ["jobs", "triggers", "executions", "joins", "misfires"])
def test_the_page_of_queries_names_each_filter(method: str) -> None:
    page = (DOCS / "queries.md").read_text()
    [row] = re.findall(rf"^\| `{method}\(\)` \|.*$", page, re.M)
    _, *parameters = inspect.signature(getattr(Scheduler, method)).parameters
    assert [name for name in parameters if not re.search(rf"`{name}[`=]", row)] == []


@pytest.mark.parametrize("name", ACTIONS)
def test_the_page_of_actions_has_each_action_with_its_role(name: str) -> None:
    rows = [row for row in (DOCS / "actions.md").read_text().splitlines() if row.startswith("| `")]
    of_action = [row for row in rows if re.search(rf"`{name}[`(]", row.split(" | ")[0])]
    assert of_action, f"docs/actions.md does not list {name}"
    assert any(
        row.rstrip(" |").endswith(str(ACTIONS[name].role)) or f"| {ACTIONS[name].role}" in row for row in of_action
    )


WORDS = {
    "trigger": "triggers",
    "cancel": "cancels",
    "run_again": "runs again",
    "backfill": "runs past fires",
    "pause": "pauses",
    "resume": "resumes",
    "skip_next": "skips",
    "reset": "resets",
    "standby": "modes of nodes",
    "drain": "modes of nodes",
    "resume_node": "modes of nodes",
    "acknowledge": "acknowledges incidents",
    "unacknowledge": "acknowledges incidents",
    "reschedule": "schedules",
    "enable": "enables",
    "disable": "disables",
    "delete": "deletes",
    "set_limit": "limits",
    "delete_limit": "limits",
    "set_window": "maintenance windows",
    "delete_window": "maintenance windows",
    "refresh_calendar": "calendars",
}
"""How the docstring of a role calls each action."""


def test_the_docstrings_of_the_roles_name_each_action() -> None:
    source = ast.parse(Path(action_module.__file__ or "").read_text())
    [role] = [node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Role"]
    texts: dict[str, str] = {}
    for before, after in zip(role.body, role.body[1:], strict=False):
        if isinstance(before, ast.Assign) and isinstance(after, ast.Expr):
            texts[ast.unparse(before.targets[0]).lower()] = " ".join(str(ast.literal_eval(after.value)).split())
    for name, action in ACTIONS.items():
        assert WORDS[name] in texts[str(action.role)], name


def test_what_a_command_selects_is_what_a_page_offers() -> None:
    for name, action in ACTIONS.items():
        if action.states and Subject.EXECUTION in action.subjects:
            offered = {state for state in ExecutionState if name in allowed_actions.on_some_execution([state])}
            assert set(action.states) == offered, name
