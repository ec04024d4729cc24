"""Sign-in at a provider of OpenID Connect: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).

It needs the extra `oidc`. Authlib and joserfc check signatures and claims.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard import cookies
from quartzpy.dashboard.auth import way_to_login
from quartzpy.dashboard.hosts import is_loopback
from quartzpy.dashboard.links import ROOT, Links
from quartzpy.dashboard.login import logged_out, target_of
from quartzpy.dashboard.middleware import LOGIN
from quartzpy.dashboard.passes import PASS_COOKIE, SESSION_LASTS, PassAuth, PassKind, checked_roles, role_of
from quartzpy.dashboard.rendering import render
from quartzpy.dashboard.request_context import THEME_COOKIE, Dashboard
from quartzpy.dashboard.sessions import end_session
from quartzpy.errors import SettingsError
from quartzpy.keys import MAX_NAME_LENGTH
from quartzpy.operations import Grant, Role
from quartzpy.texts import quoted, reason, visible

CALLBACK = f"{LOGIN}/callback"
_DISCOVERY = "/.well-known/openid-configuration"
_FLOW_COOKIE = "quartzpy_login"
_FLOW_LASTS = 600
PROVIDER_TIMEOUT = 5.0
"""The longest wait for an answer of the provider, in seconds."""
_KEPT_FOR = 3600.0
_LEEWAY = 60
"""The accepted difference between the clocks of the provider and of this machine, in seconds."""
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""The accepted signatures. Those by a shared secret are not among them, nor is "none"."""
_MAX_ANSWER = 1_000_000


class _RefusedError(Exception):
    """The provider, or what came from it, is not accepted. The message is for the person who signs in."""

    def __init__(self, text: str, status: int = 403) -> None:
        super().__init__(text)
        self.status = status


class OidcAuth(PassAuth):
    """Sends people to a provider to sign in, and gives them the role of their groups.

    `issuer` is the URL of the provider, without /.well-known. `roles` maps the groups in `role_claim` to roles, where
    "*" is everybody who can sign in; the highest counts. `role_claim` and `name_claim` may lead into tables:
    "realm_access.roles". A session lasts for `session`; its role is that at the time of the sign-in. `secret`, by
    default the client's secret, signs sessions and the tokens of machines. `redirect_uri` is needed if the page does
    not see the address by which browsers reach it.

    Raises:
        SettingsError: a value is wrong.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str,
        roles: Mapping[str, Role | str],
        *,
        role_claim: str = "groups",
        name_claim: str = "preferred_username",
        scope: str = "openid profile email",
        session: timedelta = SESSION_LASTS,
        secret: str | None = None,
        redirect_uri: str | None = None,
        grants: Mapping[str, Grant] | None = None,
    ) -> None:
        super().__init__(secret or f"oidc client secret of {issuer} {client_secret}", grants)
        if not client_id or not client_secret:
            raise SettingsError("oidc: the client's id and its secret are needed")
        self._issuer = _checked_url(issuer, "issuer").removesuffix(_DISCOVERY)
        self._client_id, self._client_secret = client_id, client_secret
        self._roles = checked_roles(roles)
        self._role_claim, self._name_claim = role_claim, name_claim
        self._scope = scope if "openid" in scope.split() else f"openid {scope}"
        self._session = session
        self._redirect_uri = redirect_uri
        self._metadata: dict[str, Any] = {}
        self._keys = KeySet([])
        self._metadata_until = self._keys_until = 0.0

    def challenge(self, request: Request) -> Response:
        """Send a person to the sign-in, and a program the status 401."""
        return way_to_login(request) or super().challenge(request)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the sign-in and of logging out."""
        return [
            Route(LOGIN, self._sign_in, methods=["GET"]),
            Route(CALLBACK, self._return, methods=["GET"]),
            Route("/logout", self._sign_out, methods=["POST"]),
        ]

    async def _sign_in(self, request: Request) -> Response:
        if "signed_out" in request.query_params:
            return _page(request, "You are logged out here. Your session at the provider goes on.", 200)
        try:
            endpoint = (await self._provider())["authorization_endpoint"]
        except _RefusedError as refused:
            return _page(request, str(refused), refused.status)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        async with self._client(request) as client:
            url, _ = client.create_authorization_url(endpoint, state=state, nonce=nonce, code_verifier=verifier)
        response = RedirectResponse(url, 303)
        wanted = request.query_params.get("next", "")[:1_000]
        flow = ".".join((state, nonce, verifier, quote(wanted)))
        cookies.keep(request, response, _FLOW_COOKIE, flow, _FLOW_LASTS)
        return response

    async def _return(self, request: Request) -> Response:
        try:
            name, role, wanted = await self._returned(request)
        except _RefusedError as refused:
            response = _page(request, str(refused), refused.status)
        else:
            cookie, _ = self.passes.issue(name, role, PassKind.SESSION, self._session)
            response = RedirectResponse(target_of(str(request.scope[ROOT]), wanted), 303)
            cookies.keep(request, response, PASS_COOKIE, cookie, int(self._session.total_seconds()))
        cookies.forget(request, response, _FLOW_COOKIE)
        return response

    async def _sign_out(self, request: Request) -> Response:
        return await logged_out(request, PASS_COOKIE, f"{LOGIN}?signed_out=", end_session)

    # --- what the provider says

    async def _returned(self, request: Request) -> tuple[str, Role, str]:
        """Return who has signed in, in which role, and the page that was wanted."""
        state, nonce, verifier, wanted = (*cookies.read(request, _FLOW_COOKIE).split(".", 3), *4 * ("",))[:4]
        parameters = request.query_params
        if not state or not secrets.compare_digest(state.encode(), parameters.get("state", "").encode()):
            raise _RefusedError("This sign-in was not begun in this browser, or it took longer than ten minutes.")
        # RFC 9207: an answer of another provider.
        if parameters.get("iss", self._issuer) != self._issuer:
            raise _RefusedError("The answer comes from another provider.")
        if "error" in parameters or not parameters.get("code"):
            said = quoted(parameters.get("error_description") or parameters.get("error", "no code"))
            raise _RefusedError(f"The provider has not signed you in: {said}.")
        provider = await self._provider()
        try:
            async with self._client(request) as client:
                token = await client.fetch_token(
                    provider["token_endpoint"], code=parameters["code"], code_verifier=verifier
                )
        except httpx.HTTPError as error:
            raise _RefusedError(f"The provider does not answer: {_reason(error)}.", 502) from error
        except Exception as error:
            # The errors of the protocol have no common class.
            raise _RefusedError(f"The provider has refused the code: {reason(error)}.") from error
        claims = await self._claims(token, nonce)
        if _claim(claims, self._role_claim) is None and "userinfo_endpoint" in provider:
            claims |= await self._userinfo(provider["userinfo_endpoint"], token, claims["sub"])
        name = _claim(claims, self._name_claim) or claims.get("email") or claims["sub"]
        role = role_of(_listed(_claim(claims, self._role_claim)), self._roles)
        if role is None:
            raise _RefusedError(f"You are signed in as {name}, but none of your groups has a role here.")
        # The audit log has no control characters.
        return visible(str(name))[:MAX_NAME_LENGTH], role, unquote(wanted)

    async def _claims(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """Return the checked claims of the ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""
        text = token.get("id_token")
        if not isinstance(text, str):
            raise _RefusedError("The provider has sent no ID token; is `openid` in the scope?")
        try:
            try:
                decoded = jwt.decode(text, await self._signing_keys(), algorithms=ALGORITHMS)
            except (JoseError, ValueError):
                # The provider may have new keys.
                decoded = jwt.decode(text, await self._signing_keys(renew=True), algorithms=ALGORITHMS)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": self._issuer},
                    "aud": {"essential": True, "value": self._client_id},
                },
                {"nonce": nonce, "client_id": self._client_id, "access_token": token.get("access_token")},
            )
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, TypeError) as error:
            raise _RefusedError(f"The ID token of the provider is not accepted: {reason(error)}.") from error
        return dict(claims)

    async def _userinfo(self, endpoint: str, token: Mapping[str, Any], subject: str) -> dict[str, Any]:
        answered = await _read(endpoint, {"Authorization": f"Bearer {token.get('access_token')}"})
        # Section 5.3.2: another subject's claims must not be used.
        if answered.get("sub") != subject:
            raise _RefusedError("The provider has described somebody else.")
        return answered

    async def _provider(self) -> dict[str, Any]:
        """Return the provider's metadata (OpenID Connect Discovery 1.0)."""
        if time.monotonic() >= self._metadata_until:
            answered = await _read(f"{self._issuer.rstrip('/')}{_DISCOVERY}")
            if answered.get("issuer") != self._issuer:
                raise _RefusedError(
                    f"The provider calls itself {quoted(answered.get('issuer'))}, not {quoted(self._issuer)}.", 502
                )
            try:
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    _checked_url(answered.get(name), name)
            except SettingsError as error:
                raise _RefusedError(f"The provider's description is not accepted: {error}.", 502) from error
            self._metadata, self._metadata_until = answered, time.monotonic() + _KEPT_FOR
        return self._metadata

    async def _signing_keys(self, *, renew: bool = False) -> KeySet:
        now = time.monotonic()
        # Tokens with unknown keys, which anybody can make up, must not make us ask for each.
        if now >= self._keys_until or (renew and now >= self._keys_until - _KEPT_FOR + 10):
            answered = await _read((await self._provider())["jwks_uri"])
            self._keys = KeySet(list(_readable(answered)))
            if not self._keys:
                raise _RefusedError("The provider has no key that can be read.", 502)
            self._keys_until = now + _KEPT_FOR
        return self._keys

    def _client(self, request: Request) -> AsyncOAuth2Client:
        return AsyncOAuth2Client(
            self._client_id,
            self._client_secret,
            scope=self._scope,
            redirect_uri=self._redirect_uri
            or f"{request.base_url.scheme}://{request.base_url.netloc}{request.scope[ROOT]}{CALLBACK}",
            code_challenge_method="S256",
            timeout=PROVIDER_TIMEOUT,
        )


async def _read(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at a URL of the provider."""
    try:
        async with httpx.AsyncClient(timeout=PROVIDER_TIMEOUT) as client:
            response = await client.get(url, headers=dict(headers or {}))
            response.raise_for_status()
            answered = response.json() if len(response.content) <= _MAX_ANSWER else None
    except (httpx.HTTPError, ValueError) as error:
        raise _RefusedError(f"The provider does not answer: {_reason(error)}.", 502) from error
    if not isinstance(answered, dict):
        raise _RefusedError(f"The provider's answer at {url} is no JSON object.", 502)
    return answered


def _readable(answered: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the keys of a set. Those of kinds that are not known here are for others (RFC 7517, section 5)."""
    listed = answered.get("keys")
    for key in listed if isinstance(listed, list) else ():
        with contextlib.suppress(JoseError, ValueError, TypeError, KeyError):
            yield JWKRegistry.import_key(key)


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    return reason(error)


def _checked_url(url: object, name: str) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or not parts.hostname or parts.scheme not in ("https", "http"):
        raise SettingsError(f"oidc: {name} must be a URL such as https://login.example.com (got {quoted(url)})")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise SettingsError(f"oidc: {name} must be https, because secrets go there (got {quoted(url)})")
    return str(url)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim; names with dots lead into tables, unless a claim has the whole name."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _listed(value: object) -> object:
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _page(request: Request, text: str, status: int) -> Response:
    dashboard: Dashboard = request.app.state.dashboard
    page = render(
        "signed_out.html",
        links=Links(str(request.scope[ROOT])),
        title=dashboard.title,
        theme=request.cookies.get(THEME_COOKIE, "auto"),
        text=text,
    )
    return HTMLResponse(page, status)
