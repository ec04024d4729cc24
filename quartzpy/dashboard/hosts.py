"""The Host header of a request, by a strict grammar: a browser may be led here by the name of another site.

It is read as it was sent. What a framework says about it may be the address of the socket, where it cannot read it.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,255}|\[(?P<address>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?")


def host_of(scope: Scope) -> str | None:
    """Return the host that a request names, without its port; "" if it names none, and None if it is none."""
    values = [value for name, value in scope["headers"] if name.lower() == b"host"]
    if not values:
        return ""
    match = _HOST.fullmatch(values[0].decode("latin-1"))
    if match is None or len(values) > 1 or int(match["port"] or 0) > 65_535:
        return None
    if match["address"] is None:
        return match["name"].lower()
    try:
        return str(ipaddress.IPv6Address(match["address"]))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is that of this machine alone."""
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class KnownHost:
    """ASGI middleware that refuses requests whose Host header is not that of a host, whoever sends them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = host_of(scope)
            # HTTP/1.0 knows no such header, which all later versions demand.
            if host is None or (not host and scope.get("http_version", "1.1") != "1.0"):
                await PlainTextResponse("The Host header is not that of a host.\n", 400)(scope, receive, send)
                return
        await self._app(scope, receive, send)
