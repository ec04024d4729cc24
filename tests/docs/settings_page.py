"""Renders docs/settings.md from the settings themselves: `python -m tests.docs.settings_page > docs/settings.md`."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.config.sources import environment_variable
from tests.docs.markdown import duration

HEAD = """# Settings

Settings are keyword arguments of `Scheduler(url, **settings)`. The constructor refuses unknown names and invalid
values. A length of time is a `timedelta`, a number of seconds, or a string such as `500ms`, `5s`, `1h30m` or `7d`.

| setting | environment | default | meaning |
|---|---|---|---|
"""
TAIL = """
`failure_window` must be at least three times `checkin_interval` plus `lock_timeout`. After its last answered
check-in, a node may act for three quarters of the window; the other nodes wait for the whole window.

With the default settings, a dead node is detected after 20 to 26 seconds; with `checkin_interval="1s"`,
`lock_timeout="1s"` and `failure_window="5s"`, after 5 to 8 seconds. Shorter windows declare nodes dead that are
merely slow.

## Where settings come from

`Scheduler(url, **settings)` uses only its arguments. `Scheduler.from_config()` combines three sources. For each
setting, an earlier source overrides a later one, and a setting that no source gives has its default:

1. keyword arguments: `Scheduler.from_config(url="postgresql+psycopg://app@db/app", workers=4)`
2. the environment: the variables in the table, and `QUARTZPY_URL` for the database
3. a TOML file: `Scheduler.from_config("quartzpy.toml")`, or the file that `QUARTZPY_CONFIG` names

```toml
[quartzpy]
url = "postgresql+psycopg://app@db/app"
name = "billing"
workers = 20
misfire_threshold = "2m"
history_retention = "none"
job_modules = ["billing.jobs", "billing.reports"]
```

In a `pyproject.toml` the table is `[tool.quartzpy]`; in a `quartzpy.toml` the line `[quartzpy]` may be omitted.
Without a path and without `QUARTZPY_CONFIG`, a program reads no file. The [command
line](command-line.md#selecting-the-database) reads the same sources, with its options (`--url`, `--name`, `--schema`)
in place of the keyword arguments; it also finds the nearest `quartzpy.toml` in the working directory or above it, and
`quartzpy config` prints the source of each setting.

In environment variables, lists are separated by commas (`QUARTZPY_JOB_MODULES=billing.jobs,billing.reports`), and so
are tables (`QUARTZPY_EXECUTORS=cpu=processes:4,io=threads:20`; in TOML `executors.cpu = "processes:4"`). Booleans are
`true` or `false`, and an empty variable counts as not set. `none` stands for None if the setting allows it; in the
environment it also stands for an empty list or table.

Unknown names are refused in every source, and the error suggests the nearest valid name: `QUARTZPY_WROKERS` does not
start a node with the default. The error for an invalid value names its variable or file.
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
        return duration(value)
    if isinstance(value, tuple) and value:
        return ", ".join(value)
    return "none" if value in (None, (), {}) else str(value)


def _default(setting: Field[Any]) -> object:
    return setting.default if setting.default_factory is MISSING else setting.default_factory()


def page() -> str:
    meanings = _meanings()
    rows = [
        f"| `{f.name}` | `{environment_variable(f.name)}` | {_shown(_default(f))} | {meanings[f.name]} |"
        for f in fields(SchedulerConfig)
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    sys.stdout.write(page())
