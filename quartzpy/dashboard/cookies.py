"""Cookies that prove something: their names and attributes, and the token that protects against forged requests.

The token is random, in a cookie, and each form and each API request repeats it. A page of another site can make the
browser send the cookie, but can neither read it nor repeat it in the request. The cookie is also SameSite=Lax, and
requests that the browser itself marks as coming from another site are refused.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from quartzpy.dashboard.links import ROOT

URLENCODED = "application/x-www-form-urlencoded"
MAX_FIELDS = 1_000
"""The most fields of a form. A page with selected rows has one for each."""


def named(request: Request, name: str) -> str:
    """Return the name of a cookie in this request.

    Over TLS it has a prefix. A browser accepts such a cookie only with the attribute Secure, so that nobody on the
    way of an unencrypted request can set it, and `__Host-` only from the host itself.
    """
    if not is_secure(request):
        return name
    return f"__Host-{name}" if path_of(request) == "/" else f"__Secure-{name}"


def read(request: Request, name: str) -> str:
    """Return the value of a cookie, or ""."""
    return request.cookies.get(named(request, name), "")


def keep(request: Request, response: Response, name: str, value: str, max_age: int | None = None) -> None:
    """Set a cookie that no script can read and that other sites' forms do not send."""
    response.set_cookie(
        named(request, name),
        value,
        max_age,
        path=path_of(request),
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )


def forget(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    response.delete_cookie(
        named(request, name), path=path_of(request), httponly=True, samesite="lax", secure=is_secure(request)
    )


def is_secure(request: Request) -> bool:
    """Return whether the browser sent this request over TLS, as far as the server or the application knows."""
    return request.url.scheme == "https"


def address_of(request: Request) -> str:
    """Return the address of the client, or "" if the server does not tell it."""
    return request.client.host if request.client else ""


def path_of(request: Request) -> str:
    """Return the path below which the application is mounted."""
    return str(request.scope.get(ROOT, request.scope.get("root_path", ""))) or "/"


CSRF_COOKIE = "quartzpy_csrf"
CSRF_FIELD = "csrf_token"
"""The name of the hidden field of each form."""
CSRF_HEADER = "X-CSRF-Token"
_LENGTH = 32


class ForgedRequestError(Exception):
    """A request that changes something does not prove that it comes from a page of this application."""


def csrf_token(request: Request) -> str:
    """Return the token of this browser, a new one if it has none yet."""
    token = read(request, CSRF_COOKIE)
    if not _is_token(token):
        token = getattr(request.state, "csrf_token", "") or secrets.token_urlsafe(_LENGTH)
        request.state.csrf_token = token
    return token


def keep_csrf_token(request: Request, response: Response) -> None:
    """Set the cookie if this request made a new token."""
    made = getattr(request.state, "csrf_token", "")
    if made:
        keep(request, response, CSRF_COOKIE, made)


def check_csrf(request: Request, form_token: str | None) -> None:
    """Check the token of a request that changes something: that of the form, or that of the header X-CSRF-Token.

    Requests that authenticate by a bearer token need none, because browsers never send one by themselves.

    Raises:
        ForgedRequestError: the token is missing or is not that of the cookie, or the request comes from another site.
    """
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ForgedRequestError("the browser says that another site sent this request")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForgedRequestError(f"this request comes from {origin}, not from this page")
    cookie = read(request, CSRF_COOKIE)
    token = form_token or request.headers.get(CSRF_HEADER, "")
    if not _is_token(cookie) or not hmac.compare_digest(cookie.encode(), token.encode()):
        raise ForgedRequestError("the form's token is missing or expired; reload the page and send the form again")


async def checked_form(request: Request) -> FormData:
    """Return the fields of a form whose token is right.

    Raises:
        HTTPException: the form is not urlencoded, or has too many fields.
        ForgedRequestError: as `check_csrf`.
    """
    fields = await _fields(request)
    token = fields.get(CSRF_FIELD)
    check_csrf(request, token if isinstance(token, str) else None)
    return fields


async def _fields(request: Request) -> FormData:
    """Return the fields of a form. All forms of the pages are urlencoded: no other encoding is read."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != URLENCODED:
        if kind.startswith("multipart/"):
            raise HTTPException(415, f"expected a form of the type {URLENCODED}, not {kind}")
        return FormData()
    body = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qsl(body, keep_blank_values=True, errors="replace", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise HTTPException(400, f"expected at most {MAX_FIELDS:,} fields in a form") from None
    return FormData([*fields])


def _is_token(text: str) -> bool:
    return len(text) >= _LENGTH
