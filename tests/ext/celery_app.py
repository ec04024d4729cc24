"""A Celery app whose broker is a directory: each message is a file."""

from __future__ import annotations

import base64
import json
from os import environ
from pathlib import Path
from typing import Any, NamedTuple

from celery import Celery
from celery.schedules import crontab, schedule

app = Celery("shop")
_folder = environ.get("TEST_CELERY_FOLDER", "/nonexistent")
app.conf.update(
    broker_url="filesystem://",
    broker_transport_options={
        "data_folder_in": _folder,
        "data_folder_out": _folder,
        "control_folder": f"{_folder}/control",
    },
    timezone="Europe/Berlin",
    quartzpy_settings={"failure_window": "30s", "checkin_interval": "500ms", "lock_timeout": "1s"},
    beat_schedule={
        "tick": {"task": "shop.tick", "schedule": schedule(1), "args": ["eu"], "options": {"queue": "ticks"}},
        "nightly": {"task": "shop.nightly", "schedule": crontab("30", "2"), "kwargs": {"region": "eu"}},
    },
)


class Message(NamedTuple):
    """A message of the broker."""

    task: str
    task_id: str
    args: list[Any]
    kwargs: dict[str, Any]
    headers: dict[str, Any]
    queue: str


def messages(folder: Path) -> list[Message]:
    """The messages in a broker's directory that are written completely."""
    found = []
    for path in folder.glob("*.msg"):
        try:
            message = json.loads(path.read_text())
        except (ValueError, FileNotFoundError):
            continue
        args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
        headers = message["headers"]
        queue = message["properties"]["delivery_info"]["routing_key"]
        found.append(Message(headers["task"], headers["id"], args, kwargs, headers, queue))
    return found
