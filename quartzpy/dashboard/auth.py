"""Authentication: a callable of the user's, or one of the built-in ones, decides who sends a request."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from quartzpy.dashboard import cookies
from quartzpy.dashboard.hosts import host_of, is_loopback
from quartzpy.dashboard.login_throttle import LoginThrottle
from quartzpy.dashboard.sessions import end_session, ended_sessions
from quartzpy.errors import SettingsError
from quartzpy.operations import Actor, Grant, Role

Authenticator: TypeAlias = Callable[[Request], Awaitable[Actor | None] | Actor | None]
"""A callable that returns who sends a request, or None to refuse it. It may be a coroutine function.

It may have a method `challenge(request)` that returns the response to a request that was refused, such as a redirection
to the application's own login page; without one, the response has status 401.
"""

SESSION_COOKIE = "quartzpy_session"
SESSION_LASTS = 12 * 3600
"""The time, in seconds, after which the login page asks for the token again."""
_MAX_SESSIONS = 10_000
SHORTEST_SECRET = 8
"""The least number of characters of a token or password."""


def allow_everyone(role: Role = Role.VIEWER) -> Authenticator:
    """Return an authenticator that admits every request as "anonymous" with this role.

    It is for applications whose own server, proxy or network decides who reaches the page.
    """
    actor = Actor("anonymous", role)
    return lambda request: actor


def token_auth(tokens: str | Mapping[str, Actor], role: Role = Role.ADMIN, grant: Grant | None = None) -> TokenAuth:
    """Return an authenticator by tokens: one token for everyone with this role and grant, or a mapping to actors.

    A program sends its token as `Authorization: Bearer TOKEN`; a person enters it on the login page, which sets a
    signed cookie for twelve hours. Logging out, or a change of the token, ends such a session. After ten
    different wrong tokens, an address has to wait.

    Raises:
        SettingsError: there is no token, or one is shorter than 8 characters.
    """
    return TokenAuth({tokens: Actor("token", role, grant)} if isinstance(tokens, str) else dict(tokens))


def basic_auth(
    users: Mapping[str, str], roles: Mapping[str, Role] | Role = Role.ADMIN, grants: Mapping[str, Grant] | None = None
) -> BasicAuth:
    """Return an authenticator by HTTP basic authentication, from passwords by user name.

    `roles` is the role of all users, or the role of each; users without one are viewers. `grants` says what users may
    define beyond their role. Use it over HTTPS only.

    Raises:
        SettingsError: there is no user, or a password is shorter than 8 characters.
    """
    role_of = {user: roles if isinstance(roles, Role) else roles.get(user, Role.VIEWER) for user in users}
    return BasicAuth(dict(users), {user: Actor(user, role_of[user], (grants or {}).get(user)) for user in users})


class TokenAuth:
    """Admits requests that carry one of several tokens, or the cookie of a session that began with one."""

    has_link: ClassVar[bool] = False
    """True if a link with the token logs in. It ends up in the histories of browsers, so it is for one machine."""

    def __init__(self, actors: Mapping[str, Actor]) -> None:
        _check_secrets("token", actors)
        self._actors = dict(actors)
        # Slow on purpose: whoever guesses at the tokens by way of a cookie's signature has to compute it for each.
        everything = "\0".join(sorted(actors)).encode()
        self._key = hashlib.scrypt(everything, salt=b"quartzpy dashboard session", n=2**14, r=8, p=1)
        self._identities = {self._identity(token): actor for token, actor in actors.items()}
        self._throttle = LoginThrottle()
        self._admitted: OrderedDict[str, None] = OrderedDict()

    def __call__(self, request: Request) -> Actor | None:
        address = cookies.address_of(request)
        wait = self._throttle.wait(address)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            if wait:
                request.state.retry_after = wait
                return None
            return self._actor_of(address, token.strip())
        cookie = cookies.read(request, SESSION_COOKIE)
        session = _Session.of(cookie)
        if session is None or session.expires < time.time():
            return None
        if wait and session.number not in self._admitted:
            # A session that was admitted before is none that somebody guesses now.
            request.state.retry_after = wait
            return None
        if not hmac.compare_digest(self._signature(session).encode(), session.signature.encode()):
            self._throttle.wrong(address, cookie)
            return None
        if ended_sessions(request).has_ended(session.number):
            return None
        self._admit(session.number)
        request.state.session = session.number
        return self._identities.get(session.identity)

    def challenge(self, request: Request) -> Response:
        """Send a person to the login page, and a program the status 401, or 429 after too many wrong tokens."""
        if (wait := getattr(request.state, "retry_after", 0)) > 0:
            return _too_many(wait)
        refused = PlainTextResponse("Send the header Authorization: Bearer TOKEN.", 401, {"WWW-Authenticate": "Bearer"})
        return way_to_login(request) or refused

    def wait(self, request: Request) -> float:
        """Return the seconds for which no token of this client is looked at, after too many wrong ones."""
        return self._throttle.wait(cookies.address_of(request))

    def log_in(self, form: Mapping[str, Any], address: str = "") -> str | None:
        """Return the value of the cookie of a new session if the form has a valid token."""
        token = form.get("token")
        if not isinstance(token, str) or self._actor_of(address, token.strip()) is None:
            return None
        expires = int(time.time()) + SESSION_LASTS
        session = _Session(expires, secrets.token_hex(16), self._identity(token.strip()))
        self._admit(session.number)
        return f"{session.signed}.{self._signature(session)}"

    def log_out(self, request: Request) -> None:
        """End the session of this request, for everybody who has its cookie."""
        if (number := end_session(request)) is not None:
            self._admitted.pop(number, None)

    def _admit(self, number: str) -> None:
        self._admitted[number] = None
        while len(self._admitted) > _MAX_SESSIONS:
            with contextlib.suppress(KeyError):
                self._admitted.popitem(last=False)

    def _actor_of(self, address: str, token: str) -> Actor | None:
        """Return the actor of a token, and count it as a right or a wrong one of this address."""
        owner = None
        # All tokens are compared, so that the time does not tell which one is near.
        for valid, actor in self._actors.items():
            if hmac.compare_digest(valid.encode(), token.encode()):
                owner = actor
        if owner is None:
            self._throttle.wrong(address, token)
        else:
            self._throttle.right(address)
        return owner

    def _identity(self, token: str) -> str:
        return hmac.new(self._key, token.encode(), hashlib.sha256).hexdigest()[:16]

    def _signature(self, session: _Session) -> str:
        return hmac.new(self._key, session.signed.encode(), hashlib.sha256).hexdigest()


class _Session(NamedTuple):
    """The parts of a cookie, which nobody has checked yet."""

    expires: int
    number: str
    identity: str
    signature: str = ""

    @classmethod
    def of(cls, cookie: str) -> _Session | None:
        expires, *rest = cookie.split(".")
        is_number = expires.isascii() and expires.isdigit() and len(expires) <= 12
        return cls(int(expires), *rest) if is_number and len(rest) == 3 else None

    @property
    def signed(self) -> str:
        return f"{self.expires}.{self.number}.{self.identity}"


class BasicAuth:
    """Admits requests by HTTP basic authentication."""

    def __init__(self, passwords: Mapping[str, str], actors: Mapping[str, Actor]) -> None:
        _check_secrets("password", passwords.values())
        self._passwords = dict(passwords)
        self._actors = dict(actors)
        self._throttle = LoginThrottle()

    def __call__(self, request: Request) -> Actor | None:
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        address = cookies.address_of(request)
        expected = self._passwords.get(user)
        # Whoever invents users is counted by the address alone.
        counted = "" if expected is None else user
        if (wait := self._throttle.wait(address, counted)) > 0:
            request.state.retry_after = wait
            return None
        # An unknown user costs the same comparison as a expected one.
        matches = hmac.compare_digest((expected or "").encode(), password.encode())
        if not colon or expected is None or not matches:
            self._throttle.wrong(address, f"{user}\0{password}", counted)
            return None
        self._throttle.right(address, user)
        return self._actors[user]

    def challenge(self, request: Request) -> Response:
        """Ask the browser for the name and the password, or say how long to wait after too many wrong ones."""
        if (wait := getattr(request.state, "retry_after", 0)) > 0:
            return _too_many(wait)
        realm = {"WWW-Authenticate": 'Basic realm="quartzpy", charset="UTF-8"'}
        return PlainTextResponse("This page needs a user name and a password.", 401, realm)


def way_to_login(request: Request) -> Response | None:
    """Return the redirection of a person to the login page, which leads back afterwards; None for a program."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return None
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{request.scope.get('root_path', '')}/login?{urlencode({'next': wanted})}", 303)


def _too_many(wait: float) -> Response:
    return PlainTextResponse(too_many_text(wait), 429, {"Retry-After": str(math.ceil(wait))})


def too_many_text(wait: float) -> str:
    return f"Too many wrong tokens or passwords came from this address. Try again in {math.ceil(wait)} seconds."


class LoopbackOnly:
    """Admits requests of programs and browsers on this machine: the default, for a page without authentication.

    The Host header has to name this machine too; else a web site could reach the page through a name of its own that
    leads to 127.0.0.1. Requests that a proxy forwarded are refused, because they may come from anywhere.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __call__(self, request: Request) -> Actor | None:
        return self._actor if is_of_this_machine(request) else None

    def challenge(self, request: Request) -> Response:
        """Say how to open the page to other machines."""
        sign = sign_of_a_proxy(request)
        reason = f"A proxy forwarded this request: it has {sign}.\n" if sign else ""
        text = (
            "This dashboard has no authentication, so it answers only requests from the machine that it runs on.\n"
            f"{reason}To open it to others, pass auth=token_auth(...), basic_auth(...) or a callable of your own to"
            " create_app, or start quartzpy dashboard with --token.\n"
        )
        return PlainTextResponse(text, 403)


class LocalToken(TokenAuth):
    """Lets whoever is on this machine read, and whoever has the token do what `actor` may.

    Any user and any program of a machine can send requests to it, so that is no reason to let them change anything.
    """

    has_link = True

    def __init__(self, token: str, actor: Actor) -> None:
        super().__init__({token: actor})
        self._readers = LoopbackOnly(Actor("anonymous", Role.VIEWER))

    def __call__(self, request: Request) -> Actor | None:
        reader = self._readers(request)
        if reader is None:
            # The login page, too, is for this machine alone.
            request.state.is_closed = True
            return None
        is_wrong = request.headers.get("authorization", "").lower().startswith("bearer ")
        return super().__call__(request) or (None if is_wrong else reader)

    def challenge(self, request: Request) -> Response:
        """Say how to open the page to other machines, or that the token is wrong."""
        if not is_of_this_machine(request):
            return self._readers.challenge(request)
        return super().challenge(request)


def is_of_this_machine(request: Request) -> bool:
    """Return whether a program or a browser of this machine sent a request, by a name of this machine."""
    host = host_of(request.scope) or ""
    return sign_of_a_proxy(request) is None and is_loopback(cookies.address_of(request)) and is_loopback(host)


_OF_PROXIES = frozenset(
    (
        *("forwarded", "forwarded-for", "x-forwarded", "via", "client-ip", "true-client-ip", "x-real-ip"),
        *("x-client-ip", "x-cluster-client-ip", "x-proxyuser-ip", "x-rewrite-url", "cdn-loop", "x-varnish"),
        *("x-cloud-trace-context", "proxy-client-ip", "wl-proxy-client-ip", "incap-client-ip", "x-sucuri-clientip"),
        *("ali-cdn-real-ip", "x-remote-ip", "x-remote-addr", "x-originating-ip", "x-host", "x-http-host-override"),
        *("x-arr-log-id", "x-arr-ssl", "x-request-start", "x-coming-from", "x-nginx-proxy"),
    )
)
_PREFIXES_OF_PROXIES = (
    *("x-forwarded-", "x-original-", "x-envoy-", "x-amzn-", "x-amz-cf-", "x-azure-", "x-appengine-", "x-goog-"),
    *("cf-", "cloudfront-", "fly-", "fastly-", "akamai-", "x-akamai-", "x-vercel-", "x-nf-", "x-traefik-", "x-proxy-"),
)


def sign_of_a_proxy(request: Request) -> str | None:
    """Return what tells that a proxy forwarded a request; None if nothing does."""
    for name in request.headers:
        if name in _OF_PROXIES or name.startswith(_PREFIXES_OF_PROXIES):
            return f"the header {name}"
    # nginx forwards so, without a header that tells it, unless it is configured. Browsers have not sent it for decades.
    return "the protocol HTTP/1.0" if request.scope.get("http_version") == "1.0" else None


def _check_secrets(name: str, values: Collection[str]) -> None:
    if not values:
        raise SettingsError(f"auth: there is no {name}")
    for secret in values:
        if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
            raise SettingsError(f"auth: a {name} must have at least {SHORTEST_SECRET} characters")
