"""Groups of commands whose first word is the kind of what follows: `quartzpy delete job NAME`."""

from __future__ import annotations

import click


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
