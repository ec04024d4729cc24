"""What stands in front of the pages and the API: security headers, limits of bodies, and authentication."""

from __future__ import annotations

import asyncio
import inspect
import time

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quartzpy.dashboard.api.app import PREFIX
from quartzpy.dashboard.api.responses import problem_of
from quartzpy.dashboard.auth import Authenticator
from quartzpy.dashboard.links import ROOT
from quartzpy.operations import Actor

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""Only the application's own files: no inline scripts or styles, nothing from elsewhere, no frames."""

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware that adds the security headers, and forbids caches to keep pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


MAX_BYTES = 2_000_000
"""The largest body of a request, in bytes."""
MAX_BYTES_OF_LOGIN = 65_536
"""The largest body, in bytes, of a request for the login page, which anybody may send."""
BODY_TIMEOUT = 30.0
"""The time, in seconds, in which the whole body of a request has to arrive."""
LOGIN = "/login"
OPEN_PATHS = (LOGIN, "/static/")
"""The paths that need no authentication."""


class RequestLimits:
    """ASGI middleware that refuses bodies which are too large, or take too long.

    A body is refused by its announced length before any of it is read, and counted while it is read, because a body in
    chunks announces none.
    """

    def __init__(self, app: ASGIApp, body_timeout: float = BODY_TIMEOUT) -> None:
        self._app = app
        self._body_timeout = body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        body = _Body(receive, MAX_BYTES_OF_LOGIN if path.startswith(LOGIN) else MAX_BYTES, self._body_timeout)
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start" and body.is_refused and scope["http_version"] < "2":
                # What is left of the body is not read, so the connection can carry no other request.
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            body.check_announced(scope)
            await self._app(scope, body.receive, watched_send)
        except HTTPException as error:
            # Raised outside the application, which answers the others.
            if has_begun or not body.is_refused:
                raise
            await PlainTextResponse(f"{error.detail}\n", error.status_code)(scope, receive, watched_send)


class _Body:
    def __init__(self, receive: Receive, most: int, timeout: float) -> None:
        self._receive = receive
        self._most = most
        self._timeout = timeout
        self._deadline: float | None = None
        self._count = 0
        self._is_complete = False
        self.is_refused = False

    def check_announced(self, scope: Scope) -> None:
        """Raises HTTPException: the length that the request announces is above the limit."""
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and (len(value) > 15 or int(value) > self._most):
                announced = f"{int(value):,}" if len(value) <= 15 else "more"
                raise self._refusal(413, f"the body must have at most {self._most:,} bytes (got {announced})")

    async def receive(self) -> Message:
        if self._is_complete:
            # Now it waits for the end of the connection, which has no limit.
            return await self._receive()
        if self.is_refused:
            return {"type": "http.disconnect"}
        now = time.monotonic()
        self._deadline = self._deadline or now + self._timeout
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._deadline - now))
        except TimeoutError:
            raise self._refusal(408, f"the body did not arrive within {self._timeout:g} seconds") from None
        if message["type"] == "http.request":
            self._count += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._count > self._most:
                raise self._refusal(413, f"the body must have at most {self._most:,} bytes")
        return message

    def _refusal(self, status: int, detail: str) -> HTTPException:
        self.is_refused = True
        return HTTPException(status, detail)


class Authentication:
    """ASGI middleware that finds out who sends a request, and refuses those of nobody."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, behind_tls_proxy: bool) -> None:
        self._app = app
        self._behind_tls_proxy = behind_tls_proxy
        self._authenticator = authenticator
        call = authenticator if inspect.isroutine(authenticator) else type(authenticator).__call__
        self._is_async = inspect.iscoroutinefunction(call)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ROOT] = scope.get("root_path", "")
        if self._behind_tls_proxy:
            scope["scheme"] = "https"
        request = Request(scope, receive)
        actor = await self._actor(request)
        request.state.actor = actor
        path = scope["path"].removeprefix(scope[ROOT])
        is_open = path.startswith(OPEN_PATHS) and not getattr(request.state, "is_closed", False)
        if actor is None and not is_open:
            refusal = self._refusal(request)
            if path.startswith(PREFIX):
                refusal = problem_of(refusal)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _actor(self, request: Request) -> Actor | None:
        if self._is_async:
            actor = self._authenticator(request)
        else:
            # A callable of the user's may read a database.
            actor = await run_in_threadpool(self._authenticator, request)
        return await actor if inspect.isawaitable(actor) else actor

    def _refusal(self, request: Request) -> Response:
        challenge = getattr(self._authenticator, "challenge", None)
        if challenge is not None:
            response: Response = challenge(request)
            return response
        return PlainTextResponse("You are not logged in.", 401)
