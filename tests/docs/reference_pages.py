"""Renders the reference pages of commands, events and tables from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import click
from sqlalchemy import CheckConstraint, Column, Table
from sqlalchemy.schema import DefaultClause

import quartzpy.events.events
from quartzpy.cli.main import cli
from quartzpy.cli.target import ConnectionOption
from quartzpy.events.events import Event
from quartzpy.store.postgresql.schema import tables
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from tests.docs.api_page import NO_EDIT
from tests.docs.markdown import cell

_COMMENTS = re.compile(r"((?:^ *# .*\n)+) *Column\(\s*\"(\w+)\"", re.M)


def pages() -> dict[str, str]:
    """The Markdown of each page, by its path under docs/reference."""
    return {"commands.md": commands(), "events.md": events(), "tables.md": database_tables()}


# --- commands


def commands() -> str:
    lines = [
        "# Commands",
        "",
        NO_EDIT.replace("docstrings", "commands") + "`quartzpy --debug COMMAND` shows the traceback of an error.",
        "",
        "The options that select the database and the scheduler stand before the command or after it, and are listed",
        "here once. `quartzpy --url URL jobs` and `quartzpy jobs --url URL` are the same.",
        "",
        *_options([each for each in cli.params if isinstance(each, ConnectionOption)]),
    ]
    for path, command in sorted(every_command(cli, "quartzpy")):
        lines += _command(path, command)
    return "\n".join(lines).rstrip() + "\n"


def every_command(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be run, with the words that run it."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _command(path: str, command: click.Command) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    options = [each for each in options if not isinstance(each, ConnectionOption)]
    words = [path, *(["[OPTIONS]"] if any(isinstance(each, click.Option) for each in command.params) else [])]
    usage = " ".join([*words, *(each.make_metavar(click.Context(command)) for each in arguments)])
    yield from (f"## {path}", "", f"    {usage}", "", inspect.cleandoc(command.help or ""), "")
    if options:
        yield from _options(options)


def _options(options: Sequence[click.Option]) -> Iterator[str]:
    yield from ("| option | default | |", "|---|---|---|")
    for option in options:
        names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
        yield f"| {names} | {_default(option)} | {cell(option.help or '')} |"
    yield ""


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    parts = []
    if option.envvar:
        parts.append(f"`${option.envvar}`" if isinstance(option.envvar, str) else ", ".join(option.envvar))
    if not option.is_flag and isinstance(option.default, (str, int, float)) and not isinstance(option.default, bool):
        parts.append(f"`{option.default}`")
    return ", ".join(parts)


# --- events


def events() -> str:
    lines = [
        "# Events",
        "",
        NO_EDIT
        + "`scheduler.listeners.add_listener(callback, *classes)` calls a function with each event of these classes\n"
        "of `quartzpy.events`; a base class stands for all below it. A listener object has the method in the second\n"
        "column.",
        "",
        "| event | listener's method | attributes | |",
        "|---|---|---|---|",
    ]
    for cls in event_classes():
        attributes = ", ".join(f"`{field.name}`" for field in fields(cls))
        method = f"`{cls.method}`" if cls.method else ""
        lines.append(f"| `{cls.__name__}` | {method} | {attributes} | {cell(inspect.getdoc(cls) or '')} |")
    return "\n".join(lines) + "\n"


def event_classes() -> list[type[Event]]:
    return [
        cls
        for cls in vars(quartzpy.events.events).values()
        if inspect.isclass(cls) and issubclass(cls, Event) and not cls.__name__.startswith("_")
    ]


# --- tables


def database_tables() -> str:
    lines = [
        "# Tables",
        "",
        NO_EDIT.replace("docstrings", "tables")
        + "`quartzpy db sql` prints the statements that create these tables. Instants are `timestamptz`, states are\n"
        "words, and data is JSON. Reading these tables with SQL is supported; writing to them is not. The\n"
        "[views](#views) for operators are at the end.",
        "",
    ]
    comments = column_comments()
    for table in sorted(tables.metadata.tables.values(), key=lambda each: each.name):
        lines += _table(table, comments)
    lines += [
        "## Views",
        "",
        "The views contain the rows of all schedulers; restrict `sched_name` to yours. Columns without a description\n"
        "are those of the tables. Due and late are judged by the clock of the database.",
        "",
    ]
    for name, view in sorted(VIEWS.items()):
        lines += [f"### {name}", "", f"One row: {view.rows[0].lower()}{view.rows[1:]}", "", "| column | |", "|---|---|"]
        lines += [f"| `{column}` | {cell(text)} |" for column, text in view.columns.items()]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def column_comments() -> dict[tuple[str, str], str]:
    """The comments above columns in the source, by the names of the table and the column."""
    found = {}
    for module in Path(tables.__file__).parent.glob("*.py"):
        for definition in module.read_text().split(" = Table(\n")[1:]:
            name = definition.split('"', 2)[1]
            for text, column in _COMMENTS.findall(definition):
                found[name, column] = " ".join(line.strip().lstrip("# ") for line in text.strip().split("\n"))
    return found


def _table(table: Table, comments: dict[tuple[str, str], str]) -> Iterator[str]:
    keys = ", ".join(f"`{column.name}`" for column in table.primary_key)
    yield from (
        f"## {table.name}",
        "",
        f"Primary key: {keys}.",
        "",
        "| column | type | NULL | default | |",
        "|---|---|---|---|---|",
    )
    for column in table.columns:
        default = _server_default(column)
        words = _allowed_words(table, column)
        comment = comments.get((table.name, column.name), "")
        if comment and words and not comment.endswith("."):
            comment += "."
        text = " ".join(part for part in (comment, words) if part)
        yield (
            f"| `{column.name}` | `{str(column.type).lower()}` | {'yes' if column.nullable else ''} "
            f"| {f'`{default}`' if default else ''} | {cell(text)} |"
        )
    yield ""


def _server_default(column: Column[object]) -> str:
    default = column.server_default
    return str(getattr(default.arg, "text", default.arg)) if isinstance(default, DefaultClause) else ""


def _allowed_words(table: Table, column: Column[object]) -> str:
    for constraint in table.constraints:
        if isinstance(constraint, CheckConstraint):
            # Some constraints add a word by a further condition: `column IN ('A', 'B') OR (column = 'C' AND ...)`.
            text = str(constraint.sqltext)
            if text.startswith(f"{column.name} IN ("):
                words = re.findall(r"'([^']*)'", text.partition("(")[2].partition(")")[0])
                words += re.findall(rf"\b{column.name} = '([^']*)'", text)
                return "One of " + ", ".join(f"`{word}`" for word in words) + "."
    return ""
