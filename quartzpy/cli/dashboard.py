"""`quartzpy dashboard`: the web page, served by this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.garbage import present_objects_exempted
from quartzpy.installing import install_line
from quartzpy.operations.actions.action import local_user
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.dashboard import Authenticator
    from quartzpy.operations import Grant, Role

PORT = 8686
TOKEN_VARIABLE = "QUARTZPY_DASHBOARD_TOKEN"
USERS_VARIABLE = "QUARTZPY_DASHBOARD_USERS"
GRANTS_VARIABLE = "QUARTZPY_DASHBOARD_GRANTS"
SECRET_VARIABLE = "QUARTZPY_DASHBOARD_SECRET"
OIDC_SECRET_VARIABLE = "QUARTZPY_DASHBOARD_OIDC_SECRET"
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
@click.option("--oidc", "issuer", metavar="ISSUER", help="Sign in at this OpenID Connect provider, by its URL.")
@click.option("--oidc-client", "client_id", metavar="ID", help="The id of the client at the provider.")
@click.option(
    "--oidc-secret", "client_secret", envvar=OIDC_SECRET_VARIABLE, show_envvar=True, help="The secret of the client."
)
@click.option("--oidc-scope", "scope", default="openid profile email", show_default=True, help="What is asked for.")
@click.option(
    "--oidc-redirect", "redirect_uri", metavar="URL", help="The address of /login/callback, if it is another."
)
@click.option(
    "--role-claim", default="groups", show_default=True, help="The claim with the groups: realm_access.roles."
)
@click.option("--name-claim", default="preferred_username", show_default=True, help="The claim with the name.")
@click.option(
    "--identity-header",
    metavar="HEADER",
    help="Sign in by the proxies of --trusted-proxy, which name the user in this header: X-Forwarded-User.",
)
@click.option("--groups-header", default="X-Forwarded-Groups", show_default=True, help="The header with the groups.")
@click.option(
    "--group-role",
    "group_roles",
    multiple=True,
    metavar="GROUP=ROLE",
    help="The role of a group of the provider or proxy; *=viewer is that of everybody. May be repeated.",
)
@click.option(
    "--secret",
    envvar=SECRET_VARIABLE,
    show_envvar=True,
    help="Accept the tokens that quartzpy dashboard-token has made with this secret, of at least 32 characters.",
)
@click.option(
    "--fleet",
    "fleet_file",
    metavar="FILE",
    help="Also show all schedulers of this file, as `quartzpy fleet` does. Without a database of its own, the page is"
    " that of the first of them.",
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
    fleet_file: str | None,
    secret: str | None,
    **sign_in: Any,
) -> None:
    """Serve the web page until SIGTERM or Ctrl-C.

    It needs the extra `dashboard`. Without --token and --basic-user, it listens on this machine only, where everybody
    may read; with --allow-actions it prints a link with a token, without which nobody changes anything.
    """
    with installed_by(install_line("dashboard")):
        from quartzpy.dashboard import create_app
        from quartzpy.dashboard.auth import LocalToken
        from quartzpy.dashboard.hosts import is_loopback
        from quartzpy.dashboard.local_token import new_token
        from quartzpy.dashboard.server import DashboardServer, listen
    auth = _sign_in(secret, grants, trusted_proxies, bool(token or users), **sign_in)
    if auth is None:
        auth = _authenticator(token, token_role, users, grants)
    elif sign_in["identity_header"]:
        # The address of the proxy decides, and must not be replaced by that of a client.
        trusted_proxies = ()
    if auth is None and not is_loopback(host):
        raise SettingsError(
            f"--host {host}: others could reach the page without authentication; set a token, as in"
            f" {TOKEN_VARIABLE}=... quartzpy dashboard --host {host}"
        )
    token_link = ""
    if auth is None and not read_only:
        made = new_token()
        auth, token_link = LocalToken(made, local_user()), f"login?token={made}"
    fleet = None
    if fleet_file is not None:
        from quartzpy.cli.fleet import members_in, target_of
        from quartzpy.config.fleet import fleet_from_toml
        from quartzpy.operations.fleet import Fleet

        fleet = Fleet(members_in(fleet_file))
        target = target if target.has_database else target_of(fleet_from_toml(fleet_file)[0])
    with listen(host, port) as listening, target.client() as scheduler:
        app = create_app(
            scheduler,
            auth=auth,
            read_only=read_only,
            title=title or scheduler.name,
            behind_tls_proxy=behind_tls_proxy,
            fleet=fleet,
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


@contextmanager
def installed_by(line: str) -> Iterator[None]:
    """Say by which line to install what the import of a module lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("quartzpy"):
            raise
        raise SettingsError(f"{error.name} is not installed; run {line}") from error


def _sign_in(
    secret: str | None,
    grants: tuple[str, ...],
    proxies: tuple[str, ...],
    has_users: bool,
    *,
    issuer: str | None,
    client_id: str | None,
    client_secret: str | None,
    identity_header: str | None,
    groups_header: str,
    group_roles: tuple[str, ...],
    scope: str,
    redirect_uri: str | None,
    role_claim: str,
    name_claim: str,
) -> Authenticator | None:
    """Return the authenticator that does not ask for a token or a password itself; None if there is none."""
    chosen = {"--oidc": issuer, "--identity-header": identity_header, "--token or --basic-user": has_users}
    if len(names := [name for name, value in chosen.items() if value]) > 1:
        raise SettingsError(f"{' and '.join(names)} exclude each other")
    roles = dict(map(_group_role, group_roles))
    if roles and not issuer and not identity_header:
        raise SettingsError("--group-role: it is that of a group at --oidc or in --groups-header; give one of them")
    granted = dict(map(_grant, grants))
    if issuer:
        with installed_by(install_line("oidc")):
            from quartzpy.dashboard.oidc import OidcAuth
        return OidcAuth(
            issuer,
            client_id or "",
            client_secret or "",
            roles,
            role_claim=role_claim,
            name_claim=name_claim,
            scope=scope,
            secret=secret,
            redirect_uri=redirect_uri,
            grants=granted,
        )
    if identity_header:
        from quartzpy.dashboard.identity_headers import IdentityHeaders

        return IdentityHeaders(
            proxies, roles, user=identity_header, groups=groups_header, grants=granted, secret=secret
        )
    if secret and has_users:
        raise SettingsError("--secret excludes --token and --basic-user; make a token for each program instead")
    if secret:
        from quartzpy.dashboard.passes import PassAuth

        return PassAuth(secret, granted)
    return None


def _group_role(text: str) -> tuple[str, Role]:
    from quartzpy.operations import Role

    group, _, role = text.rpartition("=")
    if not group or role not in ROLES:
        raise SettingsError(
            f"--group-role: must be GROUP=ROLE with {', '.join(ROLES)}, as ops=operator (got {quoted(text)})"
        )
    return group, Role(role)


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
