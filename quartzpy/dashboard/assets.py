"""The static files. Their URLs contain a hash of their content, so browsers may keep them for ever."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_SHIPPED = (
    "app.css", "actions.css", "timeline.css", "app.js", "actions.js", "timeline.js", "theme.js", "icon.svg",
    "vendor/htmx-4.0.1.min.js",
)  # fmt: skip
_SMALLEST_COMPRESSED = 1_000
FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file in memory."""

    name: str
    content: bytes
    compressed: bytes
    media_type: str
    digest: str
    """The first twelve hexadecimal digits of the content's SHA-256."""


@cache
def assets() -> dict[str, Asset]:
    """Return all static files by name. They are read once per process."""
    root = files("quartzpy.dashboard").joinpath("static")
    by_name = {}
    for name in _SHIPPED:
        content = root.joinpath(name).read_bytes()
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        digest = hashlib.sha256(content).hexdigest()[:12]
        by_name[name] = Asset(name, content, gzip.compress(content, mtime=0), media_type, digest)
    return by_name


def asset_path(name: str) -> str:
    """Return the path of a static file below the application's prefix."""
    return f"/static/{assets()[name].digest}/{name}"


async def serve_asset(request: Request) -> Response:
    """Answer with a static file, compressed where the browser accepts that."""
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise HTTPException(404)
    # A page of another release may still be open and ask for its own file: that one must not be kept for ever.
    is_current = request.path_params["digest"] == asset.digest
    headers = {"Cache-Control": FOR_EVER if is_current else "no-cache", "Vary": "Accept-Encoding"}
    content = asset.content
    if len(content) >= _SMALLEST_COMPRESSED and "gzip" in request.headers.get("accept-encoding", ""):
        content = asset.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)
