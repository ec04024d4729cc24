"""One request of a reader: who asks, what they may do, in which zone they read, and the page that answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from quartzpy.clock import Clock
from quartzpy.dashboard.csrf import FIELD, check_csrf, csrf_token, keep_csrf_token
from quartzpy.dashboard.links import ROOT, Links
from quartzpy.dashboard.rendering import Templates
from quartzpy.dashboard.times import ZONE_COOKIE, Times, is_zone, times_of
from quartzpy.errors import QuartzpyError
from quartzpy.operations import Actor, Operations

THEME_COOKIE = "quartzpy_theme"
THEMES = ("auto", "light", "dark")
NOTICE_COOKIE = "quartzpy_notice"
"""The text that the next page shows once, after an action."""
DIALOG = "X-Dialog"
_YEAR = 365 * 86_400
_LONGEST_NOTICE = 1_000


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all requests of one application share."""

    operations: Operations
    """The operations, not yet acting as anyone."""
    templates: Templates
    clock: Clock
    title: str
    read_only: bool
    can_log_out: bool


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, with what its page needs."""

    dashboard: Dashboard
    request: Request
    actor: Actor
    operations: Operations
    """The operations, acting as the actor of this request."""
    links: Links
    times: Times

    def may(self, action: str) -> bool:
        """Return whether the actor may do this action of `Operations.actions` here."""
        return self.operations.actions.permits(action)

    @property
    def csrf_token(self) -> str:
        """The token that each form repeats."""
        return csrf_token(self.request)

    @property
    def is_fragment(self) -> bool:
        """True if the script of an open page asks, which needs the content without the frame around it."""
        return "HX-Request" in self.request.headers

    @property
    def is_dialog(self) -> bool:
        """True if the script of an open page asks for the content of a dialog."""
        return DIALOG in self.request.headers

    @property
    def theme(self) -> str:
        """The chosen theme, or "auto" for that of the reader's system."""
        chosen = self.request.query_params.get("theme") or self.request.cookies.get(THEME_COOKIE, "")
        return chosen if chosen in THEMES else THEMES[0]

    @property
    def notice(self) -> str:
        """The text about the last action, or ""."""
        raw = self.request.cookies.get(NOTICE_COOKIE, "")
        try:
            return unquote(raw, errors="strict")
        except UnicodeError:
            return ""

    def parameter(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def at(self, now: datetime) -> Visit:
        """Return this visit with another present: the store's, as a read model gives it."""
        return dataclasses.replace(self, times=self.times.at(lambda: now))

    def render(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """Return a page, or its content alone for the script of an open page."""
        layout = "actions/dialog.html" if self.is_dialog else "fragment.html" if self.is_fragment else "layout.html"
        text = self.dashboard.templates.render(template, visit=self, layout=layout, **{"live": "", **context})
        response = HTMLResponse(text, status)
        keep_csrf_token(self.request, response)
        self._keep_choices(response)
        if self.notice and not self.is_fragment:
            response.delete_cookie(NOTICE_COOKIE, path=self._cookie_path)
        return response

    def redirect(self, url: str, notice: str = "") -> Response:
        """Send the reader to another page, which shows the notice once."""
        response = RedirectResponse(url, 303)
        if notice:
            # A cookie holds only some characters of ASCII.
            text = quote(notice[:_LONGEST_NOTICE], safe="")
            response.set_cookie(NOTICE_COOKIE, text, path=self._cookie_path, httponly=True, samesite="lax")
        return response

    @property
    def _cookie_path(self) -> str:
        return self.links.root or "/"

    def _keep_choices(self, response: Response) -> None:
        """Keep a zone and a theme that the link chose, so that the next pages have them too."""
        zone, theme = self.parameter("zone"), self.parameter("theme")
        if zone and is_zone(zone):
            response.set_cookie(ZONE_COOKIE, zone, _YEAR, path=self._cookie_path, samesite="lax")
        if theme in THEMES:
            response.set_cookie(THEME_COOKIE, theme, _YEAR, path=self._cookie_path, samesite="lax")


Handler: TypeAlias = Callable[[Visit], Response]
FormHandler: TypeAlias = Callable[[Visit, FormData], Response]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def visit_of(request: Request) -> Visit:
    """Return the visit of a request that was authenticated."""
    dashboard: Dashboard = request.app.state.dashboard
    actor: Actor = request.state.actor
    root = str(request.scope.get(ROOT, ""))
    links = Links(root, request.scope["path"].removeprefix(root) or "/", tuple(request.query_params.multi_items()))
    times = times_of(request, dashboard.clock.now)
    return Visit(dashboard, request, actor, dashboard.operations.acting_as(actor), links, times)


def page(handler: Handler) -> Endpoint:
    """Return the endpoint of a page. Its handler runs in a thread, because reads block."""

    def answer(request: Request) -> Response:
        visit = visit_of(request)
        operations = visit.operations.of_one_page()

        @cache
        def now() -> datetime:
            # Relative times are by the store's clock, by which everything happens. Without a store, the handler fails.
            try:
                return operations.now()
            except QuartzpyError:
                return visit.times.now

        return handler(dataclasses.replace(visit, operations=operations, times=visit.times.at(now)))

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return endpoint


def form(handler: FormHandler) -> Endpoint:
    """Return the endpoint that receives a form. It refuses forged requests; its handler runs in a thread."""

    async def endpoint(request: Request) -> Response:
        fields = await request.form(max_files=0)
        token = fields.get(FIELD)
        check_csrf(request, token if isinstance(token, str) else None)
        return await run_in_threadpool(handler, visit_of(request), fields)

    return endpoint
