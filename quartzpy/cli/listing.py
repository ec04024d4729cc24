"""Listings: their shared options, and their output as a table or JSON, once or again and again (`--watch`)."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from quartzpy.cli.drawing import draw
from quartzpy.cli.formatter import LOCAL, Formatter
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.instants import as_span
from quartzpy.operations.lists.spec import Column
from quartzpy.operations.render import json_text, to_json
from quartzpy.scheduler.querying import Page
from quartzpy.texts import did_you_mean, reason

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations

DEFAULT_LIMIT = 100
DEFAULT_PERIOD = "2s"
_Command = Callable[..., None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that all listings share."""

    json_output: bool
    watch: float | None
    """The time between two outputs, in seconds; None for a single one."""
    formatter: Formatter
    columns: tuple[str, ...]
    limit: int
    after: str | None


@dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """The records of one output, and what there is to say about them."""

    records: Sequence[_T]
    empty: str = ""
    """The sentence for an empty answer: what was looked for, and what there is."""
    note: str | None = None
    """A sentence that follows the table."""
    whole: Any = None
    """The read model that JSON shows; None for the records themselves."""


def chosen_columns(columns: Sequence[Column[_T]], names: Sequence[str]) -> Sequence[Column[_T]]:
    """Return the columns with these names, in this order; without names, all that are not extra.

    Raises:
        SettingsError: there is no column of a name.
    """
    if not names:
        return [column for column in columns if not column.extra]
    if names == ("all",):
        return columns
    by_option = {column.option: column for column in columns}
    for name in names:
        if name not in by_option:
            raise SettingsError(f"--columns: {name!r} is unknown; {did_you_mean(name, [*by_option, 'all'], 'columns')}")
    return [by_option[name] for name in names]


def output_options(command: _Command) -> _Command:
    """Add the options of all commands that print records: `--json`, `--watch` and `--zone`."""
    for option in (
        click.option("--zone", default=LOCAL, help="The time zone of the output. [default: that of this machine]"),
        click.option(
            "--watch",
            is_flag=False,
            flag_value=DEFAULT_PERIOD,
            metavar="[SPAN]",
            help=f"Print again after this time, until Ctrl-C. [without a value: {DEFAULT_PERIOD}]",
        ),
        click.option("--json", "json_output", is_flag=True, help="Print JSON."),
    ):
        command = option(command)
    return command


def listing_options(command: Callable[..., None]) -> _Command:
    """Add the options of a listing; the command receives a `Target` and `Options`."""

    @wraps(command)
    def collected(
        target: Target,
        *arguments: Any,
        json_output: bool,
        watch: str | None,
        zone: str,
        columns: str | None,
        limit: int,
        after: str | None,
        **rest: Any,
    ) -> None:
        command(target, parsed(json_output, watch, zone, columns, limit, after), *arguments, **rest)

    decorated: Any = collected
    for option in (
        click.option("--columns", help="The columns of the table, separated by commas; all prints every column."),
        click.option("--after", help="Continue after the page that printed this cursor."),
        click.option(
            "--limit",
            type=click.IntRange(1, 1_000_000),
            default=DEFAULT_LIMIT,
            show_default=True,
            help="The maximum number of rows.",
        ),
    ):
        decorated = option(decorated)
    return scheduler_options(output_options(decorated))


def parsed(
    json_output: bool, watch: str | None, zone: str, columns: str | None, limit: int = 0, after: str | None = None
) -> Options:
    """Return the options of an output.

    Raises:
        SettingsError: a value is wrong.
    """
    period = None if watch is None else as_span(watch, "--watch", SettingsError, above_zero=True).total_seconds()
    names = tuple(name.strip().replace(" ", "_") for name in columns.split(",")) if columns else ()
    return Options(json_output, period, Formatter(zone), names, limit, after)


def run_listing(
    target: Target, options: Options, columns: Sequence[Column[_T]], read: Callable[[Operations], Answer[_T]]
) -> None:
    """Print what `read` returns of the operations of a client, once or again and again."""
    columns = chosen_columns(columns, options.columns)
    with target.operations() as operations:
        repeat(options.watch, lambda: print_answer(options, columns, read(operations)))


def print_answer(options: Options, columns: Sequence[Column[_T]], answer: Answer[_T]) -> None:
    """Print records as a table or JSON, and what there is to say about them."""
    if options.json_output:
        print_json(answer.records if answer.whole is None else answer.whole, indent=options.watch is None)
        return
    # Remarks go to standard error, so that a pipe receives the rows only; a watched terminal has one place for all.
    aside = options.watch is None
    page = answer.records if isinstance(answer.records, Page) else None
    follow = None if page is None else page.next_cursor
    if not answer.records:
        if follow is None:
            click.echo(answer.empty, err=aside)
    else:
        click.echo(draw(columns, answer.records, options.formatter, width=terminal_width(), omit=not options.columns))
    if answer.note is not None:
        click.echo(answer.note, err=aside)
    if page is not None and follow is not None:
        more = "more follow"
        if page.examined is not None:
            more = f"searched {page.examined:,}, found {len(page)}; go on with"
        click.echo(f"{more}: --after {follow}", err=aside)


def print_json(value: Any, *, indent: bool = True) -> None:
    """Print a read model as JSON; without `indent`, on one line."""
    click.echo(json_text(to_json(value), indent=2 if indent else None))


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if the output is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def repeat(period: float | None, output: Callable[[], None]) -> None:
    """Call `output` once, or every `period` seconds until Ctrl-C. On a terminal, each output replaces the last one.

    An error of the database ends a single output, but is only printed by a repeated one.
    """
    if period is None:
        output()
        return
    with suppressed_interrupt():
        while True:
            if sys.stdout.isatty():
                click.echo("\x1b[2J\x1b[H", nl=False)
            try:
                output()
            except QuartzpyError as error:
                click.echo(f"{type(error).__name__}: {reason(error)}", err=True)
            sys.stdout.flush()
            rest(period)


def rest(seconds: float) -> None:
    """Wait between two outputs."""
    threading.Event().wait(seconds)


@contextmanager
def suppressed_interrupt() -> Iterator[None]:
    """End the block at Ctrl-C without an error: that is how a command which runs until then is meant to end."""
    try:
        yield
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            click.echo()
