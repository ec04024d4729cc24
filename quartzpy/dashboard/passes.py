"""Signed passes: the cookie of a session, and the token of a machine, say who it is, in which role, and until when.

Every process with the same secret knows them, so they need no table. Their ends are in the audit log; see `sessions`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from quartzpy.dashboard import cookies
from quartzpy.dashboard.sessions import ended_sessions
from quartzpy.errors import SettingsError
from quartzpy.keys import check_name
from quartzpy.operations import Actor, Grant, Role

SHORTEST_SECRET = 32
"""The least number of characters of the secret that signs passes. Nobody may guess it from a pass."""
PASS_COOKIE = "quartzpy_pass"
SESSION_LASTS = timedelta(hours=12)
LONGEST_TOKEN = timedelta(days=366)
_MAX_CHARACTERS = 2_000


class PassKind(StrEnum):
    """Where a pass is accepted: the one of a browser is of no use in a header, and the reverse."""

    SESSION = "session"
    TOKEN = "token"


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass says."""

    name: str
    role: Role
    kind: PassKind
    expires: int
    """Seconds since 1970."""
    number: str
    """What its end is recorded by."""


class PassSigner:
    """Issues passes, and reads those that this secret has signed."""

    def __init__(self, secret: str, now: Callable[[], float] = time.time) -> None:
        if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
            raise SettingsError(
                f"the secret of the dashboard must have at least {SHORTEST_SECRET} characters; make one by"
                " python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        self._key = hmac.new(b"quartzpy dashboard pass", secret.encode(), hashlib.sha256).digest()
        self._now = now

    def issue(self, name: str, role: Role, kind: PassKind, lasts: timedelta) -> tuple[str, Pass]:
        """Return a new pass and what it says.

        Raises:
            InvalidKeyError: the audit log, which records who acts, cannot have this name.
        """
        check_name(name, "the name of who signs in")
        made = Pass(name, role, kind, int(self._now() + lasts.total_seconds()), secrets.token_hex(16))
        body = _encoded(json.dumps(asdict(made), separators=(",", ":")).encode())
        return f"{body}.{self._signature(body)}", made

    def read(self, text: str, kind: PassKind) -> Pass | None:
        """Return what a pass of this kind says; None if this secret has not signed it, or it has expired."""
        body, dot, signature = text.partition(".")
        if not dot or len(text) > _MAX_CHARACTERS or not text.isascii():
            return None
        if not hmac.compare_digest(self._signature(body), signature):
            return None
        try:
            values = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            said = Pass(**{**values, "role": Role(values["role"]), "kind": PassKind(values["kind"])})
        except (ValueError, TypeError, KeyError, binascii.Error):
            # Signed by another release.
            return None
        return said if said.kind is kind and said.expires > self._now() else None

    def _signature(self, body: str) -> str:
        return _encoded(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class PassAuth:
    """Admits requests with the token of a machine, `Authorization: Bearer TOKEN`, or with the cookie of a session.

    `grants` says what actors, by their names, may define beyond their role.

    Raises:
        SettingsError: the secret is too short.
    """

    def __init__(self, secret: str, grants: Mapping[str, Grant] | None = None) -> None:
        self.passes = PassSigner(secret)
        self._grants = dict(grants or {})

    def __call__(self, request: Request) -> Actor | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            said = self.passes.read(token.strip(), PassKind.TOKEN) if scheme.lower() == "bearer" else None
        else:
            said = self.passes.read(cookies.read(request, PASS_COOKIE), PassKind.SESSION)
        if said is None or ended_sessions(request).has_ended(said.number):
            return None
        request.state.session = said.number
        return self.actor(said.name, said.role)

    def actor(self, name: str, role: Role) -> Actor:
        """Return the actor with what it may define."""
        return Actor(name, role, self._grants.get(name))

    def challenge(self, request: Request) -> Response:
        """Say how a program is admitted."""
        return PlainTextResponse("Send the header Authorization: Bearer TOKEN.\n", 401, {"WWW-Authenticate": "Bearer"})


def role_of(names: object, roles: Mapping[str, Role]) -> Role | None:
    """Return the highest role that one of these groups has; "*" is everybody. None if no group has one."""
    groups = {"*", *(name for name in names if isinstance(name, str))} if isinstance(names, list | tuple) else {"*"}
    granted = [role for name, role in roles.items() if name in groups]
    return max(granted, key=list(Role).index, default=None)


def checked_roles(roles: Mapping[str, Role | str]) -> dict[str, Role]:
    """Return the roles of groups.

    Raises:
        SettingsError: there is none, or one is not a role.
    """
    if not isinstance(roles, Mapping) or not roles:
        raise SettingsError('roles: at least one group needs a role, as in {"ops": "operator", "*": "viewer"}')
    try:
        return {str(name): Role(role) for name, role in roles.items()}
    except ValueError:
        raise SettingsError(f"roles: must be {', '.join(Role)} (got {', '.join(map(str, roles.values()))})") from None
