"""`quartzpy dashboard`: the web page, served by this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import click

from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.garbage import present_objects_exempted
from quartzpy.installing import install_line
from quartzpy.operations.actions.action import local_user
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.dashboard import Authenticator
    from quartzpy.operations import Grant

PORT = 8686
TOKEN_VARIABLE = "QUARTZPY_DASHBOARD_TOKEN"
USERS_VARIABLE = "QUARTZPY_DASHBOARD_USERS"
GRANTS_VARIABLE = "QUARTZPY_DASHBOARD_GRANTS"
ROLES = ("viewer", "operator", "admin")


@click.command()
@scheduler_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 is any free port.")
@click.option("--read-only/--allow-actions", default=True, show_default=True, help="Forbid or permit all changes.")
@click.option("--token", envvar=TOKEN_VARIABLE, show_envvar=True, help="Ask for this token, of at least 8 characters.")
@click.option("--token-role", default="admin", show_default=True, type=click.Choice(ROLES), help="The token's role.")
@click.option(
    "--basic-user",
    "users",
    multiple=True,
    envvar=USERS_VARIABLE,
    show_envvar=True,
    metavar="NAME:PASSWORD[:ROLE]",
    help="Ask for a name and a password. Repeat it for several users; the role is viewer unless given.",
)
@click.option(
    "--grant",
    "grants",
    multiple=True,
    envvar=GRANTS_VARIABLE,
    show_envvar=True,
    metavar="NAME:GROUPS[:TYPES]",
    help="Let a user, or 'token' for the token, define jobs and triggers of these groups, of these job types, whatever"
    " the role is: bob:shop,shop-*:shop.jobs.*",
)
@click.option("--root-path", default="", help="The path under which a reverse proxy serves the page: /ops.")
@click.option(
    "--behind-tls-proxy", is_flag=True, help="Browsers reach the page over HTTPS only, so make its cookies Secure."
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Take the client's address and scheme from the X-Forwarded headers of this proxy. May be repeated.",
)
@click.option("--title", default=None, help="The title of the page; by default the scheduler's name.")
def dashboard(
    target: Target,
    host: str,
    port: int,
    read_only: bool,
    token: str | None,
    token_role: str,
    users: tuple[str, ...],
    grants: tuple[str, ...],
    root_path: str,
    behind_tls_proxy: bool,
    trusted_proxies: tuple[str, ...],
    title: str | None,
) -> None:
    """Serve the web page until SIGTERM or Ctrl-C.

    It needs the extra `dashboard`. Without --token and --basic-user, it listens on this machine only, where everybody
    may read; with --allow-actions it prints a link with a token, without which nobody changes anything.
    """
    try:
        from quartzpy.dashboard import create_app
        from quartzpy.dashboard.auth import LocalToken
        from quartzpy.dashboard.hosts import is_loopback
        from quartzpy.dashboard.local_token import new_token
        from quartzpy.dashboard.server import DashboardServer, listen
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("quartzpy"):
            raise
        raise SettingsError(f"{error.name} is not installed; run {install_line('dashboard')}") from error
    auth = _authenticator(token, token_role, users, grants)
    if auth is None and not is_loopback(host):
        raise SettingsError(
            f"--host {host}: others could reach the page without authentication; set a token, as in"
            f" {TOKEN_VARIABLE}=... quartzpy dashboard --host {host}"
        )
    token_link = ""
    if auth is None and not read_only:
        made = new_token()
        auth, token_link = LocalToken(made, local_user()), f"login?token={made}"
    with listen(host, port) as listening, target.client() as scheduler:
        app = create_app(
            scheduler,
            auth=auth,
            read_only=read_only,
            title=title or scheduler.name,
            behind_tls_proxy=behind_tls_proxy,
        )
        server = DashboardServer(app, root_path.rstrip("/"), trusted_proxies=trusted_proxies)
        shown = f"[{host}]" if ":" in host else host
        changes = "read-only" if read_only else "actions allowed"
        changes += " with its token" if token_link else ""
        url = f"http://{shown}:{listening.getsockname()[1]}{root_path.rstrip('/')}/"
        click.echo(f"dashboard of scheduler {scheduler.name!r} on {url} ({changes}; Ctrl-C ends it)")
        if token_link:
            click.echo(f"log in by {url}{token_link}")
        with present_objects_exempted():
            server.run(sockets=[listening])


def _authenticator(
    token: str | None, token_role: str, users: tuple[str, ...], grants: tuple[str, ...]
) -> Authenticator | None:
    from quartzpy.dashboard import basic_auth, token_auth
    from quartzpy.operations import Role

    if token and users:
        raise SettingsError("--token and --basic-user exclude each other")
    granted = dict(map(_grant, grants))
    if token:
        _check_known(granted, ["token"])
        return token_auth(token, Role[token_role.upper()], granted.get("token"))
    if not users:
        _check_known(granted, [])
        return None
    passwords: dict[str, str] = {}
    roles: dict[str, Role] = {}
    for user in users:
        name, colon, rest = user.partition(":")
        password, _, role = rest.rpartition(":")
        if not password or role not in ROLES:
            # A password may contain colons itself.
            password, role = rest, "viewer"
        if not name or not colon or not password:
            raise SettingsError("--basic-user: must be NAME:PASSWORD or NAME:PASSWORD:ROLE")
        passwords[name], roles[name] = password, Role[role.upper()]
    _check_known(granted, passwords)
    return basic_auth(passwords, roles, granted)


def _grant(text: str) -> tuple[str, Grant]:
    from quartzpy.operations import Grant

    name, _, rest = text.partition(":")
    # The name of a job type may contain colons.
    groups, _, types = rest.partition(":")
    if not name or not groups:
        raise SettingsError(
            f"--grant: must be NAME:GROUPS or NAME:GROUPS:TYPES, as bob:shop,shop-* (got {quoted(text)})"
        )
    try:
        return name, Grant(groups.split(","), types.split(",") if types else ["*"])
    except InvalidValueError as error:
        raise SettingsError(f"--grant {text!r}: {error}") from None


def _check_known(granted: Iterable[str], names: Collection[str]) -> None:
    for name in granted:
        if name not in names:
            whom = f"the users are {', '.join(names)}" if names else "set a token, or users by --basic-user"
            raise SettingsError(f"--grant: there is no user {name!r}; {whom}")
