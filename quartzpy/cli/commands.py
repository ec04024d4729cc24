"""What commands share: their exit statuses, and groups whose first word is the kind of what follows."""

from __future__ import annotations

import click

from quartzpy import errors

NOT_OK = 1
"""The command worked, and its answer is no: a check failed, a plan has changes, an awaited execution failed."""
USAGE = 2
UNREACHABLE = 3
SCHEMA = 4
NOT_FOUND = 5
ABANDONED = 6
NOTHING_MATCHED = 7
"""The filters of an action select nothing."""
START_A_NODE = "no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"
NOT_CONFIRMED = 8
"""The user declined, or could not be asked because the input is not a terminal; nothing was changed."""
REFUSED = 9
"""The action is not permitted, or the state of its subject does not allow it; nothing was changed."""
PARTLY_DONE = 10
"""The action was applied to some of its subjects, and not to others."""
INTERNAL = 70
"""An unexpected error, in quartzpy or in the program that it loaded (EX_SOFTWARE of sysexits.h)."""
UNHEALTHY = 75
"""A node that cannot continue and that a process supervisor should start again (EX_TEMPFAIL of sysexits.h)."""
INTERRUPTED = 130
"""Ctrl-C: 128 plus the number of the signal, as in shells."""


def status_of(error: errors.QuartzpyError) -> int:
    """Return the exit status for an error."""
    match error:
        case errors.StoreUnavailableError() | errors.OutcomeUnknownError():
            return UNREACHABLE
        case errors.SchemaError():
            return SCHEMA
        case errors.ObjectNotFoundError():
            return NOT_FOUND
        case errors.ForbiddenError() | errors.IllegalStateChangeError() | errors.CalendarInUseError():
            return REFUSED
    return USAGE


class KindGroup(click.Group):
    """A group whose commands are kinds. Its error about a missing kind shows how the command is written."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            kinds = self.list_commands(ctx)
            example = next((kind for kind in ("job", "trigger") if kind in kinds), kinds[0])
            raise click.UsageError(
                f"{error.format_message()} The kind comes first, as in `{ctx.command_path} {example} {args[-1]}`; the"
                f" kinds are {', '.join(kinds)}.",
                ctx,
            ) from None


class NounGroup(click.Group):
    """What can be done to limits, or to windows. Its command `list` is the list of that name, `quartzpy limits`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "list"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "list":
            return super().get_command(ctx, cmd_name)
        root = ctx.find_root()
        assert isinstance(root.command, click.Group)
        return root.command.get_command(root, f"{self.name}s")
