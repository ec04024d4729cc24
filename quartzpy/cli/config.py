"""`quartzpy config`: the effective settings, and the source of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

import click

from quartzpy.cli.target import Target, scheduler_options
from quartzpy.config.config import ExecutorConfig, SchedulerConfig
from quartzpy.config.sources import CONFIG_FILE, URL
from quartzpy.operations.render import as_json, table
from quartzpy.operations.schedules import short

# Greedy: a password that contains an unescaped @ must not show its second half.
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET_PARAMETER = re.compile(r"(?<=[?&])((?:ssl)?password|passwd|secret|token)=[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return a URL with `***` in place of its passwords."""
    return _SECRET_PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", url))


@click.command()
@scheduler_options
@click.option("--all", "with_defaults", is_flag=True, help="Also print the settings that have their default value.")
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
def config(target: Target, with_defaults: bool, json_output: bool) -> None:
    """Print the effective settings and the source of each.

    An option overrides the environment, the environment overrides the file, and the file overrides the defaults. The
    file is that of --config, else that of QUARTZPY_CONFIG, else the nearest quartzpy.toml in this directory or above
    it. It needs no database; passwords are not printed.
    """
    rows = [row for row in _rows(target) if with_defaults or row[2] != "default"]
    if json_output:
        shown = [(name, _text(value) if isinstance(value, Mapping) else value, source) for name, value, source in rows]
        click.echo(as_json(("setting", "value", "source"), shown))
        return
    click.echo(table(("setting", "value", "source"), [(name, _text(value), source) for name, value, source in rows]))
    if target.config_file is None:
        click.echo(f"(no file: there is no {CONFIG_FILE} in this directory or above it)", err=True)


def _rows(target: Target) -> list[tuple[str, Any, str]]:
    effective = SchedulerConfig.of({name: value for name, value in target.values.items() if name != URL})
    values = {URL: target.values.get(URL)} | {one.name: getattr(effective, one.name) for one in fields(effective)}
    for name in (URL, "listen_url"):
        if values[name] is not None:
            values[name] = without_password(str(values[name]))
    return [(name, value, target.origins.get(name, "default")) for name, value in values.items()]


def _text(value: Any) -> Any:
    match value:
        case timedelta():
            return short(value)
        case dict():
            return ", ".join(f"{name}={_text(part)}" for name, part in value.items()) or None
        case tuple():
            return ", ".join(map(str, value)) or None
        case ExecutorConfig():
            limit = "" if value.memory_limit is None else f":{value.memory_limit}"
            return f"{value.kind}:{value.workers}{limit}"
    return value
