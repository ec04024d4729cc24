"""The nodes of a cluster that notifies: `quartzpy node --app tests.cluster.notifying:make_scheduler`.

Retries come soon, and a request says which node sends it, so that a test kills that one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from quartzpy import RetryPolicy, outgoing
from quartzpy.operations.telling import notifications
from tests.cluster.app import SETTINGS_VARIABLE
from tests.cluster.app import make_scheduler as make_scheduler

notifications.RETRY = RetryPolicy(attempts=notifications.RETRY.attempts, delay="100ms", factor=1.5, max_delay="2s")

NODE = json.loads(os.environ[SETTINGS_VARIABLE])["instance_id"] if SETTINGS_VARIABLE in os.environ else ""
_call = outgoing.call


def _call_with_name(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> outgoing.HttpAnswer:
    return _call(method, url, body, {**(headers or {}), "x-node": NODE})


outgoing.call = _call_with_name
