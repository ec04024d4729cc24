"""The web page of a scheduler: an ASGI application for the user's own server, or for `quartzpy dashboard`.

It needs the extra `dashboard`.
"""

from quartzpy.dashboard.app import create_app
from quartzpy.dashboard.auth import Authenticator, allow_everyone, basic_auth, token_auth

__all__ = ["Authenticator", "allow_everyone", "basic_auth", "create_app", "token_auth"]
