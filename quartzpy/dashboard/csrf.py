"""Protection against forged requests: a random token in a cookie, which each form and each API request repeats.

A page of another site can make the browser send the cookie, but can neither read it nor repeat it in the request. The
cookie is also SameSite=Lax, and requests that the browser itself marks as coming from another site are refused.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from quartzpy.dashboard import cookies

COOKIE = "quartzpy_csrf"
FIELD = "csrf_token"
"""The name of the hidden field of each form."""
HEADER = "X-CSRF-Token"
_LENGTH = 32


class ForgedRequestError(Exception):
    """A request that changes something does not prove that it comes from a page of this application."""


def csrf_token(request: Request) -> str:
    """Return the token of this browser, a new one if it has none yet."""
    known = cookies.read(request, COOKIE)
    if not _is_token(known):
        known = getattr(request.state, "csrf_token", "") or secrets.token_urlsafe(_LENGTH)
        request.state.csrf_token = known
    return known


def keep_csrf_token(request: Request, response: Response) -> None:
    """Set the cookie if this request made a new token."""
    made = getattr(request.state, "csrf_token", "")
    if made:
        cookies.keep(request, response, COOKIE, made)


def check_csrf(request: Request, given: str | None) -> None:
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
    cookie = cookies.read(request, COOKIE)
    token = given or request.headers.get(HEADER, "")
    if not _is_token(cookie) or not hmac.compare_digest(cookie.encode(), token.encode()):
        raise ForgedRequestError("the form's token is missing or expired; reload the page and send the form again")


def _is_token(text: str) -> bool:
    return len(text) >= _LENGTH
