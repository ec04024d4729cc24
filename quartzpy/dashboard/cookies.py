"""The names and attributes of cookies that prove something."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quartzpy.dashboard.links import ROOT


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


def path_of(request: Request) -> str:
    """Return the path below which the application is mounted."""
    return str(request.scope.get(ROOT, request.scope.get("root_path", ""))) or "/"
