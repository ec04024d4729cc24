"""Authentication: a callable of the user's, or one of the built-in ones, decides who sends a request."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from quartzpy.errors import SettingsError
from quartzpy.operations import Actor, Role

Authenticator: TypeAlias = Callable[[Request], Awaitable[Actor | None] | Actor | None]
"""A callable that returns who sends a request, or None to refuse it. It may be a coroutine function.

It may have a method `challenge(request)` that returns the response to a request that was refused, such as a redirection
to the application's own login page; without one, the response has status 401.
"""

SESSION_COOKIE = "quartzpy_session"
SESSION_LASTS = 12 * 3600
"""The time, in seconds, after which the login page asks for the token again."""
SHORTEST_SECRET = 8
"""The least number of characters of a token or password."""


def allow_everyone(role: Role = Role.VIEWER) -> Authenticator:
    """Return an authenticator that admits every request as "anonymous" with this role.

    It is for applications whose own server, proxy or network decides who reaches the page.
    """
    actor = Actor("anonymous", role)
    return lambda request: actor


def token_auth(tokens: str | Mapping[str, Actor], role: Role = Role.ADMIN) -> TokenAuth:
    """Return an authenticator by tokens: one token for everyone with this role, or a mapping of tokens to actors.

    A program sends its token as `Authorization: Bearer TOKEN`; a person enters it on the login page, which sets a
    signed cookie for twelve hours. A change of the token ends these sessions.

    Raises:
        SettingsError: there is no token, or one is shorter than 8 characters.
    """
    return TokenAuth({tokens: Actor("token", role)} if isinstance(tokens, str) else dict(tokens))


def basic_auth(users: Mapping[str, str], roles: Mapping[str, Role] | Role = Role.ADMIN) -> BasicAuth:
    """Return an authenticator by HTTP basic authentication, from passwords by user name.

    `roles` is the role of all users, or the role of each; users without one are viewers. Use it over HTTPS only.

    Raises:
        SettingsError: there is no user, or a password is shorter than 8 characters.
    """
    given = {user: roles if isinstance(roles, Role) else roles.get(user, Role.VIEWER) for user in users}
    return BasicAuth(dict(users), given)


class TokenAuth:
    """Admits requests that carry one of several tokens, or the cookie of a session that began with one."""

    def __init__(self, actors: Mapping[str, Actor]) -> None:
        _check_secrets("token", actors)
        self._actors = dict(actors)
        self._key = hashlib.sha256("\0".join(sorted(actors)).encode()).digest()

    def __call__(self, request: Request) -> Actor | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._actor_of(token.strip())
        return self._actor_of_session(request.cookies.get(SESSION_COOKIE, ""))

    def challenge(self, request: Request) -> Response:
        """Send a person to the login page, and a program the status 401."""
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{request.scope.get('root_path', '')}/login?{urlencode({'next': wanted})}", 303)
        return PlainTextResponse("Send the header Authorization: Bearer TOKEN.", 401, {"WWW-Authenticate": "Bearer"})

    def log_in(self, form: FormData) -> str | None:
        """Return the value of the session cookie if the form has a valid token."""
        token = form.get("token")
        if not isinstance(token, str) or self._actor_of(token.strip()) is None:
            return None
        expires = int(time.time()) + SESSION_LASTS
        identity = self._identity(token.strip())
        return f"{expires}.{identity}.{self._signature(expires, identity)}"

    def _actor_of(self, token: str) -> Actor | None:
        found = None
        # All tokens are compared, so that the time does not tell which one is near.
        for known, actor in self._actors.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = actor
        return found

    def _actor_of_session(self, cookie: str) -> Actor | None:
        expires, _, rest = cookie.partition(".")
        identity, _, signature = rest.partition(".")
        if not expires.isascii() or not expires.isdigit() or len(expires) > 12 or int(expires) < time.time():
            return None
        if not hmac.compare_digest(self._signature(int(expires), identity).encode(), signature.encode()):
            return None
        return {self._identity(token): actor for token, actor in self._actors.items()}.get(identity)

    def _identity(self, token: str) -> str:
        return hmac.new(self._key, token.encode(), hashlib.sha256).hexdigest()[:16]

    def _signature(self, expires: int, identity: str) -> str:
        return hmac.new(self._key, f"{expires}.{identity}".encode(), hashlib.sha256).hexdigest()


class BasicAuth:
    """Admits requests by HTTP basic authentication."""

    def __init__(self, passwords: Mapping[str, str], roles: Mapping[str, Role]) -> None:
        _check_secrets("password", passwords.values())
        self._passwords = dict(passwords)
        self._roles = dict(roles)

    def __call__(self, request: Request) -> Actor | None:
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        known = self._passwords.get(user)
        # An unknown user costs the same comparison as a known one.
        matches = hmac.compare_digest((known or "").encode(), password.encode())
        return Actor(user, self._roles[user]) if colon and known is not None and matches else None

    def challenge(self, request: Request) -> Response:
        """Ask the browser for the name and the password."""
        realm = {"WWW-Authenticate": 'Basic realm="quartzpy", charset="UTF-8"'}
        return PlainTextResponse("This page needs a user name and a password.", 401, realm)


class LoopbackOnly:
    """Admits requests of programs and browsers on this machine: the default, for a page without authentication.

    The Host header has to name this machine too; else a web site could reach the page through a name of its own that
    leads to 127.0.0.1. Requests that a proxy forwarded are refused, because they may come from anywhere.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __call__(self, request: Request) -> Actor | None:
        forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))
        client = request.client.host if request.client else ""
        host = request.url.hostname or ""
        return self._actor if not forwarded and is_loopback(client) and is_loopback(host) else None

    def challenge(self, request: Request) -> Response:
        """Say how to open the page to other machines."""
        text = (
            "This dashboard has no authentication, so it answers only requests from the machine that it runs on.\n"
            "To open it to others, pass auth=token_auth(...), basic_auth(...) or a callable of your own to create_app,"
            " or start quartzpy dashboard with --token.\n"
        )
        return PlainTextResponse(text, 403)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is that of this machine alone."""
    if host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback


def _check_secrets(name: str, given: Iterable[str]) -> None:
    secrets = list(given)
    if not secrets:
        raise SettingsError(f"auth: there is no {name}")
    for secret in secrets:
        if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
            raise SettingsError(f"auth: a {name} must have at least {SHORTEST_SECRET} characters")
