"""One request of a reader: who asks, what they may do, in which zone they read, what they filter by, and the answer."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Awaitable, Callable, Sequence
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
from quartzpy.dashboard.cookies import checked_form, csrf_token, keep_csrf_token
from quartzpy.dashboard.links import ROOT, Links
from quartzpy.dashboard.lists import COLUMNS
from quartzpy.dashboard.rendering import render
from quartzpy.dashboard.shown_times import ZONE_COOKIE, Times, is_zone, times_of
from quartzpy.errors import QuartzpyError
from quartzpy.instants import zone
from quartzpy.operations import Actor, Operations
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.lists.spec import ListSpec
from quartzpy.operations.views.triggers import OVERDUE
from quartzpy.scheduler.typed_text import read_filter, read_instant
from quartzpy.states import ExecutionState, TriggerState, folded_word
from quartzpy.store.filters import Filter

THEME_COOKIE = "quartzpy_theme"
THEMES = ("auto", "light", "dark")
COLUMNS_COOKIE = "quartzpy_columns"
NOTICE_COOKIE = "quartzpy_notice"
"""The text that the next page shows once, after an action."""
FOLLOWED_COOKIE = "quartzpy_followed"
"""The query of the run that this text follows to its end."""
DIALOG = "X-Dialog"
_YEAR = 365 * 86_400
_MAX_NOTICE = 1_000
_MAX_QUERY = 2_000
_SMALLEST_COMPRESSED = 1_000
_QUICK = 5
"""The level of compression: a page of 60 kB takes about a millisecond, and 9 is a few percent smaller."""


Menu: TypeAlias = Sequence[tuple[str, Sequence[tuple[Any, Sequence[str]]]]]
"""The headings of the menu with their pages, and the paths of the pages that belong to each of them."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all requests of one application share."""

    operations: Operations
    """The operations, not yet acting as anyone."""
    clock: Clock
    title: str
    menu: Menu
    read_only: bool
    can_log_out: bool


@dataclass(frozen=True, slots=True)
class RequestContext:
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
    def has_session(self) -> bool:
        """True if the reader has logged in."""
        return getattr(self.request.state, "session", None) is not None

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

    @property
    def followed(self) -> str:
        """The query of the run that the notice follows, or ""."""
        raw = self.request.cookies.get(FOLLOWED_COOKIE, "")
        try:
            return unquote(raw, errors="strict")
        except UnicodeError:
            return ""

    def parameter(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def at(self, now: datetime) -> RequestContext:
        """Return this context with another present: the store's, as a read model gives it."""
        return dataclasses.replace(self, times=self.times.at(lambda: now))

    def chosen_columns(self, list_name: str) -> list[str] | None:
        """Return the names of the columns that the reader chose for a list; None if they never did."""
        names = self.request.cookies.get(f"{COLUMNS_COOKIE}_{list_name}")
        return None if names is None else names.split(".")

    def with_columns(self, list_name: str, names: Sequence[str]) -> Response:
        """Keep the columns that a form chose for a list, and send the reader back to it."""
        response = RedirectResponse(self.links.here(**{COLUMNS: None}), 303)
        value = ".".join(names) or "none"
        name = f"{COLUMNS_COOKIE}_{list_name}"
        response.set_cookie(name, value, _YEAR, path=self._cookie_path, httponly=True, samesite="lax")
        return response

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page, or its content alone for the script of an open page."""
        layout = "actions/dialog.html" if self.is_dialog else "fragment.html" if self.is_fragment else "layout.html"
        text = render(template, context=self, layout=layout, **{"live": "", "every": "", "is_steady": False, **values})
        response = self._answer(text, status)
        keep_csrf_token(self.request, response)
        self._keep_choices(response)
        if self.notice and not self.is_fragment:
            response.delete_cookie(NOTICE_COOKIE, path=self._cookie_path)
            if self.followed:
                response.delete_cookie(FOLLOWED_COOKIE, path=self._cookie_path)
        return response

    def _answer(self, text: str, status: int) -> Response:
        """Return the response, compressed if it is for the script of an open page and large.

        A whole page is not compressed: it has the CSRF token, and another site could open it with texts of its choice,
        and learn the token from the sizes (the BREACH attack). No other site can send the header of the script.
        """
        content = text.encode()
        if (
            not self.is_fragment
            or len(content) < _SMALLEST_COMPRESSED
            or "gzip" not in self.request.headers.get("accept-encoding", "")
        ):
            return HTMLResponse(content, status)
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return HTMLResponse(gzip.compress(content, _QUICK, mtime=0), status, headers)

    def redirect(self, url: str, notice: str = "", followed: str = "") -> Response:
        """Send the reader to another page, which shows the notice once.

        With `followed`, a query of `Operations.followed`, the notice goes on with the end of that run.
        """
        response = RedirectResponse(url, 303)
        # A cookie holds only some characters of ASCII.
        for name, text in (
            (NOTICE_COOKIE, quote(notice[:_MAX_NOTICE], safe="")),
            (FOLLOWED_COOKIE, quote(followed, safe="")),
        ):
            if text and (name == NOTICE_COOKIE or len(text) <= _MAX_QUERY):
                response.set_cookie(name, text, path=self._cookie_path, httponly=True, samesite="lax")
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


Handler: TypeAlias = Callable[[RequestContext], Response]
FormHandler: TypeAlias = Callable[[RequestContext, FormData], Response]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def context_of(request: Request) -> RequestContext:
    """Return the context of a request that was authenticated."""
    dashboard: Dashboard = request.app.state.dashboard
    actor: Actor = request.state.actor
    root = str(request.scope.get(ROOT, ""))
    links = Links(root, request.scope["path"].removeprefix(root) or "/", tuple(request.query_params.multi_items()))
    times = times_of(request, dashboard.clock.now)
    return RequestContext(dashboard, request, actor, dashboard.operations.acting_as(actor), links, times)


def page(handler: Handler) -> Endpoint:
    """Return the endpoint of a page. Its handler runs in a thread, because reads block."""

    def answer(request: Request) -> Response:
        context = context_of(request)
        operations = context.operations.of_one_page()

        @cache
        def now() -> datetime:
            # Relative times are by the store's clock, by which everything happens. Without a store, the handler fails.
            try:
                return operations.now()
            except QuartzpyError:
                return context.times.now

        return handler(dataclasses.replace(context, operations=operations, times=context.times.at(now)))

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return endpoint


def form_page(handler: FormHandler) -> Endpoint:
    """Return the endpoint that receives a form. It refuses forged requests; its handler runs in a thread."""

    async def endpoint(request: Request) -> Response:
        fields = await checked_form(request)
        return await run_in_threadpool(handler, context_of(request), fields)

    return endpoint


PAGE_SIZE = 50
LATE = "LATE"
"""The filter for waiting triggers that are past due; it is not a state of a trigger."""
EXHAUSTED = "EXHAUSTED"
"""The filter for failed executions that no retry follows; it is not a state of an execution."""
RUNNING = (ExecutionState.PROCESSING, ExecutionState.ENQUEUED)


def page_position(context: RequestContext) -> dict[str, Any]:
    """Return the limit and the cursor of a list."""
    return {"limit": PAGE_SIZE, "after": context.parameter("after")}


def chosen_filters(context: RequestContext, spec: ListSpec[Any]) -> dict[str, Any]:
    """Return the filters of a list that a request gives, by their names; None for those that it does not.

    The group of a key may be apart, as links have it, and the bounds of a span have names of their own in a form.

    Raises:
        InvalidValueError: the text of a filter is no value of it.
    """
    return {declared.name: _filter(context, declared) for declared in spec.filters}


_OF_FORM = {"since": "from", "until": "to"}


def _filter(context: RequestContext, declared: Filter) -> Any:
    for name in filter(None, (_OF_FORM.get(declared.name), declared.name)):
        if (text := context.parameter(name)) is not None:
            break
    else:
        return None
    return declared.kind is bool or read_filter(
        declared,
        text,
        context.operations.scheduler,
        lambda: context.times.now,
        zone(context.times.zone_name),
        name=name,
        group=context.parameter(f"{name}_group"),
    )


def state_filter(context: RequestContext) -> str | None:
    """Return the filter by state, or one of the words that are no states."""
    state = context.parameter("state")
    return None if state is None else folded_word(state).upper()


def job_filters(context: RequestContext) -> dict[str, Any]:
    """Return the filters of the list of jobs."""
    return chosen_filters(context, JOBS)


def trigger_filters(context: RequestContext) -> dict[str, Any]:
    """Return the filters of the list of triggers."""
    filters = chosen_filters(context, TRIGGERS)
    if state_filter(context) == LATE:
        filters |= {"state": TriggerState.WAITING, "until": context.operations.now() - OVERDUE}
    # Whoever looks for something finds it; only the whole list leaves out what nobody scheduled to repeat.
    if all(value is None for value in filters.values()) and context.parameter("all") is None:
        filters["by_schedule"] = True
    return filters


def execution_filters(context: RequestContext) -> dict[str, Any]:
    """Return the filters of the list of executions."""
    filters, state = chosen_filters(context, EXECUTIONS), state_filter(context)
    if state == EXHAUSTED:
        filters |= {"state": [ExecutionState.FAILED], "exhausted": True}
    return {**filters, "state": RUNNING if state == "RUNNING" else filters["state"]}


def instant_filter(context: RequestContext, name: str) -> datetime | None:
    """Return an instant in the past, as `read_instant` reads it in the reader's zone.

    Raises:
        InvalidValueError: it is none.
    """
    text = context.parameter(name)
    if text is None:
        return None
    return read_instant(text, name, lambda: context.times.now, zone(context.times.zone_name))
