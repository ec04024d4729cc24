"""The ASGI application."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from quartzpy.aio.async_scheduler import AsyncScheduler
from quartzpy.clock import SystemClock
from quartzpy.dashboard import error_pages, routes
from quartzpy.dashboard.actions.background import BackgroundActions
from quartzpy.dashboard.api.app import PREFIX, create_api
from quartzpy.dashboard.api.problems import problem_of
from quartzpy.dashboard.assets import serve_asset
from quartzpy.dashboard.auth import Authenticator, LoopbackOnly, TokenAuth
from quartzpy.dashboard.csrf import ForgedRequestError, check_csrf
from quartzpy.dashboard.headers import SecurityHeaders
from quartzpy.dashboard.links import ROOT
from quartzpy.dashboard.live import AUDIT, LiveHub
from quartzpy.dashboard.rendering import templates
from quartzpy.dashboard.request_limits import LOGIN, RequestLimits
from quartzpy.dashboard.routes.login import login_routes
from quartzpy.dashboard.sessions import EndedSessions
from quartzpy.dashboard.visit import Dashboard
from quartzpy.operations import Actor, Operations
from quartzpy.operations.actor import local_user
from quartzpy.operations.redaction import SECRETS
from quartzpy.scheduler.explain import API, PAGE
from quartzpy.scheduler.scheduler import BaseScheduler

OPEN_PATHS = (LOGIN, "/static/")
"""The paths that need no authentication."""


def create_app(
    scheduler: BaseScheduler | AsyncScheduler,
    *,
    auth: Authenticator | None = None,
    read_only: bool = True,
    redact: Sequence[str] = SECRETS,
    title: str = "quartzpy",
    behind_tls_proxy: bool = False,
) -> Starlette:
    """Return the web page of a scheduler as an ASGI application, to be served alone or mounted under any path.

    `scheduler` may be a node or a client that is not started, over either store; the application never starts it or
    shuts it down. `auth` is a callable that returns the `Actor` of a request, or None to refuse it: the caller's own,
    `token_auth(...)`, `basic_auth(...)`, or `allow_everyone(role)` where something in front decides. Without `auth`,
    only requests from this machine are answered. With `read_only`, nothing can be changed, whatever the role is.
    `redact` are patterns of the keys of job data whose values are not shown. `title` names the page in the browser.
    `behind_tls_proxy` says that browsers reach it over HTTPS although this process sees none of it, so that its cookies
    are `Secure`; it is not needed where the server knows, as uvicorn does with `--forwarded-allow-ips`.
    """
    blocking = scheduler.blocking if isinstance(scheduler, AsyncScheduler) else scheduler
    authenticator = auth or LoopbackOnly(local_user())
    hub = LiveHub(blocking)
    background = BackgroundActions(lambda: hub.changed(AUDIT))
    operations = Operations(blocking, redact=tuple(redact), read_only=read_only, advice=PAGE)
    dashboard = Dashboard(
        operations=operations,
        templates=templates(),
        clock=SystemClock(),
        title=title,
        read_only=read_only,
        can_log_out=isinstance(authenticator, TokenAuth),
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        hub.close()
        await run_in_threadpool(background.close)

    app = Starlette(
        routes=_routes(authenticator, operations, background),
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(RequestLimits),
            Middleware(_Authenticated, authenticator, behind_tls_proxy),
        ],
        exception_handlers=error_pages.HANDLERS,
        lifespan=lifespan,
    )
    app.state.dashboard = dashboard
    app.state.hub = hub
    app.state.ended_sessions = EndedSessions(blocking)
    app.state.background = background
    return app


def _routes(authenticator: Authenticator, operations: Operations, background: BackgroundActions) -> list[BaseRoute]:
    api = create_api(
        operations.advising(API),
        background,
        actor_of=lambda request: request.state.actor,
        check_request=lambda request: check_csrf(request, None),
        refused=ForgedRequestError,
    )
    static = Route("/static/{digest}/{name:path}", serve_asset, name="asset")
    logins = login_routes(authenticator) if isinstance(authenticator, TokenAuth) else []
    return [static, *logins, Mount(PREFIX, app=api), *routes.all_routes()]


class _Authenticated:
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
        if actor is None and not path.startswith(OPEN_PATHS):
            refusal = self._refusal(request)
            if path.startswith(PREFIX):
                refusal = problem_of(refusal)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _actor(self, request: Request) -> Actor | None:
        if self._is_async:
            found = self._authenticator(request)
        else:
            # A callable of the user's may read a database.
            found = await run_in_threadpool(self._authenticator, request)
        return await found if inspect.isawaitable(found) else found

    def _refusal(self, request: Request) -> Response:
        challenge = getattr(self._authenticator, "challenge", None)
        if challenge is not None:
            response: Response = challenge(request)
            return response
        return PlainTextResponse("You are not logged in.", 401)
