from __future__ import annotations

from tests.facade.conftest import client, make_scheduler, url

__all__ = ["client", "make_scheduler", "url"]
