"""The login page of authentication by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard import cookies
from quartzpy.dashboard.auth import SESSION_COOKIE, SESSION_LASTS, TokenAuth, too_many_text
from quartzpy.dashboard.cookies import checked_form, csrf_token, keep_csrf_token
from quartzpy.dashboard.links import ROOT, Links
from quartzpy.dashboard.middleware import LOGIN
from quartzpy.dashboard.rendering import render
from quartzpy.dashboard.request_context import THEME_COOKIE, Dashboard


def login_routes(auth: TokenAuth) -> list[BaseRoute]:
    """Return the routes of the login page and of logging out."""

    def show(request: Request) -> Response:
        token = request.query_params.get("token") if auth.has_link else None
        # Another site may lead here, and must not choose the session.
        if token is None or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _form(request, "")
        return _entered(request, {"token": token})

    def _entered(request: Request, form: Mapping[str, Any]) -> Response:
        if (wait := auth.wait(request)) > 0:
            refused = _form(request, too_many_text(wait), 429)
            refused.headers["Retry-After"] = str(math.ceil(wait))
            return refused
        session = auth.log_in(form, cookies.address_of(request))
        if session is None:
            return _form(request, "This token is not known here.", 403)
        response = RedirectResponse(target_of(str(request.scope[ROOT]), form.get("next")), 303)
        cookies.keep(request, response, SESSION_COOKIE, session, SESSION_LASTS)
        return response

    async def log_in(request: Request) -> Response:
        return _entered(request, await checked_form(request))

    async def log_out(request: Request) -> Response:
        return await logged_out(request, SESSION_COOKIE, LOGIN, auth.log_out)

    return [
        Route(LOGIN, show, methods=["GET"]),
        Route(LOGIN, log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


async def logged_out(request: Request, cookie: str, path: str, end: Callable[[Request], object]) -> Response:
    """Return the answer to the form that logs out: the cookie is deleted, and the browser led to a path of the page."""
    await checked_form(request)
    response = RedirectResponse(f"{request.scope[ROOT]}{path}", 303)
    cookies.forget(request, response, cookie)
    # It writes to the audit log.
    await run_in_threadpool(end, request)
    return response


def _form(request: Request, error: str, status: int = 200) -> Response:
    dashboard: Dashboard = request.app.state.dashboard
    text = render(
        "login.html",
        links=Links(str(request.scope[ROOT])),
        title=dashboard.title,
        theme=request.cookies.get(THEME_COOKIE, "auto"),
        csrf_token=csrf_token(request),
        next=request.query_params.get("next", ""),
        error=error,
    )
    response = HTMLResponse(text, status)
    keep_csrf_token(request, response)
    return response


def target_of(root: str, wanted: object) -> str:
    """Return the page to go to after the login: the one that was asked for, never one of another site."""
    is_ours = isinstance(wanted, str) and wanted.startswith(f"{root}/") and not wanted.startswith("//")
    return str(wanted) if is_ours and "\\" not in str(wanted) else f"{root}/"
