"""Renders docs/settings.md from the settings themselves: `python -m tests.docs.settings_page > docs/settings.md`."""

from __future__ import annotations

import ast
import inspect
import sys
from datetime import timedelta

from quartzpy.config.config import SchedulerConfig, Table
from quartzpy.config.setting_names import SETTINGS, TABLES
from tests.docs.markdown import duration

HEAD = """# Settings

Settings are keyword arguments of `Scheduler(url, **settings)`, variables of the environment (`QUARTZPY_WORKERS` for
`workers`), or entries of a file; see [where they come from](#where-settings-come-from). A length of time is a
`timedelta`, a number of seconds, or a string such as `500ms`, `5s`, `1h30m` or `7d`.

Besides `url`, the database, these are set most often. In a file they stand before the tables:

"""
TAIL = """
## Detecting dead nodes

`failure_window` must be at least three times `checkin_interval` plus `lock_timeout`. After its last answered
check-in, a node may act for three quarters of the window; the other nodes wait for the whole window.

With the default settings, a dead node is detected after 20 to 26 seconds; with `checkin_interval="1s"`,
`lock_timeout="1s"` and `failure_window="5s"`, after 5 to 8 seconds. Shorter windows declare nodes dead that are
merely slow.

## Where settings come from

`Scheduler(url, **settings)` uses only its arguments. `Scheduler.from_config()` combines three sources. For each
setting, an earlier source overrides a later one, and a setting that no source gives has its default:

1. keyword arguments: `Scheduler.from_config(url="postgresql+psycopg://app@db/app", workers=4)`
2. the environment: `QUARTZPY_WORKERS` and so on, and `QUARTZPY_URL` for the database
3. a TOML file: `Scheduler.from_config("quartzpy.toml")`, or the file that `QUARTZPY_CONFIG` names

```toml
[quartzpy]
url = "postgresql+psycopg://app@db/app"
name = "billing"
workers = 20
misfire_threshold = "2m"
history_retention = "none"
job_modules = ["billing.jobs", "billing.reports"]

[quartzpy.database]
pooled = true

[quartzpy.allow]
commands = ["/usr/bin/pg_dump"]

[quartzpy.tell.notify_channels]
ops = "env:OPS_URL"

[quartzpy.metrics]
port = 9464
```

In a `pyproject.toml` the tables are `[tool.quartzpy]`, `[tool.quartzpy.allow]` and so on. In a `quartzpy.toml` the line
`[quartzpy]` may be omitted, and the tables are then `[allow]` and so on.

Without a path and without `QUARTZPY_CONFIG`, a program reads no file. The [command
line](command-line.md#selecting-the-database) reads the same sources, with its options (`--url`, `--name`, `--schema`)
in place of the keyword arguments; it also finds the nearest `quartzpy.toml` in the working directory or above it, and
`quartzpy config` prints the source of each setting.

In environment variables, lists are separated by commas (`QUARTZPY_JOB_MODULES=billing.jobs,billing.reports`), and so
are tables (`QUARTZPY_EXECUTORS=cpu=processes:4,io=threads:20`; in TOML `executors.cpu = "processes:4"`). Booleans are
`true` or `false`, and an empty variable counts as not set. `none` stands for None if the setting allows it; in the
environment it also stands for an empty list or table.

Unknown names are refused in every source, and the error suggests the nearest valid name, or the table of a file in
which a name belongs: `QUARTZPY_WROKERS` does not start a node with the default. The error for an invalid value names
its variable or file.
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


def _rows(table: str) -> str:
    meanings, defaults = _meanings(), vars(SchedulerConfig())
    rows = [
        f"| `{name}` | {_shown(defaults[name])} | {meanings[name]} |"
        for name, setting in SETTINGS.items()
        if setting.table == table and name in defaults
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows]) + "\n"


def _section(table: Table) -> str:
    shortened = [
        f"`{setting.key}` for `{setting.name}`"
        for setting in SETTINGS.values()
        if setting.table == table.name and setting.key != setting.name
    ]
    names = f" A file has {', '.join(shortened)}." if shortened else ""
    return f"\n## `[{table.name}]`\n\n{table.meaning}{names}\n\n{_rows(table.name)}"


def page() -> str:
    return "\n".join([HEAD + _rows("") + "".join(map(_section, TABLES.values())), TAIL.lstrip("\n")])


if __name__ == "__main__":
    sys.stdout.write(page())
