"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route

from quartzpy.aio.async_scheduler import AsyncScheduler
from quartzpy.clock import SystemClock
from quartzpy.dashboard import error_pages
from quartzpy.dashboard.actions import ACTION_PAGES
from quartzpy.dashboard.api.app import PREFIX, create_api
from quartzpy.dashboard.assets import serve_asset
from quartzpy.dashboard.auth import Authenticator, LoopbackOnly, TokenAuth
from quartzpy.dashboard.background import BackgroundActions
from quartzpy.dashboard.cookies import ForgedRequestError, check_csrf
from quartzpy.dashboard.hosts import KnownHost
from quartzpy.dashboard.live import AUDIT, LiveHub, serve_stream
from quartzpy.dashboard.login import login_routes
from quartzpy.dashboard.middleware import Authentication, RequestLimits, SecurityHeaders
from quartzpy.dashboard.pages import PAGES, fleet_pages, menu_of
from quartzpy.dashboard.request_context import Dashboard
from quartzpy.dashboard.sessions import EndedSessions
from quartzpy.errors import SettingsError
from quartzpy.operations import Operations
from quartzpy.operations.actions.action import local_user
from quartzpy.operations.fleet import Fleet
from quartzpy.scheduler.explain import API, PAGE
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.secret_texts import SECRETS


def create_app(
    scheduler: BaseScheduler | AsyncScheduler,
    *,
    auth: Authenticator | None = None,
    read_only: bool = True,
    redact: Sequence[str] = SECRETS,
    title: str = "quartzpy",
    behind_tls_proxy: bool = False,
    fleet: Fleet | None = None,
) -> Starlette:
    """Return the web page of a scheduler as an ASGI application, to be served alone or mounted under any path.

    `scheduler` may be a node or a client that is not started, over either store; the application never starts it or
    shuts it down. `auth` is a callable that returns the `Actor` of a request, or None to refuse it: the caller's own,
    `token_auth(...)`, `basic_auth(...)`, or `allow_everyone(role)` where something in front decides. Without `auth`,
    only requests from this machine are answered, and nothing can be changed: on a machine with several users, anybody
    sends those. With `read_only`, nothing can be changed, whatever the role is.
    `redact` are patterns of the keys of job data whose values are not shown. `title` names the page in the browser.
    `behind_tls_proxy` says that browsers reach it over HTTPS although this process sees none of it, so that its cookies
    are `Secure`; it is not needed where the server knows, as uvicorn does with `--forwarded-allow-ips`. `fleet` adds
    the pages of several schedulers, which every reader of this one then sees.

    Raises:
        SettingsError: `read_only` is False, and there is no `auth`.
    """
    if auth is None and not read_only:
        raise SettingsError(
            "create_app(read_only=False): without auth, every user and program of this machine could define and run"
            " jobs; pass auth=token_auth(...), basic_auth(...) or a callable of your own, or"
            " auth=allow_everyone(Role.ADMIN) if something in front decides who reaches the page"
        )
    blocking = scheduler.blocking if isinstance(scheduler, AsyncScheduler) else scheduler
    authenticator = auth or LoopbackOnly(local_user())
    hub = LiveHub(blocking)
    background = BackgroundActions(lambda: hub.changed(AUDIT))
    operations = Operations(blocking, redact=tuple(redact), read_only=read_only, advice=PAGE)
    pages, logins = [*PAGES, *fleet_pages(fleet)], _logins(authenticator)
    dashboard = Dashboard(
        operations=operations,
        clock=SystemClock(),
        title=title,
        menu=menu_of(pages),
        read_only=read_only,
        can_log_out=bool(logins),
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        hub.close()
        await run_in_threadpool(background.close)
        if fleet is not None:
            await run_in_threadpool(fleet.close)

    app = Starlette(
        routes=_routes(operations, background, fleet, logins, [entry.route for entry in pages]),
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(KnownHost),
            Middleware(RequestLimits),
            Middleware(Authentication, authenticator, behind_tls_proxy),
        ],
        exception_handlers=error_pages.HANDLERS,
        lifespan=lifespan,
    )
    app.state.dashboard = dashboard
    app.state.hub = hub
    app.state.ended_sessions = EndedSessions(blocking)
    app.state.background = background
    return app


def _routes(
    operations: Operations,
    background: BackgroundActions,
    fleet: Fleet | None,
    logins: Sequence[BaseRoute],
    pages: Sequence[BaseRoute],
) -> list[BaseRoute]:
    api = create_api(
        operations.advising(API),
        background,
        actor_of=lambda request: request.state.actor,
        check_request=lambda request: check_csrf(request, None),
        refused=ForgedRequestError,
        fleet=fleet,
    )
    static = Route("/static/{digest}/{name:path}", serve_asset, name="asset")
    return [static, *logins, Mount(PREFIX, app=api), *pages, *ACTION_PAGES, Route("/live", serve_stream)]


def _logins(authenticator: Authenticator) -> list[BaseRoute]:
    """Return the routes by which people log in and out."""
    if isinstance(authenticator, TokenAuth):
        return login_routes(authenticator)
    routes: Callable[[], list[BaseRoute]] | None = getattr(authenticator, "routes", None)
    return [] if routes is None else routes()
