"""Renders docs/settings.md from the settings themselves: `python -m tests.docs.settings_page > docs/settings.md`."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import fields
from datetime import timedelta

from quartzpy.config import SchedulerConfig

HEAD = """# Settings

`Scheduler(url, **settings)` takes these by name; a wrong name or value is refused when the scheduler is made. Spans
of time are `timedelta`s or texts: `500ms`, `5s`, `2m`, `1h`, `7d`.

| setting | default | meaning |
|---|---|---|
"""
TAIL = """
Rules between them: `failure_window` is at least three `checkin_interval` and one `lock_timeout`. A node may act for
three quarters of the window after the check-in that was last answered; the others wait for the whole of it.

How fast a death is found: with the defaults after 20 to 26 seconds, and with `checkin_interval="1s"`,
`lock_timeout="1s"`, `failure_window="5s"` after 5 to 8. Shorter windows convict nodes that are merely slow.

The command line takes the database from `--dsn` or `QUARTZPY_DSN`, the scheduler's name from `--name` or
`QUARTZPY_NAME`, and the schema from `--schema` or `QUARTZPY_SCHEMA`.
"""


def _meanings() -> dict[str, str]:
    """The texts under the fields."""
    [cls] = ast.parse(inspect.getsource(SchedulerConfig)).body
    assert isinstance(cls, ast.ClassDef)
    found = {}
    for field, text in zip(cls.body, cls.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def _shown(value: object) -> str:
    if isinstance(value, timedelta):
        for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            count, rest = divmod(value, timedelta(seconds=length))
            if count and not rest:
                return f"{count}{unit}"
        return f"{value // timedelta(milliseconds=1)}ms"
    return "none" if value in (None, ()) else str(value)


def page() -> str:
    meanings = _meanings()
    rows = [f"| `{f.name}` | {_shown(f.default)} | {meanings[f.name]} |" for f in fields(SchedulerConfig)]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    sys.stdout.write(page())
