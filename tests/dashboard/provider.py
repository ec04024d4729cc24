"""A provider of OpenID Connect that can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import uvicorn
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from quartzpy.dashboard.server import listen

CLIENT, SECRET = "quartzpy", "the-secret-of-the-client"
KEY, OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one"}), RSAKey.generate_key(2048, {"kid": "one"})


@dataclass
class Provider:
    """What the provider says of itself and of the user. A test changes it before the sign-in."""

    url: str
    user: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "preferred_username": "ada", "groups": ["ops"]})
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims of the ID token in place of the right ones; None removes one."""
    key: Any = field(default_factory=lambda: KEY)
    algorithm: str = "RS256"
    metadata: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)
    """Parameters of the answer to the browser."""
    userinfo: dict[str, Any] | None = None
    further_keys: list[Any] = field(default_factory=list)
    hangs: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def _metadata(self, request: Request) -> Response:
        self.asked.append("metadata")
        if self.hangs:
            await anyio.sleep(60)
        endpoints = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        if self.userinfo is not None:
            endpoints["userinfo_endpoint"] = f"{self.url}/userinfo"
        return JSONResponse(endpoints | self.metadata)

    def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        given = {"code": code, "state": asked["state"]} | self.answer
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(given)}", 303)

    async def _token(self, request: Request) -> Response:
        form = {name: value[0] for name, value in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        is_client = request.headers.get("authorization") == f"Basic {basic}"
        if asked is None or asked["code_challenge"] != challenge or not is_client:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.user}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        header = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm == "none":
            parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims))
            text = f"{b'.'.join(parts).decode()}."
        else:
            text = jwt.encode(header, claims, self.key, algorithms=[self.algorithm])
        return JSONResponse({"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": text})

    def _keys(self, request: Request) -> Response:
        self.asked.append("keys")
        return JSONResponse({"keys": [*self.further_keys, KEY.as_dict(private=False)]})

    def _userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer access"
        return JSONResponse(self.userinfo)


SHARED_KEY = OctKey.import_key(SECRET.ljust(32, "x"))


@contextmanager
def running_provider() -> Iterator[Provider]:
    with listen("127.0.0.1", 0) as socket:
        provider = Provider(f"http://127.0.0.1:{socket.getsockname()[1]}")
        routes = [
            Route("/.well-known/openid-configuration", provider._metadata),
            Route("/authorize", provider._authorize),
            Route("/token", provider._token, methods=["POST"]),
            Route("/keys", provider._keys),
            Route("/userinfo", provider._userinfo),
        ]
        server = uvicorn.Server(
            uvicorn.Config(Starlette(routes=routes), log_level="warning", timeout_graceful_shutdown=0)
        )
        thread = threading.Thread(target=server.run, args=([socket],))
        thread.start()
        try:
            yield provider
        finally:
            server.should_exit = True
            thread.join()


def path_of(url: str) -> str:
    """The path and the query of a URL."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
