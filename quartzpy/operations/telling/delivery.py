"""The job that sends notifications, and how they are sent: to a webhook, or by apprise."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quartzpy import outgoing
from quartzpy.config.notifying import Channel, is_webhook
from quartzpy.errors import NotAllowedError
from quartzpy.installing import install_line
from quartzpy.jobs.included import settings_of_node
from quartzpy.jobs.job import Job
from quartzpy.jobs.sent_secrets import SentSecrets
from quartzpy.logs.discretion import discreet
from quartzpy.operations.telling.notifications import ENTRY, NOTIFICATION_TYPE, RETRY
from quartzpy.outgoing import OutgoingError, read_place
from quartzpy.store.postgresql.admin import admin
from quartzpy.texts import storable_text, visible

if TYPE_CHECKING:
    from quartzpy.jobs.context import JobExecutionContext

MAX_ERROR = 500
MAX_TITLE = 200
_KINDS = {"error": "failure", "warning": "warning", "info": "info"}
"""The kinds of messages of apprise."""


class NotificationJob(Job, type_name=NOTIFICATION_TYPE, operators_set=()):
    """Sends a notification that was stored with its incidents. Each attempt has the same id, and so has a repetition.

    Raises:
        OutgoingError: it was not delivered; the job's retry policy says when it is tried again.
    """

    allowed_by = "notify_channels"

    def execute(self, context: JobExecutionContext) -> Any:
        """Send the notification that the trigger names, unless it was delivered before."""
        settings = settings_of_node(context)
        name, notification_id = context.job_key.name, str(context.job_data.get(ENTRY, ""))
        if name not in settings.channels:
            raise NotAllowedError(f"the setting notify_channels of this node has no {name!r}")
        views = admin(context.scheduler._store)
        row = views.notification(notification_id)
        if row is None:
            return "it is not stored any more"
        if row.is_delivered:
            return "it was delivered before"
        try:
            answer = send(settings.channels[name], row.document, notification_id)
        except OutgoingError as error:
            is_last = context.attempt >= RETRY.attempts
            views.note_attempt(notification_id, storable_text(str(error))[:MAX_ERROR], is_last=is_last)
            raise
        views.note_attempt(notification_id, None, is_last=False)
        return answer


def send(channel: Channel, document: Mapping[str, Any], notification_id: str) -> str:
    """Send a message to a channel. Return what it answered, in a few words.

    Raises:
        OutgoingError: it was not delivered. The message is short, and has no secret.
    """
    url = read_place(channel.url)
    with discreet(_without(url)):
        if is_webhook(url):
            return _post(url, channel, document, notification_id)
        return _by_apprise(url, document)


def _without(url: str) -> Callable[[str], str]:
    """Return a function that takes the parts of a URL out of a text: each of them may be the secret."""
    sent = SentSecrets()
    sent.add(url, *filter(None, re.split(r"[/?&=#:@]+", url.partition("://")[2])))
    return sent.scrub


def _post(url: str, channel: Channel, document: Mapping[str, Any], notification_id: str) -> str:
    body = json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")
    secret = None if channel.secret is None else read_place(channel.secret)
    headers = {"content-type": "application/json", "idempotency-key": notification_id}
    headers |= outgoing.webhook_headers(secret, body, notification_id, int(time.time()))
    answer = outgoing.call("POST", url, body, headers)
    if 200 <= answer.status < 300:
        return f"status {answer.status}"
    text = f", which begins: {answer.text}" if answer.text else ""
    raise OutgoingError(f"the webhook answered with status {answer.status}{text}"[:MAX_ERROR])


def _by_apprise(url: str, document: Mapping[str, Any]) -> str:
    try:
        import apprise
    except ImportError:
        raise OutgoingError(f"this URL needs apprise on the node: {install_line('notify')}") from None
    service = apprise.Apprise()
    title, text = visible(str(document["title"])), str(document["text"])
    try:
        if not service.add(url):
            raise OutgoingError("apprise does not know this URL: its scheme is unknown, or a part of it is missing")
        # What it logs names the cause, but may contain the URL.
        is_sent = service.notify(
            title=title[:MAX_TITLE],
            body=text or title,
            notify_type=_KINDS.get(str(document["severity"]), "info"),
            body_format="text",
        )
    except OutgoingError:
        raise
    except Exception as error:
        # Its text may contain the URL.
        raise OutgoingError(f"apprise failed: {type(error).__name__}") from None
    if not is_sent:
        raise OutgoingError("apprise did not deliver it; the logger apprise of the node says why")
    return "delivered"
