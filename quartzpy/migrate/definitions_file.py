"""Writes the jobs of a plan as a file of definitions, which `load_definitions` reads."""

from __future__ import annotations

import json
import re
from typing import Any

from quartzpy.errors import InvalidValueError
from quartzpy.migrate.plan import ImportPlan
from quartzpy.triggers.cron import CronTrigger


def definitions_text(plan: ImportPlan) -> str:
    """Return the jobs of a plan with their cron triggers in TOML.

    Raises:
        InvalidValueError: a trigger is of another kind.
    """
    lines = [f"# From {plan.source}."]
    for imported in plan.jobs:
        job = imported.job
        lines += ["", "[[job]]"]
        values = {"type": job.job_type, "name": job.name, "group": job.group, "description": job.description}
        lines += [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
        lines.append(f"data = {_value(job.data or {})}")
        for one in imported.triggers:
            trigger = one.trigger
            if not isinstance(trigger, CronTrigger):
                raise InvalidValueError(f"trigger {trigger.key}: only cron triggers can be written to a file")
            given = {
                "kind": "cron",
                "expression": trigger.expression,
                "dialect": trigger.dialect,
                "time_zone": trigger.time_zone,
            }
            lines += ["", "  [[job.trigger]]", *(f"  {name} = {_value(value)}" for name, value in given.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(str(name))} = {_value(one)}" for name, one in value.items()) + " }"
    # A JSON text is one of TOML's, but for the DEL character.
    return re.sub("\x7f", r"\\u007f", json.dumps(value, ensure_ascii=False))
