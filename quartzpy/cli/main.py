"""The command line `quartzpy COMMAND`.

To start fast, it imports only the command that is called, and a command imports its dependencies when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from keyword import iskeyword

import click

from quartzpy.cli.commands import INTERNAL, INTERRUPTED, status_of
from quartzpy.cli.target import connection_options, refuse_unused
from quartzpy.errors import QuartzpyError
from quartzpy.texts import reason, visible

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "See": {
        "top": "top",
        "incidents": "cluster",
        "fleet": "fleet",
    },
    "List": {},
    "Understand": {
        "show": "show",
        "why": "show",
        "log": "show",
        "doctor": "setup",
        "health": "cluster",
        "tail": "tail",
    },
    "Run": {},
    "Hold back": {},
    "Change": {},
    "Command a node": {},
    "Keep jobs in files": {
        "plan": "definitions",
        "apply": "definitions",
        "export": "definitions",
        "import": "imports",
        "refresh": "calendar_files",
    },
    "Set up": {
        "demo": "demo",
        "serve": "serve",
        "node": "node",
        "dashboard": "dashboard",
        "dashboard-token": "dashboard_token",
        "mcp": "mcp",
        "db": "setup",
        "config": "setup",
        "notify": "notify",
        "cron": "cron",
        "completion": "completion",
    },
}
"""The commands, by what they are for, and the modules that define them. An empty section is one of actions. The lists
that are described in `quartzpy.operations.lists` are in the section "List"."""


class _Sections(click.Group):
    """Lists its commands by what they are for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError:
            if (hint := _action_hint(args[0])) is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx) from None
        if command is not None and not ctx.resilient_parsing:
            refuse_unused(ctx, command)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from quartzpy.operations.actions.table import SECTIONS

        for title, modules in _SECTIONS.items():
            names = [*modules]
            if title == "List":
                names += _lists()
            elif not modules:
                names += [action.command.split()[0] for action in SECTIONS[title] if action.commanded]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(limit=100)) for name in dict.fromkeys(names)]
                )


def _action_hint(typed: str) -> str | None:
    """Return the hint for a word that is like the name of an action whose command has other words."""
    from difflib import get_close_matches

    from quartzpy.operations.actions.table import ACTIONS
    from quartzpy.operations.selection import Subject

    spellings: dict[str, str] = {}
    for action in ACTIONS.values():
        noun, _, verb = action.command.partition(" ")
        if verb:
            spellings |= dict.fromkeys((f"{verb}-{noun}", f"{noun}-{verb}"), action.command)
        if Subject.EVERYTHING in action.commanded:
            options = {kind.replace(" ", "-"): f" --{kind.replace(' ', '-')}" for kind in action.commanded}
            options |= {"trigger-group": " --group", "group": " --group", "all": " --everything"}
            spellings |= {f"{action.command}-{kind}": action.command + option for kind, option in options.items()}
    near = get_close_matches(typed.lower().replace("_", "-"), spellings, n=1, cutoff=0.8)
    return f"Did you mean `quartzpy {spellings[near[0]]}`?" if near else None


def _lists() -> tuple[str, ...]:
    names: tuple[str, ...] = import_module("quartzpy.operations.lists.table").commands()
    return names


class _Commands(Mapping[str, click.Command]):
    """The commands by their names; each is imported when it is asked for."""

    def __init__(self) -> None:
        self._modules = {name: module for names in _SECTIONS.values() for name, module in names.items()}
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._modules:
            module = import_module(f"quartzpy.cli.{'lists' if name in _lists() else 'actions'}")
            named: click.Command = module.command_named(name)
            return named
        if name not in self._imported:
            module = import_module(f"quartzpy.cli.{self._modules[name]}")
            variable = name.replace("-", "_")
            command = getattr(module, f"{variable}_" if iskeyword(variable) else variable)
            assert isinstance(command, click.Command)
            self._imported[name] = command
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return chain(_lists(), self._modules, import_module("quartzpy.cli.actions").names())

    def __len__(self) -> int:
        return len(list(iter(self)))


@click.group(cls=_Sections, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quartzpy")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@connection_options
def cli(**_options: object) -> None:
    """A clustered job scheduler over PostgreSQL.

    The commands find the database by --url, QUARTZPY_URL, or url in the nearest quartzpy.toml. The options that select
    the database and the scheduler stand before the command or after it.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Print an error as one line on standard error, and exit with its status."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        status = cli.main(args=words, prog_name="quartzpy", standalone_mode=False)
        # --help and --version return a status; commands return None.
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("quartzpy: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python must not fail when it flushes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except QuartzpyError as error:
        if debug:
            raise
        click.echo(f"quartzpy: {type(error).__name__}: {visible(' '.join(str(error).split()))}", err=True)
        sys.exit(status_of(error))
    except Exception as error:
        if debug:
            raise
        click.echo(
            f"quartzpy: {type(error).__name__}: {reason(error)} (quartzpy --debug shows the traceback)", err=True
        )
        sys.exit(INTERNAL)
