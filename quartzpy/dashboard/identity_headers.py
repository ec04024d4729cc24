"""Sign-in by a reverse proxy (oauth2-proxy, Authelia, Pomerium), which says in headers who sends a request."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from quartzpy.dashboard.cookies import address_of
from quartzpy.dashboard.passes import PassAuth, checked_roles, role_of
from quartzpy.errors import SettingsError
from quartzpy.operations import Actor, Grant, Role

_MAX_NAME = 200


class IdentityHeaders:
    """Admits whom the headers of a declared proxy name; headers from any other address count for nothing.

    `proxies` are the addresses or networks from which proxies connect to this process. Whoever can connect from them
    can say that he is anybody. The server must not replace the address of the proxy by that of a client
    (uvicorn's `--proxy-headers`, which `quartzpy dashboard` leaves off here). `groups` is the header with the user's
    groups, separated by commas; `roles` maps groups to roles, and "*" is everybody who is signed in. With `secret`,
    programs are admitted by the tokens that it has signed.

    Raises:
        SettingsError: there is no proxy, an address is wrong, or there is no role.
    """

    def __init__(
        self,
        proxies: Sequence[str],
        roles: Mapping[str, Role | str],
        *,
        user: str = "X-Forwarded-User",
        groups: str = "X-Forwarded-Groups",
        grants: Mapping[str, Grant] | None = None,
        secret: str | None = None,
    ) -> None:
        if isinstance(proxies, str) or not proxies:
            raise SettingsError("identity headers: name the addresses of the proxies that may send them")
        try:
            self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        except ValueError as error:
            raise SettingsError(f"identity headers: {error}; write 10.0.0.7 or 10.0.0.0/24") from None
        if any(network.prefixlen == 0 for network in self._proxies):
            raise SettingsError("identity headers: every address would be trusted, and could say that it is anybody")
        self._roles = checked_roles(roles)
        self._user, self._groups = user, groups
        self._grants = dict(grants or {})
        self._machines = None if secret is None else PassAuth(secret, grants)

    def __call__(self, request: Request) -> Actor | None:
        if self._machines is not None and request.headers.get("authorization"):
            return self._machines(request)
        if not self._is_proxy(address_of(request)):
            return None
        name, groups = self._name(request), request.headers.getlist(self._groups)
        # A second one is what the client itself has sent.
        if name is None or len(groups) > 1:
            return None
        role = role_of([group.strip() for group in _as_utf8("".join(groups)).split(",")], self._roles)
        return None if role is None else Actor(name, role, self._grants.get(name))

    def _name(self, request: Request) -> str | None:
        """Return who the proxy says sends the request; None if it says nothing, two things, or what is no name."""
        names = [_as_utf8(name).strip() for name in request.headers.getlist(self._user)]
        return names[0] if len(names) == 1 and names[0].isprintable() and 0 < len(names[0]) <= _MAX_NAME else None

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._proxies)
        except ValueError:
            return False

    def challenge(self, request: Request) -> Response:
        """Say what was missing."""
        if not self._is_proxy(address_of(request)):
            text = "This page is reached through its proxy, which signs you in.\n"
        elif self._name(request) is None:
            text = f"The proxy has not said who you are: there must be one header {self._user}, with a name.\n"
        else:
            text = "You are signed in, but none of your groups has a role here.\n"
        return PlainTextResponse(text, 403)


def _as_utf8(header: str) -> str:
    """Return the text of a header, which proxies write in UTF-8, and which is read as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header
