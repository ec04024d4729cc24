"""`quartzpy dashboard-token`: tokens of machines for the web page and its API."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from quartzpy.cli.dashboard import ROLES, SECRET_VARIABLE, installed_by
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.instants import as_span


@click.command()
@scheduler_options
@click.option("--secret", envvar=SECRET_VARIABLE, show_envvar=True, help="The secret that the dashboard runs with.")
@click.option("--for", "user", metavar="NAME", help="Who uses the token, for the audit log: deploy-pipeline.")
@click.option("--role", default="viewer", show_default=True, type=click.Choice(ROLES), help="What the token permits.")
@click.option("--expires", default="30d", show_default=True, help="The time for which it is valid; at most 366d.")
@click.option("--end", "number", metavar="NUMBER", help="End a token, by the number that was printed with it.")
def dashboard_token(
    target: Target, secret: str | None, user: str | None, role: str, expires: str, number: str | None
) -> None:
    """Print a token with which a program calls the API of `quartzpy dashboard --secret ...`, or end one.

    The token is on standard output, what it is on standard error. It is stored nowhere.
    """
    with installed_by(install_line("dashboard")):
        from quartzpy.dashboard.passes import LONGEST_TOKEN, PassKind, PassSigner
        from quartzpy.dashboard.sessions import EndedSessions
    from quartzpy.operations import Role
    from quartzpy.operations.actions.action import local_user

    if (user is None) == (number is None):
        raise click.UsageError("give --for NAME for a new token, or --end NUMBER to end one")
    if number is not None:
        if re.fullmatch("[0-9a-f]{32}", number) is None:
            # It may be the token itself, which is not for the audit log.
            raise SettingsError("--end: the number was printed with the token, and has 32 hexadecimal digits")
        with target.client() as scheduler:
            EndedSessions(scheduler).record_end(number, local_user())
        click.echo(f"the token {number} is ended; dashboards that know it refuse it within seconds", err=True)
        return
    if secret is None:
        raise SettingsError(f"--secret, or {SECRET_VARIABLE}: the secret that the dashboard runs with is needed")
    lasts = as_span(expires, "--expires", SettingsError, above_zero=True, longest=LONGEST_TOKEN)
    text, made = PassSigner(secret).issue(str(user), Role(role), PassKind.TOKEN, lasts)
    until = datetime.fromtimestamp(made.expires, UTC).isoformat(timespec="seconds")
    click.echo(
        f"{made.name} is {made.role} until {until}; to end it: quartzpy dashboard-token --end {made.number}", err=True
    )
    click.echo(text)
