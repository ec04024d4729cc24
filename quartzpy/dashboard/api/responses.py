"""The responses of the API beside read models: errors as problem details (RFC 9457), and actions that go on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from quartzpy import errors
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
PROBLEM_SCHEMA: dict[str, Any] = {
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "The kind of error: `about:blank`, or `urn:quartzpy:` and its name."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": ["string", "null"], "description": "Of a wrong cron expression: the field."},
        "position": {"type": ["integer", "null"], "description": "Of a wrong cron expression: the character, from 0."},
        "faults": {
            "type": "array",
            "description": "All faults of a definition.",
            "items": {
                "type": "object",
                "properties": {
                    "pointer": {"type": "string", "description": "The place in the body, as a JSON pointer."},
                    "detail": {"type": "string"},
                    "error": {"type": "string"},
                    "field": {"type": ["string", "null"]},
                    "position": {"type": ["integer", "null"]},
                },
                "required": ["pointer", "detail"],
                "additionalProperties": False,
            },
        },
        "current": {
            "type": ["object", "null"],
            "description": "The definition that is stored, where the request expects another.",
        },
    },
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
}
_STATUSES: Mapping[type[Exception], int] = {
    errors.InvalidDefinitionError: 422,
    errors.PreconditionFailedError: 412,
    errors.ForbiddenError: 403,
    errors.ObjectNotFoundError: 404,
    errors.InvalidValueError: 400,
    errors.StoreUnavailableError: 503,
    errors.OutcomeUnknownError: 503,
    errors.SchemaError: 503,
    errors.QuartzpyError: 409,
}


class ProblemResponse(JSONResponse):
    """A response with problem details."""

    media_type = PROBLEM_TYPE

    def render(self, content: Any) -> bytes:
        # A name that was sent may contain text that is not valid Unicode, which only ASCII can carry.
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def problem(status: int, detail: str, *, kind: str = "about:blank", **more: Any) -> Response:
    """Return a response with problem details."""
    body = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return ProblemResponse(body, status)


def problem_of(refusal: Response) -> Response:
    """Return the refusal of a request without authentication as problem details; a redirection becomes status 401."""
    status = refusal.status_code if refusal.status_code >= 400 else 401
    text = bytes(refusal.body).decode() if refusal.status_code >= 400 else "This request does not say who sends it."
    response = problem(status, " ".join(text.split()))
    for name in ("WWW-Authenticate", "Retry-After"):
        if (value := refusal.headers.get(name)) is not None:
            response.headers[name] = value
    return response


def _of_error(status: int) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        more: dict[str, Any] = {}
        if isinstance(error, errors.InvalidCronError):
            more = {"field": error.field, "position": error.position}
        if isinstance(error, errors.InvalidDefinitionError):
            more = {"faults": [asdict(fault) for fault in error.faults]}
        current = error.current if isinstance(error, errors.PreconditionFailedError) else None
        if isinstance(error, errors.PreconditionFailedError):
            more = {"current": None if current is None else dict(current.document)}
        response = problem(status, str(error), kind=f"urn:quartzpy:{type(error).__name__}", **more)
        if current is not None:
            response.headers["ETag"] = f'"{current.tag}"'
        return response

    return handler


def _of_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if (error.status_code, detail) == (404, "Not Found"):
        detail = "there is nothing at this address; /api/v1/openapi.json describes all addresses"
    response = problem(error.status_code, f"{request.method} {request.url.path}: {detail}")
    response.headers.update(error.headers or {})
    return response


def _of_anything(request: Request, error: Exception) -> Response:
    logger.error("api: %s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, f"{type(error).__name__}: {reason(error)}. The log of this process has the traceback.")


HANDLERS: Mapping[Any, Any] = {
    HTTPException: _of_status,
    **{error: _of_error(status) for error, status in _STATUSES.items()},
    Exception: _of_anything,
}
"""The responses to errors."""


@dataclass(frozen=True, slots=True)
class AcceptedAction:
    """An action that is going on. The header `Location` has the address of its entry in the audit log."""

    action_id: int
    changed: int
    """The number of subjects that are changed so far."""
    failed: int
    """The number of those that could not be changed."""
    total: int
    """The number of subjects when the action began."""
