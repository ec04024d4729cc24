"""The pages for errors: what was wrong, and where to go from there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from quartzpy import errors
from quartzpy.dashboard.cookies import ForgedRequestError
from quartzpy.dashboard.request_context import context_of
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

_TITLES = {
    400: "That is not a valid request",
    403: "You may not do that",
    404: "There is no such page",
    405: "There is no such page",
    408: "The request took too long",
    409: "That is not possible now",
    413: "The request is too large",
    500: "Something went wrong here",
    503: "The database is unavailable",
}


def _nearest(request: Request, error: Exception) -> str | None:
    """Return the URL of what was probably meant, if the error knows it."""
    key, links = getattr(error, "nearest", None), context_of(request).links
    match key:
        case JobKey():
            return links.job(key)
        case TriggerKey():
            return links.trigger(key)
    return None


def _answer(request: Request, status: int, title: str, text: str, error: Exception) -> Response:
    if getattr(request.state, "actor", None) is None:
        return PlainTextResponse(f"{title}: {text}", status)
    again = status == 503 and request.method == "GET"
    nearest = _nearest(request, error)
    return context_of(request).render("error.html", status=status, title=title, text=text, again=again, nearest=nearest)


def _of_error(status: int, title: str | None = None) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        return _answer(request, status, title or _TITLES[status], " ".join(str(error).split()), error)

    return handler


def _of_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = _TITLES.get(error.status_code, error.detail)
    return _answer(request, error.status_code, title, _sentence(request, error), error)


def _sentence(request: Request, error: HTTPException) -> str:
    path = request.url.path
    match error.status_code, error.detail:
        # The reason phrases of HTTP stand where no code of ours gave a reason.
        case 404, "Not Found":
            return f"This dashboard has no page {path}. The links lead to all of its pages."
        case 405, "Method Not Allowed":
            return f"The page {path} takes no {request.method} request."
    return f"{path}: {error.detail}"


def _of_anything(request: Request, error: Exception) -> Response:
    logger.error("dashboard: %s %s failed", request.method, request.url.path, exc_info=error)
    text = f"{type(error).__name__}: {reason(error)}. The log of the dashboard's process has the traceback."
    return _answer(request, 500, _TITLES[500], text, error)


HANDLERS: Mapping[Any, Any] = {
    HTTPException: _of_status,
    ForgedRequestError: _of_error(403, "This request was refused"),
    errors.ForbiddenError: _of_error(403),
    errors.ObjectNotFoundError: _of_error(404, "Not found"),
    errors.InvalidValueError: _of_error(400),
    errors.StoreUnavailableError: _of_error(503),
    errors.OutcomeUnknownError: _of_error(503, "The database did not answer"),
    errors.QuartzpyError: _of_error(409),
    Exception: _of_anything,
}
"""The responses to errors."""
